#include "cc/tf/graph/graph_check.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/op_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

using tensorflow::AttrValue;
using tensorflow::NodeDef;
using tensorflow::OpDef;

constexpr int64_t kMostOutputs = 1 << 20;  // of one node; types are listed one by one
// What is multiplied to sizes: above it neither TensorFlow nor the planner could add up bytes.
constexpr int64_t kMostElements = int64_t{1} << 56;

absl::Status Wrong(const NodeDef& node, const std::string& what) {
  return absl::InvalidArgumentError(node.name() + " " + what);
}

bool GoodShape(const tensorflow::TensorShapeProto& shape) {
  if (!tensorflow::PartialTensorShape::IsValid(shape)) return false;
  int64_t elements = 1;
  for (const auto& dim : shape.dim()) {
    if (dim.size() <= 0) continue;
    if (elements > kMostElements / dim.size()) return false;
    elements *= dim.size();
  }
  return true;
}

bool GoodTensor(const tensorflow::TensorProto& tensor) {
  if (!tensorflow::TensorShape::IsValid(tensor.tensor_shape()) || !GoodShape(tensor.tensor_shape())) return false;
  // Where bytes are given there must be as many as the shape says; values may be fewer, as the last one is repeated.
  const int64_t element = tensorflow::DataTypeSize(tensor.dtype());
  if (element == 0 || tensor.tensor_content().empty()) return true;
  return tensorflow::TensorShape(tensor.tensor_shape()).num_elements() ==
             static_cast<int64_t>(tensor.tensor_content().size()) / element &&
         static_cast<int64_t>(tensor.tensor_content().size()) % element == 0;
}

bool GoodValue(const AttrValue& value) {
  if (value.has_shape()) return GoodShape(value.shape());
  if (value.has_tensor()) return GoodTensor(value.tensor());
  if (!value.has_list()) return true;
  const auto& list = value.list();
  return std::all_of(list.shape().begin(), list.shape().end(), GoodShape) &&
         std::all_of(list.tensor().begin(), list.tensor().end(), GoodTensor);
}

// Ops whose names begin so are no part of TensorFlow's API: its own passes make nodes of them.
bool IsInternal(const NodeDef& node) { return !node.op().empty() && node.op().front() == '_'; }

// What TensorFlow would say where a node of the API is made. Nobody asks where a pass makes a node: the remapper gives
// _FusedConv2D types that only the pass after it can run, and the OpDef does not list. Then the kind of value is all
// that holds (of types, that they are types).
absl::Status CheckValue(const NodeDef& node, const AttrValue& value, const OpDef::AttrDef& attr) {
  return IsInternal(node) ? tensorflow::AttrValueHasType(value, attr.type())
                          : tensorflow::ValidateAttrValue(value, attr);
}

class Checker {
 public:
  explicit Checker(const tensorflow::GraphDef& graph)
      : graph_(graph),
        library_(tensorflow::OpRegistry::Global(), graph.library()),
        types_(graph.node_size()),
        readers_(graph.node_size()),
        waiting_(graph.node_size(), 0) {}

  absl::Status Run() {
    by_name_.reserve(graph_.node_size());
    absl::Status status;
    for (int i = 0; status.ok() && i < graph_.node_size(); ++i) status = CheckName(i);
    for (int i = 0; status.ok() && i < graph_.node_size(); ++i) status = CheckOp(i);
    for (int i = 0; status.ok() && i < graph_.node_size(); ++i) status = CheckInputs(i);
    return status.ok() ? CheckCycles() : status;
  }

 private:
  struct Types {
    tensorflow::DataTypeVector inputs;
    tensorflow::DataTypeVector outputs;
  };

  absl::Status CheckName(int i) {
    const std::string& name = graph_.node(i).name();
    const tensorflow::TensorId id = tensorflow::ParseTensorName(name);
    if (name.empty() || id.index() != 0 || id.node() != name) {
      return absl::InvalidArgumentError("no node can be called \"" + name + "\"");
    }
    if (by_name_.emplace(name, i).second) return absl::OkStatus();
    return absl::InvalidArgumentError("two nodes are called " + name);
  }

  absl::Status CheckOp(int i) {
    const NodeDef& node = graph_.node(i);
    const OpDef* op_def = nullptr;
    absl::Status status = library_.LookUpOpDef(node.op(), &op_def);
    if (!status.ok()) return Wrong(node, "is a " + node.op() + ", which is no op that is known");
    bool defaults = false;  // are left out
    for (const auto& attr : op_def->attr()) {
      const auto found = node.attr().find(attr.name());
      if (found != node.attr().end()) {
        status = CheckValue(node, found->second, attr);
        if (!status.ok()) return Wrong(node, "has a wrong attribute: " + std::string(status.message()));
      } else if (attr.has_default_value() || IsInternal(node)) {
        defaults = true;
      } else {
        return Wrong(node, "lacks the attribute " + attr.name());
      }
    }
    for (const auto& [name, value] : node.attr()) {
      // What passes note for each other is theirs; of an argument it is what there is to know.
      if (!name.empty() && name.front() == '_' && node.op() != "_Arg") continue;
      if (!GoodValue(value)) return Wrong(node, "has an attribute " + name + " that is no shape or tensor");
    }
    status = CheckNumbers(node, *op_def);
    if (!status.ok()) return status;
    if (node.op() == "Const" && node.attr().at("dtype").type() != node.attr().at("value").tensor().dtype()) {
      return Wrong(node, "is a constant of another type than its value");
    }
    if (!defaults) return FindTypes(i, node, *op_def);
    NodeDef full;
    full.set_name(node.name());
    full.set_op(node.op());
    for (const auto& attr : op_def->attr()) {
      const auto found = node.attr().find(attr.name());
      if (found == node.attr().end()) {
        if (attr.has_default_value()) (*full.mutable_attr())[attr.name()] = attr.default_value();
      } else if (!found->second.has_tensor()) {  // of which no type depends
        (*full.mutable_attr())[attr.name()] = found->second;
      }
    }
    return FindTypes(i, full, *op_def);
  }

  // A number of inputs or outputs is turned into a list of types, however long.
  static absl::Status CheckNumbers(const NodeDef& node, const OpDef& op_def) {
    const auto number = [&node](const std::string& attr) {
      const auto found = node.attr().find(attr);
      return found == node.attr().end() ? 1 : found->second.i();
    };
    for (const auto& arg : op_def.input_arg()) {
      if (!arg.number_attr().empty() &&
          (number(arg.number_attr()) < 0 || number(arg.number_attr()) > node.input_size())) {
        return Wrong(node, "has another number of inputs than its op takes");
      }
    }
    for (const auto& arg : op_def.output_arg()) {
      if (!arg.number_attr().empty() && (number(arg.number_attr()) < 0 || number(arg.number_attr()) > kMostOutputs)) {
        return Wrong(node, "has an impossible number of outputs");
      }
    }
    return absl::OkStatus();
  }

  absl::Status FindTypes(int i, const NodeDef& node, const OpDef& op_def) {
    const absl::Status status = tensorflow::InOutTypesForNode(node, op_def, &types_[i].inputs, &types_[i].outputs);
    return status.ok() ? status : Wrong(node, "has inputs or outputs of no type: " + std::string(status.message()));
  }

  absl::Status CheckInputs(int i) {
    const NodeDef& node = graph_.node(i);
    size_t data = 0;
    bool controls = false;
    for (const std::string& input : node.input()) {
      const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
      const auto found = by_name_.find(id.node());
      if (input.empty() || found == by_name_.end()) return Wrong(node, "reads " + input + ", which does not exist");
      const int from = found->second;
      const bool closes_loop = ClosesLoop(from, i);
      if (!closes_loop) {
        readers_[from].push_back(i);
        ++waiting_[i];
      }
      if (id.index() < 0) {
        controls = true;
        continue;
      }
      if (controls) return Wrong(node, "reads a tensor behind a control input");
      if (data >= types_[i].inputs.size()) return Wrong(node, "has another number of inputs than its op takes");
      if (id.index() >= static_cast<int>(types_[from].outputs.size())) {
        return Wrong(node, "reads output " + std::to_string(id.index()) + " of " + graph_.node(from).name() +
                               ", which has fewer");
      }
      const tensorflow::DataType wanted = types_[i].inputs[data];
      const tensorflow::DataType given = types_[from].outputs[id.index()];
      const bool fits = tensorflow::IsRefType(wanted) ? wanted == given : wanted == tensorflow::BaseType(given);
      if (!fits) return Wrong(node, "reads " + input + ", which is of another type");
      ++data;
    }
    if (data != types_[i].inputs.size()) return Wrong(node, "has another number of inputs than its op takes");
    return absl::OkStatus();
  }

  bool ClosesLoop(int from, int to) const {
    const std::string& a = graph_.node(from).op();
    const std::string& b = graph_.node(to).op();
    return (a == "NextIteration" || a == "RefNextIteration") && (b == "Merge" || b == "RefMerge");
  }

  absl::Status CheckCycles() {
    std::vector<int> ready;
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (waiting_[i] == 0) ready.push_back(i);
    }
    size_t done = 0;
    for (; done < ready.size(); ++done) {
      for (const int reader : readers_[ready[done]]) {
        if (--waiting_[reader] == 0) ready.push_back(reader);
      }
    }
    if (done == types_.size()) return absl::OkStatus();
    return absl::FailedPreconditionError("the graph has a cycle outside its loops");
  }

  const tensorflow::GraphDef& graph_;
  const tensorflow::FunctionLibraryDefinition library_;
  std::unordered_map<std::string_view, int> by_name_;
  std::vector<Types> types_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> waiting_;
};

}  // namespace

absl::Status CheckGraph(const tensorflow::GraphDef& graph) { return Checker(graph).Run(); }

}  // namespace lms
