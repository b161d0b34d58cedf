#include "cc/core/search/gap_eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace lms {
namespace {

constexpr int kMostRounds = 200;
constexpr double kApplyShare = 0.125;    // of a round's candidates that are applied before all are weighed again
constexpr double kFirstScoreRatio = 3;   // and none that is this many times worse than the best...
constexpr double kScoreRatioGrowth = 4;  // ...unless a round leaves more of the excess than kGoodProgress
constexpr double kMostScoreRatio = 1e6;
constexpr double kGoodProgress = 0.9;
constexpr double kLeastProgress = 0.995;  // more than that, and what is left is held by the closures themselves
constexpr int kMostCrowdedTries = 64;
constexpr int64_t kLeastEvictedBytes = 1024;     // smaller buffers are not worth a node...
constexpr int64_t kLeastEvictedShare = 1 << 14;  // ...nor are those below this part of the peak
constexpr int64_t kWorkBetweenQuestions = 20000;

}  // namespace

GapEviction::GapEviction(PlanState* state, int64_t limit, std::function<bool()> interrupt, const SwapRules& rules,
                         const std::vector<MeansMaker>& means)
    : state_(*state), full_limit_(limit), interrupt_(std::move(interrupt)), relieved_(state->graph().ops.size(), 0) {
  for (const MeansMaker& make : means) means_.push_back(make(state, rules));
  const MemGraph& graph = state->graph();
  const int64_t least = std::min(kLeastEvictedBytes, std::max<int64_t>(1, state->bytes().Max() / kLeastEvictedShare));
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    if (buffer.resident || buffer.bytes < least) continue;
    const auto serves = [b](const auto& one) { return one->Serves(static_cast<BufferId>(b)); };
    if (std::any_of(means_.begin(), means_.end(), serves)) candidates_.push_back(static_cast<BufferId>(b));
  }
}

void GapEviction::Prepare(const EvictionRule& rule, Random* random) {
  run_.rule = rule;
  run_.limit = static_cast<int64_t>(static_cast<double>(full_limit_) * rule.aim);
  run_.random = random;
  std::fill(relieved_.begin(), relieved_.end(), 0);
  score_ratio_ = kFirstScoreRatio;
  interrupted_ = false;
  ask_at_ = 0;
}

// Asked often: passes the question on when enough has been done since the last time.
bool GapEviction::Interrupted() {
  if (!interrupted_ && interrupt_ && state_.work() >= ask_at_) {
    ask_at_ = state_.work() + kWorkBetweenQuestions;
    interrupted_ = interrupt_();
  }
  return interrupted_;
}

// Asked before each change that is made when a run is over.
bool GapEviction::GoOn() {
  if (interrupt_ && interrupt_()) return false;
  if (forget_) state_.ForgetHistory();
  return true;
}

bool GapEviction::Run(const EvictionRule& rule, Random* random) {
  Prepare(rule, random);
  double before = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kMostRounds && state_.bytes().Max() > run_.limit; ++round) {
    if (interrupted_ || (interrupt_ && interrupt_())) break;
    if (forget_) state_.ForgetHistory();
    const Excess excess(state_.bytes().Values(), run_.limit);
    if (!(excess.Total() < kGoodProgress * before))
      score_ratio_ = std::min(score_ratio_ * kScoreRatioGrowth, kMostScoreRatio);
    if (!(excess.Total() < kLeastProgress * before) && score_ratio_ >= kMostScoreRatio) {
      if (!Relieve() && !EvictThroughCrowd(excess)) break;
      before = std::numeric_limits<double>::infinity();
      continue;
    }
    before = excess.Total();
    if (!EvictRound(excess) && !Relieve() && !EvictThroughCrowd(excess)) break;
  }
  return state_.bytes().Max() <= full_limit_;
}

bool GapEviction::RunAlike(const EvictionRule& rule, const std::vector<std::vector<BufferId>>& groups) {
  Prepare(rule, nullptr);
  for (int round = 0; round < kMostRounds && state_.bytes().Max() > run_.limit; ++round) {
    if (interrupted_ || (interrupt_ && interrupt_())) break;
    if (forget_) state_.ForgetHistory();
    const Excess excess(state_.bytes().Values(), run_.limit);
    std::vector<std::pair<Gap, size_t>> best;  // of each group's middle one
    std::vector<Gap> gaps;
    for (size_t g = 0; g < groups.size(); ++g) {
      gaps.clear();
      AddGaps(groups[g][groups[g].size() / 2], excess, &gaps);
      if (!gaps.empty()) best.emplace_back(*std::min_element(gaps.begin(), gaps.end()), g);
    }
    std::sort(best.begin(), best.end());
    bool any = false;
    for (size_t i = 0; i < best.size() && !any; ++i) {
      for (const BufferId b : groups[best[i].second]) {
        gaps.clear();
        AddGaps(b, excess, &gaps);
        if (!gaps.empty()) any |= Evict(*std::min_element(gaps.begin(), gaps.end()), excess, false);
        if (state_.bytes().Max() <= run_.limit) break;
      }
    }
    if (!any) break;
  }
  return state_.bytes().Max() <= full_limit_;
}

void GapEviction::AddGaps(BufferId buffer, const Excess& excess, std::vector<Gap>* gaps) {
  const PlanState::Life& life = state_.life(buffer);
  int opens = -1;
  size_t next_start = 0;
  for (const PlanState::Access& access : life.accesses) {
    const OpId before = OpOfSlot(access.slot);
    // A start opens a new instance; a gap never spans one.
    while (next_start < life.starts.size() && life.starts[next_start] <= access.slot) {
      opens = std::max(opens, life.starts[next_start++]);
    }
    if (life.held_until >= 0 && life.held_until < access.slot) opens = std::max(opens, life.held_until);
    const int closes = ClosureSlot(before);
    if (opens >= 0 && access.slot < state_.slots() - 1 && closes > opens + 1 &&
        excess.Count(opens + 1, closes - 1) > 0) {
      Gap gap;
      gap.buffer = buffer;
      gap.opens = opens;
      gap.before = before;
      for (gap.means = 0; gap.means < means_.size(); ++gap.means) {
        if (means_[gap.means]->Serves(buffer)) means_[gap.means]->AddGaps(run_, excess, gap, gaps);
      }
    }
    opens = access.slot;
  }
}

// All gaps that something is gained by evicting, best first.
std::vector<Gap> GapEviction::FindGaps(const Excess& excess) {
  std::vector<Gap> gaps;
  state_.AddWork(state_.slots() / 2 + static_cast<int64_t>(candidates_.size()));
  for (const BufferId b : candidates_) {
    if (Interrupted()) break;
    AddGaps(b, excess, &gaps);
  }
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

bool GapEviction::EvictRound(const Excess& excess) {
  const std::vector<Gap> gaps = FindGaps(excess);
  const size_t share = std::max<size_t>(1, static_cast<size_t>(std::ceil(kApplyShare * gaps.size())));
  size_t applied = 0;
  for (const Gap& gap : gaps) {
    if (Interrupted() || applied >= share || (applied > 0 && gap.score > score_ratio_ * gaps.front().score)) break;
    if (Evict(gap, excess, false)) ++applied;
    if (state_.bytes().Max() <= run_.limit) break;
  }
  return applied > 0;
}

bool GapEviction::Evict(const Gap& gap, const Excess& excess, bool may_crowd) {
  const int closes = ClosureSlot(gap.before);
  // Changes of this round may have filled, shortened or relieved the gap.
  if (!state_.Alive(gap.buffer, closes - 1) || state_.LastNeededBefore(gap.buffer, closes) != gap.opens ||
      state_.bytes().Max(gap.opens + 1, closes - 1) <= run_.limit) {
    return false;
  }
  return means_[gap.means]->Evict(run_, excess, gap, may_crowd);
}

// Where nothing can be evicted otherwise: accepts a closure that does not fit in its place (there the next rounds may
// make room) if there is less excess in all. The best such gap; false if there is none.
bool GapEviction::EvictThroughCrowd(const Excess& excess) {
  if (!run_.rule.crowd) return false;
  int tried = 0;
  for (const Gap& gap : FindGaps(excess)) {
    if (++tried > kMostCrowdedTries || Interrupted()) return false;
    if (!Evict(gap, excess, true)) continue;
    if (Excess(state_.bytes().Values(), run_.limit).Total() < kLeastProgress * excess.Total()) return true;
    state_.Undo();
  }
  return false;
}

// Takes back recomputations in the closure slots that are over the limit, where that lowers the worst one. True if any
// was taken back.
bool GapEviction::Relieve() {
  bool any = false;
  std::vector<OpId> crowded;
  for (int slot = state_.bytes().FirstAbove(0, run_.limit); slot >= 0;
       slot = state_.bytes().FirstAbove(slot + 1, run_.limit)) {
    if (IsClosureSlot(slot) && slot != state_.slots() - 1) crowded.push_back(OpOfSlot(slot));
  }
  for (const OpId before : crowded) {
    if (relieved_[before] >= 2) continue;
    ++relieved_[before];
    std::vector<BufferId> provided;
    for (const PlanState::Step& step : state_.steps(before)) {
      provided.insert(provided.end(), step.provides.begin(), step.provides.end());
    }
    const int slot = ClosureSlot(before);
    for (const BufferId b : provided) {
      if (Interrupted()) return any;
      const int64_t over = state_.bytes().Max(slot, slot);
      if (over <= run_.limit) break;
      if (state_.Pinned(b)) continue;
      const int64_t worst = state_.bytes().Max();
      state_.Begin();
      state_.Retain(b, before);
      state_.Commit();
      if (state_.bytes().Max(slot, slot) < over && state_.bytes().Max() <= worst) {
        any = true;
      } else {
        state_.Undo();
      }
    }
  }
  return any;
}

void GapEviction::TakeBack(const std::vector<BufferId>* buffers) {
  struct Candidate {
    double cost_us;
    OpId before;
    BufferId buffer;
    bool swap;
  };
  const MemGraph& graph = state_.graph();
  std::vector<Candidate> candidates;
  const auto add = [&](BufferId b) {
    for (const int start : state_.life(b).starts) {
      if (!IsClosureSlot(start) || state_.Pinned(b)) continue;
      const PlanState::SwappedIn* swap = state_.SwappedInAt(b, start);
      const double cost_us =
          swap == nullptr ? graph.ops[graph.buffers[b].producer].cost_us : state_.CostOfSwap(b, *swap);
      candidates.push_back({cost_us, OpOfSlot(start), b, swap != nullptr});
    }
  };
  ForBuffers(graph, buffers, add);
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.cost_us, a.before, a.buffer) < std::tie(a.cost_us, b.before, b.buffer);
  });
  for (const Candidate& c : candidates) {
    if (!GoOn()) return;
    const OpId op = graph.buffers[c.buffer].producer;
    const int slot = ClosureSlot(c.before);
    const std::vector<int>& starts = state_.life(c.buffer).starts;
    if (!std::binary_search(starts.begin(), starts.end(), slot)) continue;  // gone with another one
    // Would it fit even if everything that the recomputation reads went away?
    int64_t bytes = graph.buffers[c.buffer].bytes;
    if (!c.swap) {
      for (const BufferId input : graph.ops[op].inputs) bytes -= graph.buffers[input].bytes;
    }
    state_.AddWork(4);
    const int first = state_.AliveUntil(c.buffer, slot - 1) + 1;
    // Where it is alive all along, no place takes more; else `bytes`, which may be less than none, come on top.
    if (first < slot && state_.bytes().Max(first, slot - 1) + bytes > full_limit_) continue;
    const double cost_us = state_.cost_us();
    state_.Begin();
    state_.Retain(c.buffer, c.before);
    state_.Commit();
    if (state_.bytes().Max() > full_limit_ || state_.cost_us() > cost_us + kEqualCostUs) state_.Undo();
  }
}

void GapEviction::Exchange(const std::vector<BufferId>* buffers) {
  for (const auto& means : means_) means->TakePlaces(full_limit_, buffers, [this] { return GoOn(); });
}

}  // namespace lms
