#include "cc/tf/import/import_loops.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/import/loop_overlap.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

// Of a loop with more variables than these the last one alone counts: where one of many ends matters little.
constexpr size_t kMostEnds = 200;
// Shapes and counters, which are there as early as may be.
constexpr int64_t kSmallBytes = 4 << 10;

// Where an iteration begins: what others leave behind is there while it runs, from its beginning, wherever in an
// iteration that is made. `none`: nothing of it is on the device.
// `nodes`: of the loop, in execution order.
OpId BeginOf(const std::vector<int>& nodes, OpId none, const ImportState& state) {
  OpId first = none;
  for (const int node : nodes) {
    if (IsLoopSwitch(state.Node(node)) && state.OnDevice(node)) {
      first = std::min(first, state.out.op_of_node[node]);
    }
  }
  return first;
}

// Where iterations may begin to run ahead: before what they leave behind there must be all that it is made of in an
// iteration. Often that is long after the loop has begun, as the gradient of one layer waits for that of the next.
OpId AheadFrom(const std::vector<int>& nodes, OpId none, const ImportState& state) {
  OpId first = none;
  std::unordered_map<int, OpId> since;  // by node: the last Switch that it is made from
  for (const int node : nodes) {
    if (IsNextIteration(state.Node(node))) continue;
    if (IsLoopSwitch(state.Node(node))) {
      since[node] = state.out.op_of_node[node];
      continue;
    }
    OpId last = kNone;
    for (const TensorRef& input : state.index[node].inputs) {
      const auto found = since.find(input.node);
      if (found != since.end()) last = std::max(last, found->second);
    }
    since[node] = last;
    const bool left = state.loops.Straggles(node) && state.OnDevice(node) && !IsControlFlow(state.Node(node).op()) &&
                      state.lists.MadeInIteration({node, 0}) && state.SizeOf(node, 0).bytes > kSmallBytes;
    if (!left) continue;
    if (last == kNone) return BeginOf(nodes, none, state);  // it is the same in all iterations
    first = std::min(first, last);
  }
  return first == none ? BeginOf(nodes, none, state) : first;
}

// What iterations that run ahead hold, to the loop's end: loops may run side by side.
void AddOverlap(const std::vector<int>& nodes, int64_t bytes, OpId last, ImportState* state) {
  const OpId first = bytes > 0 ? AheadFrom(nodes, last, *state) : last;
  if (first == last) return;
  const BufferId id = state->NewBuffer(state->order[first], 0, bytes, false);
  state->out.graph.buffers[id].name = state->Node(state->order[first]).name() + ":overlap";
  state->out.overlaps.push_back(id);
  state->facts[id].keep_reason = "of iterations of a loop that overlap";
  state->out.graph.ops[last].inputs.push_back(id);
}

// The same for what they may hold at worst, which no plan counts.
void AddAhead(int frame, const std::vector<int>& nodes, int64_t usual, OpId last, ImportState* state) {
  const int64_t bytes = BytesAhead(*state, frame) - usual;
  const OpId first = bytes > 0 ? BeginOf(nodes, last, *state) : last;
  if (first == last) return;
  const BufferId id = state->NewBuffer(state->order[first], 0, 0, false);
  state->out.graph.buffers[id].name = state->Node(state->order[first]).name() + ":ahead";
  state->out.ahead.push_back({id, bytes, state->loops.DependsOnOverlap(frame)});
  state->facts[id].keep_reason = "of iterations of a loop that overlap";
  state->out.graph.ops[last].inputs.push_back(id);
}

}  // namespace

bool IsLoopSwitch(const tensorflow::NodeDef& node) { return node.op() == "Switch" || node.op() == "RefSwitch"; }

int64_t BytesAhead(const ImportState& state, int frame) {
  constexpr int64_t kLeastBytes = 64 << 10;
  const auto in_loop = [&](int node) {
    const int at = state.index[node].frame;
    return state.index[node].live && at > 0 && (at == frame || state.index.Within(at, frame));
  };
  const auto counts = [&](int node) {
    const std::string& op = state.Node(node).op();
    return in_loop(node) && !IsControlFlow(op) && !IsVariableRead(op) && op != "Const";
  };
  std::set<std::pair<int, int>> held;  // tensors, each once
  for (int i = 0; i < state.index.size(); ++i) {
    if (!counts(i) || !state.loops.Straggles(i)) continue;
    const tensorflow::NodeDef& node = state.Node(i);
    for (size_t port = 0; port < state.sizes.Of(node.name()).outputs.size(); ++port) {
      if (SharedInput(node, static_cast<int>(port)) < 0) held.emplace(i, static_cast<int>(port));
    }
    for (TensorRef input : state.index[i].inputs) {
      // What it is a view of, as long as that is made in the iteration.
      int shared = state.SharedInput(input);
      while (counts(input.node) && shared >= 0 && shared < static_cast<int>(state.index[input.node].inputs.size())) {
        input = state.index[input.node].inputs[shared];
        shared = state.SharedInput(input);
      }
      if (counts(input.node)) held.emplace(input.node, input.port);
    }
  }
  int64_t bytes = 0;
  for (const auto& [node, port] : held) {
    const std::vector<TensorSize>& outputs = state.sizes.Of(state.Node(node).name()).outputs;
    if (port < static_cast<int>(outputs.size())) bytes += outputs[port].bytes;
  }
  bytes *= std::max<int64_t>(0, IterationsAtOnce(state, frame) - 1);
  return bytes < kLeastBytes ? 0 : bytes;
}

void AddLoopReads(ImportState* state) {
  std::vector<std::vector<int>> nodes_of(state->index.frames());  // in execution order
  for (const int node : state->order) {
    if (state->index[node].frame > 0) nodes_of[state->index[node].frame].push_back(node);
  }
  Pace pace(state->deadline);
  for (int f = 1; f < state->index.frames(); ++f) {
    OpId last = kNone;
    std::vector<OpId> ends;
    for (const int end : state->index.frame(f).ends) {
      const OpId op = state->out.op_of_node[end];
      if (op != kNone) ends.push_back(op);
      last = std::max(last, op);
    }
    if (last == kNone) continue;
    if (ends.size() > kMostEnds) ends = {last};
    const bool by_cpu = DeviceType(state->out.device) == "CPU";
    const std::optional<int64_t> known = by_cpu ? std::nullopt : InlineOverlap(*state, f);
    const int64_t usual = known.value_or(by_cpu ? state->lists.OverlapOf(f) : 0);
    AddOverlap(nodes_of[f], usual, last, state);
    if (!known) AddAhead(f, nodes_of[f], usual, last, state);
    // What is held to the end of an iteration is held to all that may be its end: the executor, or a plan, may run
    // these in any order.
    const auto hold = [&](BufferId b) {
      if (b == kNone || state->out.graph.buffers[b].resident) return;
      const OpId producer = state->out.graph.buffers[b].producer;
      for (const OpId end : ends) {
        if (producer != kNone && end < producer) continue;
        pace.Step(static_cast<int64_t>(state->out.graph.ops[end].inputs.size()));
        AddOnce(&state->out.graph.ops[end].inputs, b);
      }
      std::string& why = state->facts[b].keep_reason;
      if (why.empty()) why = "used inside control flow or on another device";
    };
    for (const int node : nodes_of[f]) {
      if (IsEnter(state->Node(node)) && !state->loops.Changes(node)) hold(state->BufferOf({node, 0}));
      if (IsNextIteration(state->Node(node)) && state->out.op_of_node[node] < last) hold(state->BufferOf({node, 0}));
    }
  }
}

void NoteUnknownLists(ImportState* state) {
  std::vector<bool> unknown(state->index.frames(), false);
  for (const int node : state->order) {
    if (state->index[node].frame <= 0 || IsControlFlow(state->Node(node).op())) continue;
    const tensorflow::DataTypeVector& outputs = state->types[node].outputs;
    // Loops of v1 keep what their gradients read on stacks, and TensorArrays of v1 are resources.
    const std::string& pushes = state->Node(node).op();
    if (pushes == "StackPushV2" || pushes == "TensorArrayWriteV3") {
      unknown[state->index[node].frame] = true;
      if (state->out.hidden_example.empty()) state->out.hidden_example = state->Node(node).name();
    }
    for (size_t port = 0; port < outputs.size(); ++port) {
      if (outputs[port] != tensorflow::DT_VARIANT) continue;
      const int group = state->lists.GroupOf(node);
      const std::string& op = state->Node(node).op();
      const bool optional = op.rfind("Optional", 0) == 0 || op.rfind("Iterator", 0) == 0 || op == "ZerosLike" ||
                            IsPassThrough(state->Node(node)) || IsSwap(op);
      if (group < 0 ? optional : state->lists.group(group).known) continue;
      unknown[state->index[node].frame] = true;
      if (state->out.hidden_example.empty()) state->out.hidden_example = state->Node(node).name();
    }
  }
  state->out.open_loops = state->lists.OpenLoops();
  for (const int node : state->order) {
    for (int f = std::max(0, state->index[node].frame); f > 0; f = state->index.frame(f).parent) {
      if (!unknown[f]) continue;
      ++state->out.hidden_ops;
      break;
    }
  }
}

}  // namespace lms
