#include "cc/tf/verify/verify_swaps.h"

#include <string>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

bool Is(const NodeDef& node, const char* op) { return node.op() == op; }

bool SameAttr(const NodeDef& a, const NodeDef& b, const char* name) {
  const auto in_a = a.attr().find(name);
  const auto in_b = b.attr().find(name);
  if (in_a == a.attr().end() || in_b == b.attr().end()) return (in_a == a.attr().end()) == (in_b == b.attr().end());
  return in_a->second.SerializeAsString() == in_b->second.SerializeAsString();
}

// "lms/swap_in/3/" of "lms/swap_in/3/x".
bool NamedAs(const std::string& name, const std::string& kind) { return name.rfind(kind, 0) == 0 && IsOwnName(name); }

}  // namespace

TensorRef SwappedTensor(const GraphDef& graph, const GraphIndex& index, const TensorRef& tensor) {
  const TensorRef none{-1, 0};
  if (Is(graph.node(tensor.node), kSwapOutOp)) return none;
  if (!Is(graph.node(tensor.node), kSwapInOp)) return tensor;
  const std::vector<TensorRef>& handle = index[tensor.node].inputs;
  if (handle.size() != 1 || !Is(graph.node(handle[0].node), kSwapOutOp)) return none;
  const std::vector<TensorRef>& swapped = index[handle[0].node].inputs;
  return swapped.size() == 1 ? swapped[0] : none;
}

absl::Status CheckSwapNode(const GraphDef& before, int original, const GraphDef& after, const GraphIndex& index,
                           int node) {
  const NodeDef& swap = after.node(node);
  const NodeDef& of = before.node(original);
  const bool in = Is(swap, kSwapInOp);
  const tensorflow::OpDef* op_def = nullptr;
  absl::Status status = tensorflow::OpRegistry::Global()->LookUpOpDef(swap.op(), &op_def);
  if (status.ok()) status = tensorflow::ValidateNodeDef(swap, *op_def);
  if (!status.ok()) return status;
  if (!NamedAs(swap.name(), in ? "lms/swap_in/" : "lms/swap_out/")) {
    return absl::InternalError(swap.name() + " is a swap under another name");
  }
  if (swap.device() != of.device() || !SameAttr(swap, of, "_class")) {
    return absl::InternalError(swap.name() + " is on another device than " + of.name());
  }
  if (!in) return absl::OkStatus();
  const int out = index[node].inputs.size() == 1 ? index[node].inputs[0].node : -1;
  if (out < before.node_size() || !Is(after.node(out), kSwapOutOp)) {
    return absl::InternalError(swap.name() + " has no swap-out");
  }
  if (OriginalName(after.node(out).name()) != of.name()) {
    return absl::InternalError(swap.name() + " brings back what " + after.node(out).name() + " has swapped out");
  }
  if (!SameAttr(swap, after.node(out), "T")) {
    return absl::InternalError(swap.name() + " has another type than " + after.node(out).name());
  }
  // What is known of a shape is folded later: only the run knows this one.
  if (!swap.attr().at("shape").shape().unknown_rank()) {
    return absl::InternalError(swap.name() + " claims to know a shape");
  }
  return absl::OkStatus();
}

absl::Status CheckSwappedType(const GraphDef& before, const tensorflow::FunctionLibraryDefinition& library,
                              const TensorRef& tensor, const GraphDef& after, int node) {
  const NodeDef& owner = before.node(tensor.node);
  const tensorflow::OpDef* op_def = nullptr;
  tensorflow::DataTypeVector inputs;
  tensorflow::DataTypeVector outputs;
  absl::Status status = library.LookUpOpDef(owner.op(), &op_def);
  if (status.ok()) status = tensorflow::InOutTypesForNode(owner, *op_def, &inputs, &outputs);
  if (!status.ok()) return status;
  const std::string& name = after.node(node).name();
  if (tensor.port >= static_cast<int>(outputs.size()) ||
      after.node(node).attr().at("T").type() != outputs[tensor.port]) {
    return absl::InternalError(name + " has another type than what it swaps");
  }
  if (!tensorflow::DataTypeCanUseMemcpy(outputs[tensor.port])) {
    return absl::InternalError(name + " swaps what no bytes are to be copied of");
  }
  return absl::OkStatus();
}

absl::Status CheckSwappable(const GraphDef& graph, const ImportedGraph& imported) {
  for (size_t i = 0; i < imported.graph.ops.size(); ++i) {
    const MemOp& op = imported.graph.ops[i];
    if (op.type != kSwapOutOp || graph.node(imported.node_of_op[i]).device() != imported.device) continue;
    for (const BufferId b : op.inputs) {
      const MemBuffer& buffer = imported.graph.buffers[b];
      if (buffer.swappable) continue;
      const std::string why = buffer.keep_reason.empty() ? "" : ": " + buffer.keep_reason;
      return absl::InternalError(op.name + ": " + buffer.name + " must not be swapped" + why);
    }
  }
  return absl::OkStatus();
}

}  // namespace lms
