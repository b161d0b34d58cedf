#include "cc/core/search/means_swap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace lms {
namespace {

// Of asking the link, unless it is full of promises.
constexpr int64_t kSwapWork = 20;

int64_t WorkOf(const PlanState::SwapWay& way) { return std::max<int64_t>(kSwapWork, way.out.passed + way.in.passed); }

// The first op by whose end the buffer may be out.
OpId FirstOut(int opens) { return IsClosureSlot(opens) ? OpOfSlot(opens) : OpOfSlot(opens) + 1; }

}  // namespace

bool SwapMeans::RulesAllow(BufferId buffer, int opens, OpId before) const {
  const int apart = before - OpOfSlot(opens);
  if (apart < rules_.least_gap || apart <= rules_.group) return false;
  if (state_.life(buffer).held_until >= 0) return true;
  if (rules_.most_tensors >= 0 && state_.swapped_buffers() >= rules_.most_tensors) return false;
  return state_.stored_bytes() + StoredBytes(state_.graph().buffers[buffer].bytes) <=
         state_.link().link().capacity_bytes;
}

// Where the rules have a swap-in for `before` begin; kNone where they leave it open.
OpId SwapMeans::PlaceIn(OpId before) const {
  if (rules_.wait_for_in) return before;
  return rules_.ahead >= 0 ? std::max(0, before - rules_.ahead) : kNone;
}

double SwapMeans::Score(const EvictionRun& run, const Excess& excess, const Gap& gap,
                        const PlanState::SwapWay& way) const {
  const int first = way.by == kNone ? gap.opens + 1 : OpSlot(way.by) + 1;
  const double gain = excess.Gain(state_.graph().buffers[gap.buffer].bytes, first, ClosureSlot(way.at) - 1);
  return ScoreOf(way.cost_us + run.rule.link_price * way.link_us + kNodeCostUs, gain, run.rule);
}

// The gap swapped at leisure, and as far as there is excess in it.
void SwapMeans::AddGaps(const EvictionRun& run, const Excess& excess, const Gap& gap, std::vector<Gap>* gaps) {
  if (!run.rule.swap || !RulesAllow(gap.buffer, gap.opens, gap.before)) return;
  const auto add = [&](OpId by, OpId at) {
    Gap swap = gap;
    swap.by = by;
    swap.at = at;
    const PlanState::SwapWay way = state_.FindSwap(gap.buffer, gap.opens, gap.before, by, at);
    state_.AddWork(WorkOf(way));
    swap.score = Score(run, excess, swap, way);
    Offer(run, swap, gaps);
    return way;
  };
  const OpId first_out = FirstOut(gap.opens);
  const OpId by = rules_.wait_for_out ? first_out : kNone;
  const OpId at = PlaceIn(gap.before);
  const PlanState::SwapWay way = add(by, at);
  // The op before the excess, and the one after it.
  const int first_over = excess.FirstFrom(gap.opens + 1);
  const int last_over = excess.LastUpTo(ClosureSlot(gap.before) - 1);
  const OpId tight_by = by != kNone ? by : std::max(first_out, OpOfSlot(first_over) - 1);
  const OpId tight_at = at != kNone ? at : std::min(gap.before, OpOfSlot(last_over) + 1);
  if ((way.by != kNone && way.by > tight_by) || way.at < tight_at) {
    add(way.by == kNone ? kNone : std::min(way.by, tight_by), std::max(way.at, tight_at));
  }
}

bool SwapMeans::Evict(const EvictionRun& run, const Excess& excess, const Gap& gap, bool /*anyway*/) {
  if (!RulesAllow(gap.buffer, gap.opens, gap.before)) return false;
  // Others may have been promised the time since.
  const PlanState::SwapWay way = state_.FindSwap(gap.buffer, gap.opens, gap.before, gap.by, gap.at);
  state_.AddWork(WorkOf(way));
  const double score = Score(run, excess, gap, way);
  if (!std::isfinite(score) || (run.rule.noise == 0 && score > kMostWorse * gap.score)) return false;
  state_.Begin();
  state_.Swap(gap.buffer, way);
  state_.Commit();
  return true;
}

void SwapMeans::TakePlaces(int64_t limit, const std::vector<BufferId>* buffers, const std::function<bool()>& go_on) {
  if (!state_.link_usable()) return;
  struct Candidate {
    double saved;  // per byte
    OpId before;
    BufferId buffer;
  };
  const MemGraph& graph = state_.graph();
  std::vector<Candidate> candidates;
  const auto add = [&](BufferId b) {
    if (!state_.MaySwap(b) || graph.buffers[b].bytes == 0) return;
    const double saved = graph.ops[graph.buffers[b].producer].cost_us / static_cast<double>(graph.buffers[b].bytes);
    for (const int start : state_.life(b).starts) {
      if (!IsClosureSlot(start) || state_.SwappedInAt(b, start) != nullptr || state_.Pinned(b)) continue;
      candidates.push_back({saved, OpOfSlot(start), b});
    }
  };
  ForBuffers(graph, buffers, add);
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.saved, a.before, a.buffer) < std::tie(a.saved, b.before, b.buffer);
  });
  for (const Candidate& c : candidates) {
    if (!go_on()) return;
    const int slot = ClosureSlot(c.before);
    const PlanState::Life& life = state_.life(c.buffer);
    state_.AddWork(kSwapWork);
    if (!std::binary_search(life.starts.begin(), life.starts.end(), slot) || life.starts.front() == slot) continue;
    const int opens = state_.LastNeededBefore(c.buffer, slot);
    const int use = state_.FirstReadFrom(c.buffer, slot);
    if (opens < 0 || use < 0 || use == state_.slots() - 1) continue;
    const OpId before = OpOfSlot(use);
    if (!RulesAllow(c.buffer, opens, before)) continue;
    const OpId by = rules_.wait_for_out ? FirstOut(opens) : kNone;
    const PlanState::SwapWay way = state_.FindSwap(c.buffer, opens, before, by, PlaceIn(before));
    state_.AddWork(WorkOf(way) - kSwapWork);
    if ((way.by != kNone && way.by >= way.at) || way.cost_us >= graph.ops[graph.buffers[c.buffer].producer].cost_us) {
      continue;
    }
    const double cost_us = state_.cost_us();
    state_.Begin();
    state_.Retain(c.buffer, c.before);
    state_.Swap(c.buffer, way);
    state_.Commit();
    if (state_.bytes().Max() > limit || state_.cost_us() > cost_us - kEqualCostUs) state_.Undo();
  }
  KeepPlaces();
}

// What took a place may have been the first to read what another swap brought back: where the rules say when that is to
// come, it comes for its next reader then.
void SwapMeans::KeepPlaces() {
  if (PlaceIn(0) == kNone) return;
  for (BufferId b = 0; b < static_cast<BufferId>(state_.graph().buffers.size()); ++b) {
    const std::vector<PlanState::SwappedIn> swapped_in = state_.life(b).swapped_in;
    for (const PlanState::SwappedIn& in : swapped_in) {
      const int use = state_.FirstReadFrom(b, in.slot);
      const int opens = state_.LastNeededBefore(b, in.slot);
      if (use < 0 || opens < 0 || OpOfSlot(in.slot) >= PlaceIn(OpOfSlot(use))) continue;
      state_.Begin();
      state_.Retain(b, OpOfSlot(in.slot));
      const OpId by = rules_.wait_for_out ? FirstOut(opens) : kNone;
      const PlanState::SwapWay way = state_.FindSwap(b, opens, OpOfSlot(use), by, PlaceIn(OpOfSlot(use)));
      state_.AddWork(WorkOf(way));
      const bool possible = way.by == kNone || way.by < way.at;
      if (possible) state_.Swap(b, way);
      state_.Commit();
      if (!possible) state_.Undo();
    }
  }
}

}  // namespace lms
