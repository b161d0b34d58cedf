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
constexpr size_t kMostEarly = 16;         // recomputations that gather where an excess ends: more are slow to simulate
constexpr int kMostCrowdedTries = 64;
constexpr int64_t kLeastEvictedBytes = 1024;     // smaller buffers are not worth a node...
constexpr int64_t kLeastEvictedShare = 1 << 14;  // ...nor are those below this part of the peak
constexpr int64_t kWorkBetweenQuestions = 20000;
constexpr double kEqualCostUs = 1e-6;
constexpr double kNodeCostUs = 0.5;  // an op that costs nothing still costs a node to run

// Of asking the link, unless it is full of promises.
constexpr int64_t kSwapWork = 20;

int64_t WorkOf(const PlanState::SwapWay& way) { return std::max<int64_t>(kSwapWork, way.out.passed + way.in.passed); }

bool Recomputable(const MemGraph& graph, BufferId b) {
  const MemBuffer& buffer = graph.buffers[b];
  return buffer.evictable && !buffer.resident && graph.ops[buffer.producer].recomputable;
}

}  // namespace

// Excess over the limit, as prefix sums over slots.
class GapEviction::Excess {
 public:
  Excess(const std::vector<int64_t>& bytes, int64_t limit)
      : area_(bytes.size() + 1, 0), count_(bytes.size() + 1, 0), last_(bytes.size(), -1), next_(bytes.size(), -1) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      last_[i] = bytes[i] > limit ? static_cast<int>(i) : i == 0 ? -1 : last_[i - 1];
      const int64_t over = std::max<int64_t>(0, bytes[i] - limit);
      area_[i + 1] = area_[i] + static_cast<double>(over);
      count_[i + 1] = count_[i] + (over > 0 ? 1 : 0);
    }
    int next = -1;
    for (size_t i = bytes.size(); i-- > 0;) next_[i] = next = bytes[i] > limit ? static_cast<int>(i) : next;
  }
  double Area(int first, int last) const { return last < first ? 0 : area_[last + 1] - area_[first]; }
  double Count(int first, int last) const { return last < first ? 0 : count_[last + 1] - count_[first]; }
  double Total() const { return area_.back(); }
  int LastUpTo(int slot) const { return last_[slot]; }   // the last one above the limit; -1 if there is none
  int FirstFrom(int slot) const { return next_[slot]; }  // the first one

 private:
  std::vector<double> area_;
  std::vector<double> count_;
  std::vector<int> last_;
  std::vector<int> next_;
};

GapEviction::GapEviction(PlanState* state, int64_t limit, std::function<bool()> interrupt, const SwapRules& rules)
    : state_(*state),
      full_limit_(limit),
      limit_(limit),
      interrupt_(std::move(interrupt)),
      rules_(rules),
      finder_(*state),
      relieved_(state->graph().ops.size(), 0) {
  const MemGraph& graph = state->graph();
  const int64_t least = std::min(kLeastEvictedBytes, std::max<int64_t>(1, state->bytes().Max() / kLeastEvictedShare));
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    if (buffer.resident || buffer.bytes < least) continue;
    if (Recomputable(graph, static_cast<BufferId>(b)) || state->MaySwap(static_cast<BufferId>(b))) {
      candidates_.push_back(static_cast<BufferId>(b));
    }
  }
}

void GapEviction::Prepare(const EvictionRule& rule, Random* random) {
  rule_ = rule;
  limit_ = static_cast<int64_t>(static_cast<double>(full_limit_) * rule.aim);
  closure_rule_.keep_ratio = rule.keep_ratio;
  closure_rule_.limit_bytes = limit_;
  random_ = random;
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

bool GapEviction::Run(const EvictionRule& rule, Random* random) {
  Prepare(rule, random);
  double before = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kMostRounds && state_.bytes().Max() > limit_; ++round) {
    if (interrupted_ || (interrupt_ && interrupt_())) break;
    if (forget_) state_.ForgetHistory();
    const Excess excess(state_.bytes().Values(), limit_);
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
  for (int round = 0; round < kMostRounds && state_.bytes().Max() > limit_; ++round) {
    if (interrupted_ || (interrupt_ && interrupt_())) break;
    if (forget_) state_.ForgetHistory();
    const Excess excess(state_.bytes().Values(), limit_);
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
        if (state_.bytes().Max() <= limit_) break;
      }
    }
    if (!any) break;
  }
  return state_.bytes().Max() <= full_limit_;
}

// Weighs a gap; +infinity where nothing is gained.
double GapEviction::Score(const Gap& gap, const Closure& closure, const Excess& excess) const {
  const MemGraph& graph = state_.graph();
  const int first = gap.opens + 1;
  const int last = ClosureSlot(gap.before) - 1;
  const double bytes = static_cast<double>(graph.buffers[gap.buffer].bytes);
  double gain = std::min(bytes * excess.Count(first, last), excess.Area(first, last));
  for (const BufferId kept : closure.kept) {
    const int until = state_.AliveUntil(kept, last + 1);
    gain -= static_cast<double>(graph.buffers[kept].bytes) * excess.Count(until + 1, last + 1);
  }
  if (gain <= 0) return std::numeric_limits<double>::infinity();
  const double cost_us = closure.cost_us + kNodeCostUs * static_cast<double>(closure.recomputed.size());
  return std::pow(cost_us, rule_.cost_exponent) / gain;
}

void GapEviction::AddGap(BufferId buffer, int opens, OpId before, bool early, const Excess& excess,
                         std::vector<Gap>* gaps) {
  Gap gap{buffer, opens, before, early, closure_rule_, 0};
  gap.score = Weigh(gap, excess);
  if (!std::isfinite(gap.score)) {
    // What keeping inputs cannot do recomputing them may, and the other way round.
    gap.rule.keep_ratio = gap.rule.keep_ratio < 1 ? 1 : 0;
    gap.score = Weigh(gap, excess);
  }
  if (rule_.noise > 0) gap.score *= std::exp(rule_.noise * (2 * random_->Unit() - 1));
  if (std::isfinite(gap.score)) gaps->push_back(gap);
}

double GapEviction::Weigh(const Gap& gap, const Excess& excess) {
  const Closure& closure = finder_.Find(gap.buffer, gap.before, gap.rule);
  state_.AddWork(4 * finder_.looked_at());
  return closure.possible ? Score(gap, closure, excess) : std::numeric_limits<double>::infinity();
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
      if (state_.MaySwap(buffer)) AddSwap(buffer, opens, before, excess, gaps);
      if (rule_.recompute && Recomputable(state_.graph(), buffer)) {
        AddGap(buffer, opens, before, false, excess, gaps);
        // Where the excess ends long before the next read, inputs may still be there at its end.
        const OpId early = OpOfSlot(excess.LastUpTo(closes - 1)) + 1;
        if (early < before && state_.steps(early).size() < kMostEarly) AddGap(buffer, opens, early, true, excess, gaps);
      }
    }
    opens = access.slot;
  }
}

bool GapEviction::RulesAllow(BufferId buffer, int opens, OpId before) const {
  const int apart = before - OpOfSlot(opens);
  if (apart < rules_.least_gap || apart <= rules_.group) return false;
  if (state_.life(buffer).held_until >= 0) return true;
  if (rules_.most_tensors >= 0 && state_.swapped_buffers() >= rules_.most_tensors) return false;
  return state_.stored_bytes() + StoredBytes(state_.graph().buffers[buffer].bytes) <=
         state_.link().link().capacity_bytes;
}

// The first op by whose end the buffer may be out.
OpId GapEviction::FirstOut(int opens) const { return IsClosureSlot(opens) ? OpOfSlot(opens) : OpOfSlot(opens) + 1; }

// Where the rules have a swap-in for `before` begin; kNone where they leave it open.
OpId GapEviction::PlaceIn(OpId before) const {
  if (rules_.wait_for_in) return before;
  return rules_.ahead >= 0 ? std::max(0, before - rules_.ahead) : kNone;
}

double GapEviction::ScoreSwap(const Gap& gap, const PlanState::SwapWay& way, const Excess& excess) const {
  const int first = way.by == kNone ? gap.opens + 1 : OpSlot(way.by) + 1;
  const int last = ClosureSlot(way.at) - 1;
  const double bytes = static_cast<double>(state_.graph().buffers[gap.buffer].bytes);
  const double gain = std::min(bytes * excess.Count(first, last), excess.Area(first, last));
  if (gain <= 0) return std::numeric_limits<double>::infinity();
  const double cost_us = way.cost_us + rule_.link_price * way.link_us + kNodeCostUs;
  return std::pow(cost_us, rule_.cost_exponent) / gain;
}

// The gap swapped at leisure, and as far as there is excess in it.
void GapEviction::AddSwap(BufferId buffer, int opens, OpId before, const Excess& excess, std::vector<Gap>* gaps) {
  if (!rule_.swap || !RulesAllow(buffer, opens, before)) return;
  const auto add = [&](OpId by, OpId at) {
    Gap gap{buffer, opens, before, false, closure_rule_, 0, true, by, at};
    const PlanState::SwapWay way = state_.FindSwap(buffer, opens, before, by, at);
    state_.AddWork(WorkOf(way));
    gap.score = ScoreSwap(gap, way, excess);
    if (rule_.noise > 0) gap.score *= std::exp(rule_.noise * (2 * random_->Unit() - 1));
    if (std::isfinite(gap.score)) gaps->push_back(gap);
    return way;
  };
  const OpId first_out = FirstOut(opens);
  const OpId by = rules_.wait_for_out ? first_out : kNone;
  const OpId at = PlaceIn(before);
  const PlanState::SwapWay way = add(by, at);
  // The op before the excess, and the one after it.
  const int first_over = excess.FirstFrom(opens + 1);
  const int last_over = excess.LastUpTo(ClosureSlot(before) - 1);
  const OpId tight_by = by != kNone ? by : std::max(first_out, OpOfSlot(first_over) - 1);
  const OpId tight_at = at != kNone ? at : std::min(before, OpOfSlot(last_over) + 1);
  if ((way.by != kNone && way.by > tight_by) || way.at < tight_at) {
    add(way.by == kNone ? kNone : std::min(way.by, tight_by), std::max(way.at, tight_at));
  }
}

// All gaps that something is gained by evicting, best first.
std::vector<GapEviction::Gap> GapEviction::FindGaps(const Excess& excess) {
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
    if (state_.bytes().Max() <= limit_) break;
  }
  return applied > 0;
}

bool GapEviction::EvictBySwap(const Gap& gap, const Excess& excess) {
  const int closes = ClosureSlot(gap.before);
  if (!state_.Alive(gap.buffer, closes - 1) || state_.LastNeededBefore(gap.buffer, closes) != gap.opens ||
      state_.bytes().Max(gap.opens + 1, closes - 1) <= limit_ || !RulesAllow(gap.buffer, gap.opens, gap.before)) {
    return false;
  }
  // Others may have been promised the time since.
  const PlanState::SwapWay way = state_.FindSwap(gap.buffer, gap.opens, gap.before, gap.by, gap.at);
  state_.AddWork(WorkOf(way));
  const double score = ScoreSwap(gap, way, excess);
  if (!std::isfinite(score) || (rule_.noise == 0 && score > kFirstScoreRatio * gap.score)) return false;
  state_.Begin();
  state_.Swap(gap.buffer, way);
  state_.Commit();
  return true;
}

bool GapEviction::Evict(const Gap& gap, const Excess& excess, bool may_crowd) {
  if (gap.swap) return EvictBySwap(gap, excess);
  const int closes = ClosureSlot(gap.before);
  // Changes of this round may have filled, shortened or relieved the gap.
  if (!state_.Alive(gap.buffer, closes - 1) || state_.LastNeededBefore(gap.buffer, closes) != gap.opens ||
      state_.bytes().Max(gap.opens + 1, closes - 1) <= limit_ ||
      (gap.early && state_.steps(gap.before).size() >= kMostEarly)) {
    return false;
  }
  const Closure& closure = finder_.Find(gap.buffer, gap.before, gap.rule);
  state_.AddWork(4 * finder_.looked_at());
  if (!closure.possible) return false;
  if (rule_.noise == 0 && !may_crowd && Score(gap, closure, excess) > kFirstScoreRatio * gap.score) return false;
  const int64_t before = state_.bytes().Max(closes, closes);
  state_.Begin();
  for (const BufferId b : closure.recomputed) state_.Recompute(b, gap.before);
  state_.Commit();
  const int64_t after = state_.bytes().Max(closes, closes);
  if (after > limit_ && before <= limit_ && !may_crowd) {
    state_.Undo();  // the closure itself does not fit there
    return false;
  }
  return true;
}

// Where nothing can be evicted otherwise: accepts a closure that does not fit in its place (there the next rounds may
// make room) if there is less excess in all. The best such gap; false if there is none.
bool GapEviction::EvictThroughCrowd(const Excess& excess) {
  if (!rule_.crowd) return false;
  int tried = 0;
  for (const Gap& gap : FindGaps(excess)) {
    if (++tried > kMostCrowdedTries || Interrupted()) return false;
    if (!Evict(gap, excess, true)) continue;
    if (Excess(state_.bytes().Values(), limit_).Total() < kLeastProgress * excess.Total()) return true;
    state_.Undo();
  }
  return false;
}

// Takes back recomputations in the closure slots that are over the limit, where that lowers the worst one. True if any
// was taken back.
bool GapEviction::Relieve() {
  bool any = false;
  std::vector<OpId> crowded;
  for (int slot = state_.bytes().FirstAbove(0, limit_); slot >= 0; slot = state_.bytes().FirstAbove(slot + 1, limit_)) {
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
      if (over <= limit_) break;
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
  if (buffers != nullptr) {
    for (const BufferId b : *buffers) add(b);
  } else {
    for (size_t b = 0; b < graph.buffers.size(); ++b) add(static_cast<BufferId>(b));
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.cost_us, a.before, a.buffer) < std::tie(a.cost_us, b.before, b.buffer);
  });
  for (const Candidate& c : candidates) {
    if (interrupt_ && interrupt_()) return;
    if (forget_) state_.ForgetHistory();
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

void GapEviction::SwapInstead(const std::vector<BufferId>* buffers) {
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
  if (buffers != nullptr) {
    for (const BufferId b : *buffers) add(b);
  } else {
    for (size_t b = 0; b < graph.buffers.size(); ++b) add(static_cast<BufferId>(b));
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.saved, a.before, a.buffer) < std::tie(a.saved, b.before, b.buffer);
  });
  for (const Candidate& c : candidates) {
    if (interrupt_ && interrupt_()) return;
    if (forget_) state_.ForgetHistory();
    const int slot = ClosureSlot(c.before);
    const PlanState::Life& life = state_.life(c.buffer);
    state_.AddWork(kSwapWork);
    if (!std::binary_search(life.starts.begin(), life.starts.end(), slot) || life.starts.front() == slot) continue;
    const int opens = state_.LastNeededBefore(c.buffer, slot);
    const auto use = std::find_if(life.accesses.begin(), life.accesses.end(),
                                  [slot](const PlanState::Access& access) { return access.slot >= slot; });
    if (opens < 0 || use == life.accesses.end() || use->slot == state_.slots() - 1) continue;
    const OpId before = OpOfSlot(use->slot);
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
    if (state_.bytes().Max() > full_limit_ || state_.cost_us() > cost_us - kEqualCostUs) state_.Undo();
  }
}

}  // namespace lms
