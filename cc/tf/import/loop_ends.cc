#include "cc/tf/import/loop_ends.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/variable_reads.h"
#include "cc/tf/import/import_loops.h"

namespace lms {
namespace {

constexpr int kLongAfter = 1 << 30;  // a level

// Levels of nodes, counted from where a loop ends.
class LoopLevels {
 public:
  explicit LoopLevels(const ImportState& state)
      : state_(state), place_(state.index.size(), -1), level_(state.index.size(), 0) {
    for (size_t i = 0; i < state.order.size(); ++i) place_[state.order[i]] = static_cast<int>(i);
  }

  // Of the loop's body, with the loops in it.
  int Depth(int frame) {
    const std::vector<int> nodes = InOrder(frame);
    std::vector<int> depth_of(state_.index.frames(), 0);  // of a loop within this one
    int depth = 0;
    for (const int node : nodes) {
      const int at = state_.index[node].frame;
      const bool exit = IsExit(state_.Node(node));
      int before = 0;
      if (at != frame) {
        before = std::max(Before(node), exit ? depth_of[at] : 0);
      } else if (!IsEnter(state_.Node(node)) && !exit) {
        before = Before(node);
        // Where the dead inputs come from.
        if (IsLoopSwitch(state_.Node(node)) && before == 0) level_[node] = 1;
      }
      if (before > 0) level_[node] = before + 1;
      depth_of[at] = std::max(depth_of[at], level_[node]);
      depth = std::max(depth, level_[node]);
    }
    for (const int node : nodes) level_[node] = 0;
    return depth;
  }

  // What runs within so many levels behind the loop, the first one being its Exits: in execution order, without Exits.
  // What waits for the end of another loop behind it comes long after.
  std::vector<int> Behind(int frame, int levels) {
    int first = static_cast<int>(state_.order.size());
    int last = -1;
    const auto reach = [&](int node) {
      for (const int reader : state_.index[node].readers) last = std::max(last, place_[reader]);
    };
    std::vector<int> levelled;
    for (const int node : state_.loops.NodesIn(frame)) {
      if (place_[node] < 0 || state_.index[node].frame != frame || !IsExit(state_.Node(node))) continue;
      first = std::min(first, place_[node]);
      level_[node] = 1;
      levelled.push_back(node);
      reach(node);
    }
    std::vector<int> behind;
    for (int i = first; i <= last; ++i) {
      const int node = state_.order[i];
      const int at = state_.index[node].frame;
      if (at == frame || (at > 0 && state_.index.Within(at, frame))) continue;
      const int before = Before(node);
      if (before == 0) continue;
      level_[node] = IsExit(state_.Node(node)) ? kLongAfter : std::min(before + 1, kLongAfter);
      levelled.push_back(node);
      if (level_[node] > levels) continue;
      behind.push_back(node);
      reach(node);
    }
    for (const int node : levelled) level_[node] = 0;
    return behind;
  }

 private:
  // The nodes of the loop and of those in it that run, in execution order.
  std::vector<int> InOrder(int frame) const {
    std::vector<int> nodes;
    for (const int node : state_.loops.NodesIn(frame)) {
      if (place_[node] >= 0) nodes.push_back(node);
    }
    std::sort(nodes.begin(), nodes.end(), [this](int a, int b) { return place_[a] < place_[b]; });
    return nodes;
  }

  // The highest level of what the node waits for, 0 where none of that has one.
  int Before(int node) const {
    int level = 0;
    const auto after = [&](int other) {
      // What closes a loop comes later.
      if (place_[other] >= 0 && place_[other] < place_[node]) level = std::max(level, level_[other]);
    };
    for (const TensorRef& input : state_.index[node].inputs) after(input.node);
    for (const int control : state_.index[node].controls) after(control);
    return level;
  }

  const ImportState& state_;
  std::vector<int> place_;  // per node: in execution order, -1 where it does not run
  std::vector<int> level_;  // per node; 0: none, as all of them are between calls
};

// The nodes that read results of the loop, whatever else they wait for.
std::vector<int> ReadersOfResults(const ImportState& state, int frame) {
  std::vector<int> readers;
  for (const int node : state.order) {
    const std::vector<TensorRef>& inputs = state.index[node].inputs;
    const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](const TensorRef& input) {
      return state.index[input.node].frame == frame && IsExit(state.Node(input.node));
    });
    if (reads) readers.push_back(node);
  }
  return readers;
}

// What enters each loop unchanged: its Enters, by loop.
std::vector<std::vector<int>> Entered(const ImportState& state) {
  std::vector<std::vector<int>> entered(state.index.frames());
  for (const int node : state.order) {
    const int frame = state.index[node].frame;
    if (frame > 0 && IsEnter(state.Node(node)) && !state.loops.Changes(node)) entered[frame].push_back(node);
  }
  return entered;
}

// Bytes that each loop alone holds of these: what others read later is there in any case.
std::vector<int64_t> HeldAlone(const ImportState& state, const std::vector<std::vector<int>>& entered) {
  const MemGraph& graph = state.out.graph;
  std::vector<OpId> last_read(graph.buffers.size(), kNone);
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    for (const BufferId b : graph.ops[op].inputs) last_read[b] = op;
  }
  std::vector<int64_t> held(entered.size(), 0);
  for (size_t f = 1; f < entered.size(); ++f) {
    OpId last_end = kNone;
    for (const int end : state.index.frame(static_cast<int>(f)).ends) {
      last_end = std::max(last_end, state.out.op_of_node[end]);
    }
    std::set<BufferId> counted;
    for (const int node : entered[f]) {
      const BufferId b = state.BufferOf({node, 0});
      if (b == kNone || graph.buffers[b].resident || graph.buffers[b].escapes || last_read[b] > last_end) continue;
      if (counted.insert(b).second) held[f] += graph.buffers[b].bytes;
    }
  }
  return held;
}

// Values of variables, and the lists that they are put on.
class ReadsInLists {
 public:
  explicit ReadsInLists(const ImportState& state) : state_(state), reads_(state.graph, state.index) {
    for (const int node : state.order) {
      const bool push = state.Node(node).op() == "TensorListPushBack";
      if (!push && state.Node(node).op() != "TensorListSetItem") continue;
      const size_t element = push ? 1 : 2;
      const std::vector<TensorRef>& inputs = state.index[node].inputs;
      if (state.lists.ListOf(node) < 0 || inputs.size() <= element) continue;
      Add(inputs[element], &on_list_[state.lists.ListOf(node)]);
    }
  }

  struct Read {
    BufferId variable;
    int read;
    bool operator<(const Read& other) const {
      return variable != other.variable ? variable < other.variable : read < other.read;
    }
  };

  // Those that enter a loop there.
  std::set<Read> EnteredBy(const std::vector<int>& enters) {
    std::set<Read> found;
    for (const int enter : enters) {
      const auto list = on_list_.find(state_.lists.ListOf(enter));
      if (list != on_list_.end()) found.insert(list->second.begin(), list->second.end());
      if (!state_.index[enter].inputs.empty()) Add(state_.index[enter].inputs[0], &found);
    }
    return found;
  }

 private:
  void Add(const TensorRef& tensor, std::set<Read>* reads) {
    const BufferId b = state_.BufferOf(tensor);
    if (b == kNone || !state_.out.graph.buffers[b].resident || state_.out.graph.buffers[b].overwritten_by.empty())
      return;
    const int read = reads_.ReadBehind(tensor);
    if (read >= 0) reads->insert({b, read});
  }

  const ImportState& state_;
  ReadFinder reads_;
  std::map<int, std::set<Read>> on_list_;
};

}  // namespace

void HoldWhileLoopsEnd(int threads, ImportState* state) {
  const bool by_turns = DeviceType(state->out.device) != "CPU";
  if (state->index.frames() < 2 || (threads == 1 && !by_turns)) return;
  const std::vector<std::vector<int>> entered = Entered(*state);
  const std::vector<int64_t> held = HeldAlone(*state, entered);
  std::optional<LoopLevels> levels;
  std::optional<ReadsInLists> reads;
  if (by_turns) {
    levels.emplace(*state);
    reads.emplace(*state);
  }
  std::vector<int64_t> beside(state->index.size(), 0);
  for (int f = 1; f < state->index.frames(); ++f) {
    if (entered[f].empty() || (held[f] == 0 && !by_turns)) continue;
    state->deadline.Check();
    const std::vector<int> behind = by_turns ? levels->Behind(f, levels->Depth(f)) : ReadersOfResults(*state, f);
    for (const int node : behind) beside[node] = std::max(beside[node], held[f]);
    if (behind.empty() || !by_turns) continue;
    for (const auto& [variable, read] : reads->EnteredBy(entered[f])) {
      state->out.held_reads.push_back({variable, state->out.op_of_node[read], state->out.op_of_node[behind.back()]});
    }
  }
  for (const int node : state->order) {
    if (beside[node] == 0 || !state->OnDevice(node) || IsControlFlow(state->Node(node).op())) continue;
    state->Op(node).workspace_bytes += beside[node];
  }
}

}  // namespace lms
