#include "cc/tf/graph/handed_copies.h"

#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "lms_build_facts.h"

namespace lms {
namespace {

constexpr int kFirstWithStreams = 2021;

bool IsOutToHost(const tensorflow::NodeDef& node) {
  if (node.op() != kSwapOutOp || DeviceType(node.device()) != "GPU") return false;
  const auto tier = node.attr().find("tier");
  return tier != node.attr().end() && tier->second.s() == "host";
}

}  // namespace

bool CopiesCanBeHandedOver() { return LMS_TF_VERSION_NUMBER >= kFirstWithStreams; }

int64_t QueuedAbove() { return CopiesCanBeHandedOver() ? kSmallCopyBytes : 0; }

bool IsHandedOver(const tensorflow::GraphDef& graph, const GraphIndex& index, int swap) {
  if (!CopiesCanBeHandedOver() || !index[swap].live) return false;
  const tensorflow::NodeDef& node = graph.node(swap);
  if (node.op() == kSwapOutOp) return IsOutToHost(node);
  const std::vector<TensorRef>& inputs = index[swap].inputs;
  return node.op() == kSwapInOp && inputs.size() == 1 && IsHandedOver(graph, index, inputs[0].node);
}

bool IsQueued(const tensorflow::NodeDef& swap_out, int64_t bytes) {
  return IsOutToHost(swap_out) && bytes > QueuedAbove();
}

bool InOnePlace(const tensorflow::GraphDef& graph, const GraphIndex& index, int a, int b) {
  return index[a].region >= 0 && index[a].region == index[b].region && !IsControlFlow(graph.node(b).op()) &&
         graph.node(a).device() == graph.node(b).device();
}

std::vector<int> CopiesWaitedFor(const tensorflow::GraphDef& graph, const GraphIndex& index, int node) {
  std::vector<int> copies;
  if (graph.node(node).op() == kSwapOutOp) return copies;
  for (const int control : index[node].controls) {
    const bool out = graph.node(control).op() == kSwapOutOp && IsHandedOver(graph, index, control);
    if (out && InOnePlace(graph, index, control, node)) copies.push_back(control);
  }
  return copies;
}

std::vector<int> CopiesHeldUntil(const tensorflow::GraphDef& graph, const GraphIndex& index, int node) {
  std::vector<int> copies = CopiesWaitedFor(graph, index, node);
  const bool in = graph.node(node).op() == kSwapInOp && IsHandedOver(graph, index, node);
  if (in) copies.push_back(index[node].inputs[0].node);
  return copies;
}

}  // namespace lms
