#include "cc/tf/stock/loop_starts.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/stock/executor_model.h"
#include "cc/tf/stock/layout_fusions.h"

namespace lms {
namespace {

constexpr uint32_t kStartRuns = 16;

struct Start {
  int frame;
  int gate;                             // the Enter that is to wait
  std::vector<int> makers;              // of what enters, those that may wait and be waited for
  std::vector<std::vector<int>> lates;  // per run: of the makers, those that run when the loop has begun, in order
};

// An Enter that the loop needs to decide whether it goes on; -1 where there is none.
int GateOf(const tensorflow::GraphDef& graph, const GraphIndex& index, int frame) {
  std::vector<int> pending{index.frame(frame).loop_cond};
  std::set<int> seen{pending[0]};
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    for (const TensorRef& input : index[node].inputs) {
      if (index[input.node].frame != frame || !seen.insert(input.node).second) continue;
      if (IsEnter(graph.node(input.node))) return input.node;
      if (!IsNextIteration(graph.node(input.node))) pending.push_back(input.node);
    }
  }
  return -1;
}

// Does the node run where and whenever the Enter does?
bool RunsWith(const tensorflow::GraphDef& graph, const GraphIndex& index, int node, int enter) {
  if (index[node].region < 0 || index[enter].region < 0) return false;
  const int around = index.frame(index[enter].frame).parent;
  const int frame =
      IsExit(graph.node(node)) && index[node].frame > 0 ? index.frame(index[node].frame).parent : index[node].frame;
  if (frame != around || graph.node(node).device() != graph.node(enter).device()) return false;
  return IsExit(graph.node(node)) ||
         index.region(index[node].region).conditions == index.region(index[enter].region).conditions;
}

std::vector<Start> FindStarts(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops,
                              bool onednn) {
  std::vector<Start> starts;
  std::vector<bool> may_be_fused;
  for (int f = 1; f < index.frames(); ++f) {
    // In a loop around it iterations may begin in other ways than the first.
    if (!loops.DependsOnOverlap(f) || index.frame(f).loop_cond < 0 || index.frame(f).parent != 0) continue;
    Start start{f, GateOf(graph, index, f), {}, {}};
    if (start.gate < 0 || !index[start.gate].live) continue;
    if (may_be_fused.empty()) may_be_fused = MayBeFused(graph, index, onednn);
    std::set<int> makers;
    for (const int enter : loops.NodesIn(f)) {
      if (!index[enter].live || index[enter].frame != f || !IsEnter(graph.node(enter))) continue;
      for (const TensorRef& input : index[enter].inputs) makers.insert(input.node);
      makers.insert(index[enter].controls.begin(), index[enter].controls.end());
    }
    for (const int maker : makers) {
      const bool always_there = index[maker].inputs.empty() && index[maker].controls.empty();
      if (!always_there && !may_be_fused[maker] && RunsWith(graph, index, maker, start.gate)) {
        start.makers.push_back(maker);
      }
    }
    if (!start.makers.empty()) starts.push_back(std::move(start));
  }
  return starts;
}

// The Enters of the loop that take what this node makes, or wait for it.
std::vector<int> EntersOf(const tensorflow::GraphDef& graph, const GraphIndex& index, int frame, int maker) {
  std::vector<int> enters;
  for (const int reader : index[maker].readers) {
    const bool enters_it = index[reader].live && index[reader].frame == frame && IsEnter(graph.node(reader));
    if (enters_it && std::find(enters.begin(), enters.end(), reader) == enters.end()) enters.push_back(reader);
  }
  return enters;
}

// What comes late in most runs, in the order of most.
const std::vector<int>* UsualLates(const std::vector<std::vector<int>>& lates) {
  for (const std::vector<int>& late : lates) {
    if (2 * std::count(lates.begin(), lates.end(), late) > static_cast<int64_t>(lates.size())) return &late;
  }
  return nullptr;
}

}  // namespace

std::vector<NodeWait> FindStartWaits(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops,
                                     bool onednn, const Deadline& deadline) {
  std::vector<Start> starts = FindStarts(graph, index, loops, onednn);
  if (starts.empty()) return {};
  const ExecutorModel model(graph, index, onednn, EdgeDraws::kAny);
  std::vector<int> place(index.size(), -1);
  for (uint32_t seed = 0; seed < kStartRuns; ++seed) {
    deadline.Check();
    const std::vector<int> run = model.Run(seed);
    std::fill(place.begin(), place.end(), -1);
    for (size_t i = 0; i < run.size(); ++i) place[run[i]] = static_cast<int>(i);
    for (Start& start : starts) {
      const int begins = place[index.frame(start.frame).loop_cond];
      if (begins < 0) return {};  // it never ran: nothing is known
      std::vector<int>& late = start.lates.emplace_back();
      for (const int maker : start.makers) {
        if (place[maker] > begins) late.push_back(maker);
      }
      std::sort(late.begin(), late.end(), [&place](int a, int b) { return place[a] < place[b]; });
    }
  }
  std::vector<NodeWait> waits;
  for (const Start& start : starts) {
    const std::vector<int>* const late = UsualLates(start.lates);
    if (late == nullptr) continue;
    for (const int maker : start.makers) {
      if (std::find(late->begin(), late->end(), maker) == late->end()) waits.push_back({start.gate, maker});
    }
    std::vector<int> before;  // what came last, and the control-flow nodes before it
    for (const int maker : *late) {
      const bool fixed = IsControlFlow(graph.node(maker).op());
      for (const int node : fixed ? EntersOf(graph, index, start.frame, maker) : std::vector<int>{maker}) {
        for (const int earlier : before) waits.push_back({node, earlier});
      }
      if (!fixed) before.clear();
      before.push_back(maker);
    }
  }
  return waits;
}

}  // namespace lms
