#include "cc/tf/import/import_constants.h"

#include <algorithm>
#include <vector>

#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"

namespace lms {
namespace {

constexpr int64_t kMostBytes = int64_t{10} << 20;  // of a constant that is made so
constexpr char kKept[] = "computed from constants once, and kept";

bool IsFolded(const ImportState& state, int node, const std::vector<bool>& constant) {
  const NodeIndex& facts = state.index[node];
  const NodeTypes& types = state.types[node];
  if (facts.inputs.empty() || !facts.controls.empty() || facts.in_frame || facts.conditional) return false;
  if (state.index.Preserved(node) || types.op_def->is_stateful() || IsControlFlow(state.Node(node).op())) return false;
  if (!std::all_of(types.outputs.begin(), types.outputs.end(), IsPlain)) return false;
  for (size_t port = 0; port < types.outputs.size(); ++port) {
    const TensorSize size = state.SizeOf(node, static_cast<int>(port));
    if (!size.known || size.bytes > kMostBytes) return false;
  }
  return std::all_of(facts.inputs.begin(), facts.inputs.end(),
                     [&constant](const TensorRef& input) { return constant[input.node]; });
}

}  // namespace

void CountFoldedConstants(ImportState* state) {
  std::vector<bool> constant(state->index.size(), false);
  std::vector<bool> wanted(state->out.graph.buffers.size(), false);  // by what is no constant
  for (const int node : state->order) {
    constant[node] = state->Node(node).op() == "Const" || IsFolded(*state, node, constant);
    if (constant[node]) continue;
    for (const TensorRef& input : state->index[node].inputs) {
      const BufferId b = state->BufferOf(input);
      if (b != kNone) wanted[b] = true;
    }
  }
  for (const int node : state->order) {
    if (!constant[node] || !state->OnDevice(node)) continue;
    for (const BufferId b : state->Slots(node)) {
      if (b == kNone || state->out.graph.buffers[b].producer != state->out.op_of_node[node]) continue;
      MemBuffer& buffer = state->out.graph.buffers[b];
      if (!wanted[b]) buffer.bytes = 0;
      buffer.resident = true;
      const bool computed = state->Node(node).op() != "Const";
      if (computed && state->facts[b].keep_reason.empty()) state->facts[b].keep_reason = kKept;
    }
    state->Op(node).anchor = false;
  }
}

}  // namespace lms
