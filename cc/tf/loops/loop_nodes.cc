#include "cc/tf/loops/loop_nodes.h"

#include <algorithm>

#include "cc/core/graph/node_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

constexpr int64_t kUsualParallel = 10;  // what TensorFlow takes where an Enter does not say

NodeDef EnterNode(const std::string& name, const std::string& device, const std::string& value,
                  tensorflow::DataType type, const LoopNodes::LoopFrame& frame, bool constant) {
  NodeDef node;
  node.set_name(name);
  node.set_op("Enter");
  node.set_device(device);
  node.add_input(value);
  auto& attrs = *node.mutable_attr();
  attrs["T"].set_type(type);
  attrs["frame_name"].set_s(frame.name);
  attrs["is_constant"].set_b(constant);
  attrs["parallel_iterations"].set_i(frame.parallel_iterations);
  return node;
}

}  // namespace

void MakeNoOp(NodeDef* node) {
  NodeDef nothing;
  nothing.set_name(node->name());
  nothing.set_device(node->device());
  nothing.set_op("NoOp");
  *node = std::move(nothing);
}

LoopNodes::LoopNodes(tensorflow::GraphDef* graph) : graph_(*graph) {
  for (const NodeDef& node : graph->node()) {
    if (IsLoopName(node.name())) next_ = std::max(next_, LoopNumber(node.name()) + 1);
  }
}

std::string LoopNodes::NameFor(const std::string& original) { return LoopName(next_++, original); }

std::string LoopNodes::Add(NodeDef node) {
  std::string name = node.name();
  *graph_.add_node() = std::move(node);
  return name;
}

std::string LoopNodes::Op(const std::string& original, const char* op, const std::string& device,
                          const std::vector<std::string>& inputs, Types types) {
  NodeDef node;
  node.set_name(NameFor(original));
  node.set_op(op);
  node.set_device(device);
  for (const std::string& input : inputs) node.add_input(input);
  for (const auto& [attr, type] : types) (*node.mutable_attr())[attr].set_type(type);
  // Which attributes there are is a matter of TensorFlow's version.
  const tensorflow::OpDef* op_def = nullptr;
  if (tensorflow::OpRegistry::Global()->LookUpOpDef(op, &op_def).ok()) {
    tensorflow::AddDefaultsToNodeDef(*op_def, &node);
  }
  return Add(std::move(node));
}

std::string LoopNodes::Scalar(const std::string& original, const std::string& device, int32_t value,
                              const std::string& waits_for) {
  NodeDef node;
  node.set_name(NameFor(original));
  node.set_op("Const");
  node.set_device(device);
  node.add_input("^" + waits_for);
  auto& attrs = *node.mutable_attr();
  attrs["dtype"].set_type(tensorflow::DT_INT32);
  tensorflow::TensorProto& tensor = *attrs["value"].mutable_tensor();
  tensor.set_dtype(tensorflow::DT_INT32);
  tensor.mutable_tensor_shape();
  tensor.add_int_val(value);
  return Add(std::move(node));
}

LoopNodes::LoopFrame LoopNodes::FrameOf(const NodeDef& enter, const std::string& cond) {
  const auto parallel = enter.attr().find("parallel_iterations");
  return {enter.attr().at("frame_name").s(), parallel == enter.attr().end() ? kUsualParallel : parallel->second.i(),
          cond};
}

std::string LoopNodes::EnterConstant(const std::string& original, const std::string& device, const std::string& value,
                                     tensorflow::DataType type, const LoopFrame& frame,
                                     const std::vector<std::string>& controls) {
  NodeDef node = EnterNode(NameFor(original), device, value, type, frame, true);
  for (const std::string& control : controls) node.add_input(control);
  return Add(std::move(node));
}

LoopNodes::Variable LoopNodes::BeginVariable(const Originals& originals, const std::string& device,
                                             const std::string& value, tensorflow::DataType type,
                                             const LoopFrame& frame, const std::vector<std::string>& controls) {
  Variable variable;
  NodeDef enter = EnterNode(NameFor(originals.enter), device, value, type, frame, false);
  for (const std::string& control : controls) enter.add_input(control);
  variable.enter = Add(std::move(enter));
  variable.next = NameFor(originals.next);
  NodeDef merge;
  merge.set_name(NameFor(originals.merge));
  merge.set_op("Merge");
  merge.set_device(device);
  merge.add_input(variable.enter);
  merge.add_input(variable.next);
  (*merge.mutable_attr())["T"].set_type(type);
  (*merge.mutable_attr())["N"].set_i(2);
  variable.merge = Add(std::move(merge));
  variable.fork = Op(originals.fork, "Switch", device, {variable.merge, frame.cond}, {{"T", type}});
  return variable;
}

void LoopNodes::EndVariable(const Variable& variable, const std::string& device, const std::string& value,
                            tensorflow::DataType type) {
  NodeDef next;
  next.set_name(variable.next);
  next.set_op("NextIteration");
  next.set_device(device);
  next.add_input(value);
  (*next.mutable_attr())["T"].set_type(type);
  Add(std::move(next));
}

}  // namespace lms
