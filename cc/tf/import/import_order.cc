#include "cc/tf/import/import_order.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/core/graph/schedule.h"
#include "cc/tf/graph/collectives.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/stock/layout_fusions.h"
#include "cc/tf/stock/loop_starts.h"
#include "cc/tf/stock/sum_holders.h"
#include "cc/tf/stock/variable_waits.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

// Of all ops. What leaves loops waits for all that they carry over: loops of thousands of variables have millions.
constexpr int64_t kMostEdges = 20000000;

// What an op waits for, each once: lists may be as long as the graph.
class Deps {
 public:
  explicit Deps(size_t ops) : seen_by_(ops, kNone) {}

  void Add(OpId dep, OpId by, std::vector<OpId>* deps) {
    if (seen_by_[dep] == by) return;
    seen_by_[dep] = by;
    deps->push_back(dep);
  }

 private:
  std::vector<OpId> seen_by_;  // per op: whose list it was last put into
};

// What leaves a loop comes after all that its iterations take in: else the order would have ops outside run between,
// on the strength of the first iteration alone, and edges that keep to such an order would be a deadlock.
void AddLoopEnds(const ImportState& state, int node, int input, const std::vector<OpId>& op_of, Deps* once, Pace* pace,
                 std::vector<OpId>* deps) {
  if (state.index[node].frame > 0) {
    if (!IsExit(state.Node(node))) return;  // within the iteration
    for (const int end : state.index.frame(state.index[node].frame).ends) {
      pace->Step();
      if (op_of[end] != kNone) once->Add(op_of[end], op_of[node], deps);
    }
    return;
  }
  const int cycle = state.index[input].cycle;
  if (cycle < 0 || cycle == state.index[node].cycle) return;
  for (const int end : state.index.CycleEnds(cycle)) {
    pace->Step();
    if (op_of[end] != kNone) once->Add(op_of[end], op_of[node], deps);
  }
}

// Leaves the waits between two nodes of the planned device.
template <typename Wait, typename From>
void KeepThoseOfTheDevice(const ImportState& state, const From& from, std::vector<Wait>* waits) {
  const auto elsewhere = [&](const Wait& wait) {
    const auto [node, waits_for] = from(wait);
    return !state.OnDevice(node) || !state.OnDevice(waits_for);
  };
  waits->erase(std::remove_if(waits->begin(), waits->end(), elsewhere), waits->end());
}

// What enters a loop comes before its iterations: in the one that stands for all of them, it is there. The first may
// begin without.
std::vector<std::pair<OpId, OpId>> EnterWaits(const ImportState& state, const std::vector<OpId>& op_of) {
  std::vector<std::pair<OpId, OpId>> waits;
  for (int node = 0; node < state.index.size(); ++node) {
    const int frame = state.index[node].frame;
    if (op_of[node] == kNone || frame <= 0 || !IsEnter(state.Node(node))) continue;
    const int cond = state.index.frame(frame).loop_cond;
    if (cond >= 0 && op_of[cond] != kNone) waits.emplace_back(op_of[cond], op_of[node]);
  }
  return waits;
}

}  // namespace

absl::Status AddOps(ImportState* state) {
  std::vector<int> live;
  std::vector<OpId> op_of(state->index.size(), kNone);
  for (int i = 0; i < state->index.size(); ++i) {
    if (!state->index[i].live) continue;
    op_of[i] = static_cast<OpId>(live.size());
    live.push_back(i);
  }
  MemGraph unordered;
  Deps once(live.size());
  Pace pace(state->deadline);
  int64_t edges = 0;
  if (state->sizes.data_may_end()) state->out.before_data = RunBeforeData(state->graph, state->index, state->deadline);
  std::vector<int> before_data;
  for (const int i : live) {
    if (!state->out.before_data.empty() && state->out.before_data[i]) before_data.push_back(i);
  }
  std::unordered_map<int, std::vector<int>> held_by;  // per gate: nodes that it waits for
  for (const Loops::Hold& hold : state->out.holds) held_by[hold.gate].push_back(hold.node);
  for (const int i : live) {
    MemOp op;
    // What has been fused runs with the whole, and ends with it.
    if (state->fused_into[i] != i) once.Add(op_of[state->fused_into[i]], op_of[i], &op.deps);
    const auto wait = [&](int node) {
      once.Add(op_of[node], op_of[i], &op.deps);
      const int whole = state->fused_into[node];
      if (whole != node && whole != i) once.Add(op_of[whole], op_of[i], &op.deps);
    };
    op.name = state->Node(i).name();
    op.type = state->Node(i).op();
    for (const TensorRef& input : state->index[i].inputs) {
      // The edge that closes a loop.
      const std::string& type = state->Node(input.node).op();
      if (type == "NextIteration" || type == "RefNextIteration") continue;
      wait(input.node);
      AddLoopEnds(*state, i, input.node, op_of, &once, &pace, &op.deps);
    }
    for (const int control : state->index[i].controls) {
      wait(control);
      AddLoopEnds(*state, i, control, op_of, &once, &pace, &op.deps);
    }
    // In the order that plans are made in: no update then has to wait for a copy of what reads its variable.
    if (TakesElement(op.type)) {
      for (const int node : before_data) once.Add(op_of[node], op_of[i], &op.deps);
    }
    const auto held = held_by.find(i);
    if (held != held_by.end()) {
      for (const int node : held->second) once.Add(op_of[node], op_of[i], &op.deps);
    }
    // A result becomes the function's own, no node that others could wait for.
    const bool result = op.type == "_Retval" || op.type == "_DeviceRetval";
    if (state->OnDevice(i) && !IsSwap(op.type)) {
      // Notes are held with the result.
      const bool none = state->notes[i] || state->noted_by[i] >= 0;
      op.workspace_bytes = none ? 0 : state->sizes.Of(state->Node(i).name()).workspace_bytes;
    }
    op.anchor =
        state->InRegion(i) && state->OnDevice(i) && !IsControlFlow(op.type) && !result && !state->may_be_fused[i];
    edges += static_cast<int64_t>(op.deps.size());
    if (edges > kMostEdges) throw TooMuch("more than " + std::to_string(kMostEdges) + " dependencies");
    unordered.ops.push_back(std::move(op));
  }
  const Collectives collectives = FindCollectives(state->graph, state->index);
  AddBarriers(collectives, op_of, &unordered);
  state->out.collective_waits = CollectiveWaits(collectives, state->index);
  std::vector<OpId> order;
  // Waits that keep bits come first; where some close a cycle together, the order goes without them.
  state->out.bit_waits =
      FindSumWaits(state->graph, state->index, state->sizes, tensorflow::IsMKLEnabled(), state->deadline);
  for (const NodeWait& wait :
       FindStartWaits(state->graph, state->index, state->loops, tensorflow::IsMKLEnabled(), state->deadline)) {
    state->out.bit_waits.push_back(wait);
  }
  state->out.variable_waits = FindVariableWaits(state->graph, state->index, state->deadline, state->out.before_data);
  if (state->one_of_several || !collectives.instances.empty()) {
    const auto nodes_of = [](const NodeWait& wait) { return std::make_pair(wait.node, wait.waits_for); };
    const auto of_variable = [](const VariableWait& wait) { return std::make_pair(wait.update, wait.reader); };
    KeepThoseOfTheDevice(*state, nodes_of, &state->out.bit_waits);
    KeepThoseOfTheDevice(*state, of_variable, &state->out.variable_waits);
  }
  // What waits for a gradient of a bias comes after each gradient of a filter that it might become a part of.
  std::vector<std::pair<OpId, OpId>> fusion_waits;
  for (const OtherFusion& fusion : OtherFusions(state->graph, state->index, tensorflow::IsMKLEnabled())) {
    for (const int reader : state->index[fusion.node].readers) {
      if (op_of[reader] != kNone && reader != fusion.into) fusion_waits.emplace_back(op_of[reader], op_of[fusion.into]);
    }
  }
  std::vector<std::pair<OpId, OpId>> enter_waits = EnterWaits(*state, op_of);
  for (;;) {
    MemGraph waiting = unordered;
    for (const auto& [op, waits_for] : enter_waits) {
      pace.Step(static_cast<int64_t>(waiting.ops[op].deps.size()));
      AddOnce(&waiting.ops[op].deps, waits_for);
    }
    for (const auto& [op, waits_for] : fusion_waits) {
      pace.Step(static_cast<int64_t>(waiting.ops[op].deps.size()));
      AddOnce(&waiting.ops[op].deps, waits_for);
    }
    for (const NodeWait& wait : state->out.bit_waits) {
      pace.Step(static_cast<int64_t>(waiting.ops[op_of[wait.node]].deps.size()));
      AddOnce(&waiting.ops[op_of[wait.node]].deps, op_of[wait.waits_for]);
    }
    for (const VariableWait& wait : state->out.variable_waits) {
      pace.Step(static_cast<int64_t>(waiting.ops[op_of[wait.update]].deps.size()));
      AddOnce(&waiting.ops[op_of[wait.update]].deps, op_of[wait.reader]);
    }
    order = ExecutionOrder(waiting);
    const bool bare = state->out.bit_waits.empty() && state->out.variable_waits.empty() && fusion_waits.empty();
    if (order.size() == live.size() || (bare && enter_waits.empty())) {
      unordered = std::move(waiting);
      break;
    }
    // Such a graph is not planned, and no plan may make one.
    state->out.enters_last = bare;
    if (bare) enter_waits.clear();
    if (state->out.variable_waits.empty() && state->out.bit_waits.empty()) fusion_waits.clear();
    if (state->out.variable_waits.empty()) state->out.bit_waits.clear();
    state->out.variable_waits.clear();
  }
  if (order.size() != live.size()) return absl::InvalidArgumentError("the graph has a cycle outside its loops");
  state->out.graph = Reordered(unordered, order);
  state->out.op_of_node.assign(state->index.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) {
    state->order.push_back(live[order[i]]);
    state->out.op_of_node[state->order.back()] = static_cast<OpId>(i);
  }
  state->out.node_of_op = state->order;
  return absl::OkStatus();
}

}  // namespace lms
