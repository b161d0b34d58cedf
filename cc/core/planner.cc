#include "cc/core/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "cc/core/closure.h"
#include "cc/core/liveness.h"
#include "cc/core/plan_state.h"

namespace lms {
namespace {

struct Start {
  double cost_exponent;  // of cost in cost / bytes: below 1 prefers large gaps, above 1 cheap ones
  double keep_ratio;     // see ClosureRule
};

// Ordered so that the first few already cover the ground: planning may stop after any of them.
constexpr Start kStarts[] = {{1.0, 0.25}, {0.7, 0.0}, {1.4, 1.0}, {1.0, 0.0}, {0.7, 0.25},
                             {1.4, 0.25}, {1.0, 1.0}, {0.7, 1.0}, {1.4, 0.0}};
constexpr int kAllStarts = sizeof(kStarts) / sizeof(kStarts[0]);
constexpr int kMostRounds = 200;
constexpr double kApplyShare = 0.125;         // of a round's candidates that are applied before all are weighed again
constexpr double kApplyScoreRatio = 3;        // and none that is this many times worse than the best
constexpr double kLeastProgress = 0.995;      // of the excess that a round must leave at most, to go on like that
constexpr int64_t kLeastEvictedBytes = 1024;  // smaller buffers are not worth a node

struct Gap {
  BufferId buffer;
  int opens;    // last slot in which the buffer is needed before the gap
  OpId before;  // op whose closure slot ends it
  double score;
};

// Excess over the limit, as prefix sums over slots.
class Excess {
 public:
  Excess(const std::vector<int64_t>& bytes, int64_t limit) : area_(bytes.size() + 1, 0), count_(bytes.size() + 1, 0) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int64_t over = std::max<int64_t>(0, bytes[i] - limit);
      area_[i + 1] = area_[i] + static_cast<double>(over);
      count_[i + 1] = count_[i] + (over > 0 ? 1 : 0);
    }
  }
  double Area(int first, int last) const { return last < first ? 0 : area_[last + 1] - area_[first]; }
  double Count(int first, int last) const { return last < first ? 0 : count_[last + 1] - count_[first]; }
  double Total() const { return area_.back(); }

 private:
  std::vector<double> area_;
  std::vector<double> count_;
};

class GapEviction {
 public:
  GapEviction(const MemGraph& graph, int64_t limit, const Start& start)
      : state_(graph), limit_(limit), start_(start), rule_{start.keep_ratio, 64} {
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      const MemBuffer& buffer = graph.buffers[b];
      if (buffer.evictable && buffer.bytes >= kLeastEvictedBytes && graph.ops[buffer.producer].recomputable) {
        candidates_.push_back(static_cast<BufferId>(b));
      }
    }
  }

  // Lowers the profile under the limit if it can. `limit` excludes resident bytes here, as the state does.
  void Run() {
    double before = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kMostRounds && state_.bytes().Max() > limit_; ++round) {
      const Excess excess(state_.bytes().Values(), limit_);
      if (!(excess.Total() < kLeastProgress * before)) {
        // The last round made things hardly better: what is left over the limit is held by closures themselves.
        if (!Relieve()) break;
        before = std::numeric_limits<double>::infinity();
        continue;
      }
      before = excess.Total();
      if (!EvictRound(excess) && !Relieve()) break;
    }
    if (state_.bytes().Max() <= limit_) ReverseDelete();
  }

  const PlanState& state() const { return state_; }

 private:
  // Weighs a gap; +infinity where nothing is gained.
  double Score(const Gap& gap, const Closure& closure, const Excess& excess) const {
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
    // An op that costs nothing still costs a node to run.
    const double cost_us = closure.cost_us + 0.5 * static_cast<double>(closure.recomputed.size());
    return std::pow(cost_us, start_.cost_exponent) / gain;
  }

  void AddGaps(BufferId buffer, const Excess& excess, std::vector<Gap>* gaps) const {
    const PlanState::Life& life = state_.life(buffer);
    int opens = -1;
    size_t next_start = 0;
    for (const PlanState::Access& access : life.accesses) {
      const OpId before = OpOfSlot(access.slot);
      // A start opens a new instance; a gap never spans one.
      while (next_start < life.starts.size() && life.starts[next_start] <= access.slot) {
        opens = std::max(opens, life.starts[next_start++]);
      }
      if (opens >= 0 && access.slot < state_.slots() - 1 && ClosureSlot(before) > opens + 1 &&
          excess.Count(opens + 1, ClosureSlot(before) - 1) > 0) {
        Gap gap{buffer, opens, before, 0};
        const Closure closure = FindClosure(state_, buffer, before, rule_);
        if (closure.possible) {
          gap.score = Score(gap, closure, excess);
          if (std::isfinite(gap.score)) gaps->push_back(gap);
        }
      }
      opens = access.slot;
    }
  }

  bool EvictRound(const Excess& excess) {
    std::vector<Gap> gaps;
    for (const BufferId b : candidates_) AddGaps(b, excess, &gaps);
    std::sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
      return std::tie(a.score, a.buffer, a.before) < std::tie(b.score, b.buffer, b.before);
    });
    const size_t share = std::max<size_t>(1, static_cast<size_t>(std::ceil(kApplyShare * gaps.size())));
    size_t applied = 0;
    for (const Gap& gap : gaps) {
      if (applied >= share || (applied > 0 && gap.score > kApplyScoreRatio * gaps.front().score)) break;
      if (Evict(gap, excess)) ++applied;
      if (state_.bytes().Max() <= limit_) break;
    }
    return applied > 0;
  }

  bool Evict(const Gap& gap, const Excess& excess) {
    const int closes = ClosureSlot(gap.before);
    // Changes of this round may have filled, shortened or relieved the gap.
    if (!state_.Alive(gap.buffer, closes - 1) || state_.bytes().Max(gap.opens + 1, closes - 1) <= limit_) return false;
    const Closure closure = FindClosure(state_, gap.buffer, gap.before, rule_);
    if (!closure.possible || Score(gap, closure, excess) > kApplyScoreRatio * gap.score) return false;
    const int64_t before = state_.bytes().Max(closes, closes);
    state_.Begin();
    for (const BufferId b : closure.recomputed) state_.Recompute(b, gap.before);
    state_.Commit();
    const int64_t after = state_.bytes().Max(closes, closes);
    if (after > limit_ && before <= limit_) {
      state_.Undo();  // the closure itself does not fit there
      return false;
    }
    return true;
  }

  // Takes back recomputations in the closure slots that are over the limit, where that lowers the worst one. True if
  // any was taken back.
  bool Relieve() {
    bool any = false;
    const std::vector<int64_t> bytes = state_.bytes().Values();
    std::vector<OpId> crowded;
    for (const auto& [before, steps] : state_.steps()) {
      if (bytes[ClosureSlot(before)] > limit_) crowded.push_back(before);
    }
    for (const OpId before : crowded) {
      std::vector<BufferId> provided;
      const auto found = state_.steps().find(before);
      if (found == state_.steps().end() || relieved_[before] >= 2) continue;
      ++relieved_[before];
      for (const auto& [op, provides] : found->second) {
        provided.insert(provided.end(), provides.begin(), provides.end());
      }
      for (const BufferId b : provided) {
        const int slot = ClosureSlot(before);
        const int64_t over = state_.bytes().Max(slot, slot);
        if (over <= limit_) break;
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

  void ReverseDelete() {
    struct Candidate {
      double cost_us;
      OpId before;
      BufferId buffer;
    };
    std::vector<Candidate> candidates;
    for (const auto& [before, steps] : state_.steps()) {
      for (const auto& [op, provides] : steps) {
        for (const BufferId b : provides) candidates.push_back({state_.graph().ops[op].cost_us, before, b});
      }
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(b.cost_us, a.before, a.buffer) < std::tie(a.cost_us, b.before, b.buffer);
    });
    for (const Candidate& c : candidates) {
      if (!state_.HasStep(c.before, state_.graph().buffers[c.buffer].producer)) continue;
      state_.Begin();
      state_.Retain(c.buffer, c.before);
      state_.Commit();
      if (state_.bytes().Max() > limit_) state_.Undo();
    }
  }

  PlanState state_;
  int64_t limit_;
  Start start_;
  ClosureRule rule_;
  std::vector<BufferId> candidates_;
  std::map<OpId, int> relieved_;  // how often a closure slot has been relieved
};

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

PlannerResult Evaluate(const MemGraph& graph, Plan plan, int64_t limit_bytes) {
  PlannerResult result;
  result.peak_bytes = Simulate(graph, plan).peak_bytes;
  result.feasible = result.peak_bytes <= limit_bytes;
  result.cost_us = plan.CostUs(graph);
  result.plan = std::move(plan);
  return result;
}

bool Better(const PlannerResult& a, const PlannerResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  if (!a.feasible) return a.peak_bytes < b.peak_bytes;
  return std::make_tuple(a.cost_us, a.plan.steps.size()) < std::make_tuple(b.cost_us, b.plan.steps.size());
}

PlannerResult RunStarts(const MemGraph& graph, int64_t limit_bytes, int most_starts, bool move, double deadline) {
  PlannerResult best = Evaluate(graph, Plan(), limit_bytes);
  if (best.feasible) return best;
  int starts = 0;
  for (const Start& start : kStarts) {
    if (starts == most_starts || (starts > 0 && Seconds() > deadline)) break;
    GapEviction eviction(graph, limit_bytes - graph.ResidentBytes(), start);
    eviction.Run();
    Plan plan = eviction.state().ToPlan();
    if (move) MarkMoves(graph, &plan);
    PlannerResult result = Evaluate(graph, std::move(plan), limit_bytes);
    if (Better(result, best)) best = std::move(result);
    ++starts;
  }
  return best;
}

}  // namespace

PlannerResult PlanForLimit(const MemGraph& graph, int64_t limit_bytes, const PlannerOptions& options) {
  if (!options.recompute) return Evaluate(graph, Plan(), limit_bytes);
  PlannerResult best = RunStarts(graph, limit_bytes, kAllStarts, options.move, Seconds() + options.seconds);
  if (best.feasible || limit_bytes < LowerBoundBytes(graph)) return best;
  // The search for the least peak also goes below its goals by chance; what it finds must hold as a limit too.
  PlannerResult least = PlanForLeastPeak(graph, options);
  least.feasible = least.peak_bytes <= limit_bytes;
  return Better(least, best) ? least : best;
}

PlannerResult PlanForLeastPeak(const MemGraph& graph, const PlannerOptions& options) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  PlannerResult best = Evaluate(graph, Plan(), kNoLimit);
  if (!options.recompute) return best;
  const double deadline = Seconds() + options.seconds;
  constexpr int kSearchStarts = 3;  // per limit tried
  constexpr int kSearchSteps = 12;
  int64_t low = LowerBoundBytes(graph);
  for (int i = 0; i < kSearchSteps && low < best.peak_bytes && (i == 0 || Seconds() < deadline); ++i) {
    const int64_t limit = i == 0 ? low : low + (best.peak_bytes - low) / 2;
    PlannerResult result = RunStarts(graph, limit, kSearchStarts, options.move, deadline);
    if (!result.feasible) low = limit + 1;
    if (result.peak_bytes < best.peak_bytes) best = std::move(result);
  }
  // The same peak for less, if another start can.
  PlannerResult cheaper = RunStarts(graph, best.peak_bytes, kAllStarts, options.move, deadline);
  best.feasible = true;
  return Better(cheaper, best) ? cheaper : best;
}

int64_t LowerBoundBytes(const MemGraph& graph) {
  int64_t most = 0;
  for (const MemOp& op : graph.ops) {
    int64_t inputs = 0;
    int64_t outputs = 0;
    int64_t forwardable = 0;
    for (const BufferId b : op.inputs) inputs += graph.buffers[b].resident ? 0 : graph.buffers[b].bytes;
    for (const BufferId b : op.outputs) outputs += graph.buffers[b].resident ? 0 : graph.buffers[b].bytes;
    for (const BufferId b : op.forwardable) forwardable += graph.buffers[b].resident ? 0 : graph.buffers[b].bytes;
    most = std::max(most, inputs + op.workspace_bytes + outputs - std::min(outputs, forwardable));
  }
  return graph.ResidentBytes() + most;
}

}  // namespace lms
