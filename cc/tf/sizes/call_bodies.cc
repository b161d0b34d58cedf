#include "cc/tf/sizes/call_bodies.h"

#include <utility>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/grappler/utils/functions.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
namespace grappler = tensorflow::grappler;

constexpr int kMostNodes = 20000;  // added to one graph
constexpr int kMostDepth = 8;      // of calls in bodies of calls: a function may call itself
constexpr char kMustCompile[] = "_XlaMustCompile";

// As Grappler writes it: output 0 without its number.
std::string Normal(const std::string& input) {
  const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
  return id.index() < 0 ? input : InputName(std::string(id.node()), id.index());
}

bool IsControl(const std::string& input) { return !input.empty() && input.front() == '^'; }

template <typename Attrs>
bool HasTrue(const Attrs& attrs, const char* name) {
  const auto found = attrs.find(name);
  return found != attrs.end() && found->second.b();
}

class Writer {
 public:
  explicit Writer(GraphDef* graph)
      : graph_(graph), library_(tensorflow::OpRegistry::Global(), graph->library()), own_(graph->node_size()) {}

  std::unordered_map<std::string, CallBody> Run() {
    std::unordered_map<std::string, CallBody> bodies;
    for (int i = 0; i < graph_->node_size(); ++i) {  // which grows
      if (CallBodies::IsCall(graph_->node(i))) WriteOutOne(i);
    }
    if (bodies_.empty()) return bodies;
    for (NodeDef& node : *graph_->mutable_node()) {
      for (std::string& input : *node.mutable_input()) input = Resolved(input);
    }
    for (auto& [call, body] : bodies_) {
      for (std::string& result : body.results) result = Resolved(result);
      bodies.emplace(graph_->node(call).name(), std::move(body));
    }
    return bodies;
  }

 private:
  struct Origin {
    int root;   // the graph's call that the node belongs to
    int depth;  // 1: to its own body
  };

  // What stands for the tensor. A body may return what a call in it returns, or its own argument.
  std::string Resolved(const std::string& input) const {
    if (instead_.empty() || IsControl(input)) return input;
    std::string tensor = Normal(input);
    for (size_t steps = 0; steps <= instead_.size(); ++steps) {
      const auto found = instead_.find(tensor);
      if (found == instead_.end()) return steps == 0 ? input : tensor;
      tensor = found->second;
    }
    return input;  // a body that only calls itself
  }

  void WriteOutOne(int call) {
    const NodeDef node = graph_->node(call);  // the graph grows
    const Origin origin = call < own_ ? Origin{call, 0} : origin_[call - own_];
    if (origin.depth >= kMostDepth) return;
    const auto& function = node.attr().at("f").func();
    const tensorflow::FunctionDef* definition = library_.Find(function.name());
    if (definition == nullptr || added_ + definition->node_def_size() > kMostNodes) return;
    grappler::GrapplerFunctionItem body;
    if (!grappler::MakeGrapplerFunctionItem(*definition, tensorflow::AttrSlice(&function.attr()), library_,
                                            graph_->versions().producer(), &body)
             .ok()) {
      return;
    }
    const std::string prefix = node.name() + "/lms_body/";
    std::unordered_map<std::string, std::string> arguments;  // by node of the body
    for (size_t i = 0; i < body.input_size(); ++i) {
      if (static_cast<int>(i) >= node.input_size() || IsControl(node.input(static_cast<int>(i)))) return;
      arguments[body.input(static_cast<int>(i)).node_name] = Normal(node.input(static_cast<int>(i)));
    }
    const auto outside = [&](const std::string& input) -> std::string {
      const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
      const auto argument = arguments.find(std::string(id.node()));
      if (IsControl(input)) return argument == arguments.end() ? "^" + prefix + input.substr(1) : "";
      return argument == arguments.end() ? prefix + Normal(input) : argument->second;
    };
    std::unordered_map<std::string, std::string> returned;  // by the node that returns it
    for (const NodeDef& inner : body.graph.node()) {
      if (inner.op() == "_Retval" && inner.input_size() > 0) returned[inner.name()] = outside(inner.input(0));
    }
    std::vector<std::string> results;
    for (size_t port = 0; port < body.output_size(); ++port) {
      const auto found = returned.find(body.output(static_cast<int>(port)).node_name);
      if (found == returned.end()) return;
      results.push_back(found->second);
    }
    for (const NodeDef& inner : body.graph.node()) {
      if (inner.op() == "_Retval" || inner.op() == "_Arg") continue;
      NodeDef* added = graph_->add_node();
      *added = inner;
      added->set_name(prefix + inner.name());
      added->set_device(node.device());
      added->clear_input();
      for (const std::string& input : inner.input()) {
        const std::string from = outside(input);
        if (!from.empty()) added->add_input(from);
      }
      origin_.push_back({origin.root, origin.depth + 1});
      bodies_[origin.root].nodes.push_back(added->name());
      ++added_;
    }
    for (size_t port = 0; port < results.size(); ++port) {
      instead_[InputName(node.name(), static_cast<int>(port))] = results[port];
    }
    if (origin.depth > 0) return;
    bodies_[call].results = std::move(results);
    bodies_[call].compiled = HasTrue(node.attr(), kMustCompile) || HasTrue(definition->attr(), kMustCompile);
  }

  GraphDef* graph_;
  tensorflow::FunctionLibraryDefinition library_;
  int own_;  // nodes of the graph as it was
  int added_ = 0;
  std::vector<Origin> origin_;                            // per added node
  std::unordered_map<int, CallBody> bodies_;              // by call
  std::unordered_map<std::string, std::string> instead_;  // of an output of a call
};

}  // namespace

bool CallBodies::IsCall(const NodeDef& node) {
  if (node.op() != "PartitionedCall" && node.op() != "StatefulPartitionedCall") return false;
  const auto function = node.attr().find("f");
  return function != node.attr().end() && function->second.has_func();
}

void CallBodies::Strip(GraphDef* graph) {
  for (auto& function : *graph->mutable_library()->mutable_function()) {
    function.clear_node_def();
    function.clear_ret();
    function.clear_control_ret();
  }
}

void CallBodies::WriteOut(GraphDef* graph) {
  bodies_ = Writer(graph).Run();
  Strip(graph);
}

const CallBody* CallBodies::Of(const std::string& call) const {
  const auto found = bodies_.find(call);
  return found == bodies_.end() ? nullptr : &found->second;
}

}  // namespace lms
