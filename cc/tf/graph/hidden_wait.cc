#include "cc/tf/graph/hidden_wait.h"

#include <map>
#include <set>

#include "cc/tf/graph/collectives.h"
#include "cc/tf/graph/function_calls.h"
#include "cc/tf/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

// A function that XLA compiles is one program: it waits for nothing but what is in it.
bool IsCompiledCall(const NodeDef& node) {
  const auto compiled = node.attr().find("_XlaMustCompile");
  return (node.op() == "PartitionedCall" || node.op() == "StatefulPartitionedCall") && compiled != node.attr().end() &&
         compiled->second.b();
}

// Asks each function once, however many call it.
class Waits {
 public:
  explicit Waits(const tensorflow::FunctionDefLibrary& functions)
      : library_(tensorflow::OpRegistry::Global(), functions) {}

  // `compiled`: the node is in a function that XLA compiles.
  bool MayWait(const NodeDef& node, bool compiled) {
    const tensorflow::OpDef* op_def = nullptr;
    if (!library_.LookUpOpDef(node.op(), &op_def).ok()) return compiled;
    const bool call = IsCompiledCall(node) || (compiled && node.attr().count("f") != 0);
    if (!call) return MayWaitForOthers(node.op(), *op_def);
    const auto called = node.attr().find("f");
    return called == node.attr().end() || MayWait(called->second.func().name());
  }

 private:
  bool MayWait(const std::string& function) {
    // True while it is being asked: a function that calls itself is not understood.
    const auto [known, unknown] = known_.emplace(function, true);
    const tensorflow::FunctionDef* body = library_.Find(function);
    if (!unknown || body == nullptr) return known->second;
    bool waits = false;
    for (const NodeDef& inner : body->node_def()) waits = waits || MayWait(inner, /*compiled=*/true);
    return known_[function] = waits;
  }

  const tensorflow::FunctionLibraryDefinition library_;
  std::map<std::string, bool> known_;
};

bool DescribesDataset(const std::string& op) {
  return op.find("Dataset") != std::string::npos && op != "ReduceDataset";
}

bool IsCall(const std::string& op) { return op == "PartitionedCall" || op == "StatefulPartitionedCall"; }

std::string FirstWait(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index, bool collectives) {
  Waits waits(item.graph.library());
  for (int i = 0; i < index.size(); ++i) {
    const NodeDef& node = item.graph.node(i);
    if (!index[i].live || (!collectives && IsCollective(node.op()))) continue;
    if (waits.MayWait(node, /*compiled=*/false)) return node.name() + " (" + node.op() + ")";
  }
  return "";
}

}  // namespace

std::string HiddenWait(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index) {
  return FirstWait(item, index, /*collectives=*/true);
}

std::string UnknownWait(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index) {
  const Collectives collectives = FindCollectives(item.graph, index);
  if (!collectives.problem.empty()) return collectives.problem + ": collective operations";
  return FirstWait(item, index, /*collectives=*/false);
}

std::string SeveralProcesses(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index) {
  std::set<std::string> tasks;
  for (int i = 0; i < index.size(); ++i) {
    const std::string& device = item.graph.node(i).device();
    const size_t end = device.find("/device:");
    // Where only a device's name stands, it is one of this process.
    if (index[i].live && device.rfind("/job:", 0) == 0 && end != std::string::npos) tasks.insert(device.substr(0, end));
  }
  if (tasks.size() < 2) return "";
  std::string text;
  for (const std::string& task : tasks) {
    text += (text.empty() ? "" : task == *tasks.rbegin() ? " and " : ", ") + task;
  }
  return text;
}

std::string UnseenCalls(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index) {
  int calls = 0;
  const NodeDef* example = nullptr;
  for (int i = 0; i < index.size(); ++i) {
    const NodeDef& node = item.graph.node(i);
    if (!index[i].live || !NamesFunction(node) || IsCompiledCall(node) || DescribesDataset(node.op())) continue;
    if (++calls == 1) example = &node;
  }
  if (calls == 0) return "";
  const std::string advice = IsCall(example->op())              ? ": leave _noinline out"
                             : example->op() == "ReduceDataset" ? ": loop over iter(dataset), not over the dataset"
                                                                : "";
  return std::to_string(calls) + (calls == 1 ? " function" : " functions") +
         " that TensorFlow runs apart from the step (" + example->name() + ", " + example->op() + advice + ")";
}

}  // namespace lms
