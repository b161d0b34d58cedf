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
  if (facts.inputs.empty()) return false;
  if (state.index.Preserved(node) || types.op_def->is_stateful() || IsControlFlow(state.Node(node).op())) return false;
  if (!std::all_of(types.outputs.begin(), types.outputs.end(), IsPlain)) return false;
  for (size_t port = 0; port < types.outputs.size(); ++port) {
    const TensorSize size = state.SizeOf(node, static_cast<int>(port));
    if (!size.known || size.bytes > kMostBytes) return false;
  }
  return std::all_of(facts.inputs.begin(), facts.inputs.end(),
                     [&constant](const TensorRef& input) { return constant[input.node]; });
}

// Per node: is it folded, and runs in each step all the same? Its result has a constant in its place then, and is freed
// as soon as it is made. `constant`: per node.
std::vector<bool> RunInVain(const ImportState& state, const std::vector<bool>& constant) {
  std::vector<bool> runs(state.index.size(), false);
  for (auto node = state.order.rbegin(); node != state.order.rend(); ++node) {
    if (!constant[*node] || state.Node(*node).op() == "Const") continue;
    const std::vector<int>& readers = state.index[*node].readers;
    runs[*node] = std::any_of(readers.begin(), readers.end(), [&](int reader) {
      const std::vector<int>& controls = state.index[reader].controls;
      const bool waits = std::find(controls.begin(), controls.end(), *node) != controls.end();
      return state.index[reader].live && (waits || runs[reader]);
    });
  }
  return runs;
}

// Of an op that runs in vain: what it allocates for a result that has a constant in its place.
int64_t BytesInVain(const ImportState& state, int node, BufferId result, const std::vector<bool>& wanted) {
  const int64_t bytes = state.out.graph.buffers[result].bytes;
  if (!MayForwardInput(state.Node(node).op())) return bytes;
  const std::vector<TensorRef>& inputs = state.index[node].inputs;
  const bool takes_over = std::any_of(inputs.begin(), inputs.end(), [&](const TensorRef& input) {
    const BufferId b = state.BufferOf(input);
    return b != kNone && !wanted[b] && state.Node(input.node).op() != "Const" &&
           state.out.graph.buffers[b].bytes == bytes;
  });
  return takes_over ? 0 : bytes;
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
  const std::vector<bool> in_vain = RunInVain(*state, constant);
  for (const int node : state->order) {
    if (!in_vain[node]) continue;
    for (const TensorRef& input : state->index[node].inputs) {
      const BufferId b = state->BufferOf(input);
      if (b != kNone && state->Node(input.node).op() == "Const") wanted[b] = true;
    }
  }
  for (const int node : state->order) {
    if (!constant[node] || !state->OnDevice(node)) continue;
    for (const BufferId b : state->Slots(node)) {
      if (b == kNone || state->out.graph.buffers[b].producer != state->out.op_of_node[node]) continue;
      MemBuffer& buffer = state->out.graph.buffers[b];
      if (in_vain[node]) {
        if (state->facts[b].keep_reason.empty()) state->facts[b].keep_reason = kKept;
        if (!wanted[b]) continue;  // made in each step, for another one that is
        state->Op(node).workspace_bytes += BytesInVain(*state, node, b, wanted);
      }
      if (!wanted[b]) buffer.bytes = 0;
      buffer.resident = true;
      const bool computed = state->Node(node).op() != "Const";
      if (computed && state->facts[b].keep_reason.empty()) state->facts[b].keep_reason = kKept;
    }
    if (!in_vain[node]) state->Op(node).anchor = false;
  }
}

void AddEarlierConstants(ImportState* state) {
  MemBuffer buffer;
  buffer.name = "constants of earlier plans";
  buffer.bytes = state->sizes.EarlierConstants(state->out.device);
  buffer.resident = true;
  if (buffer.bytes == 0) return;
  state->out.graph.buffers.push_back(buffer);
  state->out.dtype_of_buffer.push_back(tensorflow::DT_INVALID);
  state->out.assumptions_of_buffer.push_back(0);
  state->facts.push_back({kKept, false});
}

}  // namespace lms
