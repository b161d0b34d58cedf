#include "cc/core/search/planner.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "cc/core/search/checkpoint_chain.h"
#include "cc/core/search/delay.h"
#include "cc/core/search/gap_eviction.h"
#include "cc/core/search/hinted_plan.h"
#include "cc/core/search/local_search.h"
#include "cc/core/search/plan_starts.h"
#include "cc/core/search/plan_state.h"
#include "cc/core/search/planning.h"
#include "cc/core/simulate/lower_bound.h"

namespace lms {
namespace {

constexpr double kNearlyFree = 0.002;  // of the step: with plans that add no more, others need not be tried
constexpr double kShareAlone = 0.15;   // of the work, for recomputation alone and for swapping alone
constexpr double kMostAdded = 2;       // of the step: who asks for the least does not ask for a step ten times as long
constexpr int64_t kTakenBack = 8;      // of the work of a search: one of so many parts, for what is not needed any more
constexpr uint64_t kSeed = 1;

class Planner {
 public:
  Planner(const MemGraph& graph, const PlannerOptions& options)
      : graph_(graph), options_(options), planning_(graph, options) {}

  // The best plans, different ones, best first, without local search.
  std::vector<PlannerResult> Start(int64_t limit_bytes) { return RunStarts(PlanStarts(), limit_bytes, &planning_); }

  // Local search from each of the plans, for a part of the work, then from the best of the results.
  PlannerResult Improve(std::vector<PlannerResult> starts, int64_t limit_bytes) {
    PlannerResult best = starts[0];
    best.work = planning_.work();
    // What hints ask for cannot be improved.
    if (!planning_.hinted().empty() && best.feasible && best.cost_us <= planning_.hinted_us()) return best;
    if (best.plan.empty() || options_.single_start) return best;
    const int64_t work = std::max(options_.work / 4, options_.work - planning_.work());
    planning_.SetUntil(planning_.work() + work);
    double bound_us = 0;
    if (!options_.link.usable()) {  // the bound is of recomputation
      WorkMeter meter(work / 2);
      best.bound_us = bound_us = LowerBoundUs(graph_, limit_bytes, &meter);
      planning_.Count(meter.done());
    }
    const int64_t share = work / 2 / static_cast<int64_t>(starts.size());
    const bool huge = planning_.huge();
    for (const PlannerResult& start : starts) {
      if (huge || planning_.Late() || start.feasible != starts[0].feasible) break;
      PlannerResult result = Search(start.plan, limit_bytes, share, bound_us);
      if (BetterPlan(result, best)) best = std::move(result);
    }
    if (!huge && !planning_.Late()) {
      PlannerResult result = Search(best.plan, limit_bytes, work - work / 2, bound_us);
      if (BetterPlan(result, best)) best = std::move(result);
    }
    best.bound_us = bound_us;
    best.work = planning_.work();
    return best;
  }

  // The lowest peak that a search over limits finds, for less time if another way leads there.
  PlannerResult Least() {
    PlannerResult least = Lowest();
    const int64_t limit_bytes = least.peak_bytes;
    std::vector<PlannerResult> starts = Start(limit_bytes);
    KeepBest(std::move(least), &starts);
    return Improve(std::move(starts), limit_bytes);
  }

 private:
  // Bisection between what a single op needs and the lowest peak so far, each plan grown from the one before.
  PlannerResult Lowest() {
    constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
    constexpr int kChainTries = 8;
    constexpr int kSteps = 10;
    PlannerResult best = planning_.Evaluate(planning_.hinted(), kNoLimit);
    planning_.SetUntil(planning_.work() + options_.work / 2);
    if (const CheckpointChain* chain = planning_.Chain(0)) {
      PlanState state = planning_.Fresh();
      // Solutions for little more than the least may turn out smaller than that for the least.
      double level = chain->LeastLevel();
      bool found = false;
      for (int i = 0; i < kChainTries && level < chain->levels() && !(found && planning_.Late(state.work())); ++i) {
        chain->Apply(static_cast<int>(level), &state);
        if (state.cost_us() <= kMostAdded * graph_.TotalCostUs()) {
          found = true;
          if (state.bytes().Max() + planning_.resident() < best.peak_bytes)
            best = planning_.Evaluate(state.ToPlan(), kNoLimit);
        }
        state.UndoAll();
        level = std::max(level + 1, level * 1.15);
      }
      planning_.Count(state.work());
    }
    const int64_t bound = LowerBoundBytes(graph_);
    int64_t low = bound;
    // A part of the work goes into plans that greedy ways do not find.
    const int64_t share = options_.work / 2 / kSteps;
    for (int i = 0; i < kSteps && bound < best.peak_bytes && !planning_.Late(); ++i) {
      // What could not be found is not impossible: the search begins anew below it.
      if (low >= best.peak_bytes) low = bound;
      const int64_t limit_bytes = low + (best.peak_bytes - low) / 2;
      PlanState state = planning_.Fresh();
      GapEviction eviction(
          &state, limit_bytes - planning_.resident(), [&] { return planning_.Late(state.work()); },
          options_.swap_rules);
      PlannerResult result;
      result.peak_bytes = kNoLimit;
      for (const Plan& from : {best.plan, planning_.hinted()}) {
        state.Load(from);
        EvictionRule rule = planning_.Allowed(kFirstRules[i % std::size(kFirstRules)], i);
        rule.crowd = true;
        if (eviction.Run(rule)) eviction.TakeBack();
        if (state.bytes().Max() + planning_.resident() < result.peak_bytes)
          result = planning_.Evaluate(state.ToPlan(), limit_bytes);
        if (result.feasible || planning_.Late(state.work())) break;
      }
      planning_.Count(state.work());
      if (!result.feasible && !planning_.huge() && !planning_.Late()) {
        PlannerResult found = Search(result.plan, limit_bytes, share, 0);
        if (found.peak_bytes < result.peak_bytes) result = std::move(found);
      }
      if (!result.feasible) low = limit_bytes + 1;
      if (result.peak_bytes < best.peak_bytes) best = std::move(result);
    }
    best.feasible = true;
    planning_.SetUntil(std::max(planning_.work(), options_.work));
    return best;
  }

  PlannerResult Search(const Plan& from, int64_t limit_bytes, int64_t work, double enough_us) {
    PlanState state = planning_.Fresh();
    state.Load(from);
    const int64_t begin = state.work();
    const int64_t limit = limit_bytes - planning_.resident();
    LocalSearchLimits limits;
    limits.work = work;
    limits.enough_us = enough_us;
    limits.interrupt = [&state, until = begin + work] { return state.work() >= until; };
    limits.recompute = options_.recompute;
    limits.swap_rules = options_.swap_rules;
    ImproveLocally(&state, limit, kSeed, limits);
    if (state.bytes().Max() <= limit && DelayRecomputations(&state)) {
      const auto late = [&state, until = state.work() + work / kTakenBack] { return state.work() >= until; };
      GapEviction eviction(&state, limit, late, options_.swap_rules);
      eviction.TakeBack();
      eviction.Exchange();
    }
    planning_.Count(state.work() - begin);
    return planning_.Evaluate(state.ToPlan(), limit_bytes);
  }

  const MemGraph& graph_;
  const PlannerOptions& options_;
  Planning planning_;
};

}  // namespace

PlannerOptions PlannerOptionsFor(double seconds) {
  PlannerOptions options;
  options.work = static_cast<int64_t>(seconds * kWorkPerSecond);
  return options;
}

PlannerResult PlanForLimit(const MemGraph& graph, int64_t limit_bytes, const PlannerOptions& options) {
  if (!options.recompute && !options.link.usable()) return Evaluate(graph, Plan(), limit_bytes, options.link);
  // Of one way alone no more would come than what hints leave open to it.
  const bool mix = options.recompute && options.link.usable() && !options.single_start && !HasEvictionHints(graph);
  PlannerOptions most = options;
  if (mix) most.work = static_cast<int64_t>(static_cast<double>(options.work) * (1 - 2 * kShareAlone));
  Planner planner(graph, most);
  int64_t work_alone = 0;
  std::vector<PlannerResult> starts = planner.Start(limit_bytes);
  const bool nearly_free = starts[0].feasible && starts[0].cost_us < kNearlyFree * graph.TotalCostUs();
  if (mix && !nearly_free) {
    // Neither way alone may be better than both.
    PlannerOptions alone = options;
    alone.work = static_cast<int64_t>(static_cast<double>(options.work) * kShareAlone);
    for (const bool swap : {false, true}) {
      alone.recompute = !swap;
      alone.link = swap ? options.link : SwapLink();
      Planner other(graph, alone);
      PlannerResult result = other.Improve(other.Start(limit_bytes), limit_bytes);
      work_alone += result.work;
      KeepBest(std::move(result), &starts);
    }
  }
  if (!starts[0].feasible && limit_bytes >= LowerBoundBytes(graph) && !options.single_start) {
    // What the search for the least peak finds must hold as a limit too.
    PlannerResult least = planner.Least();
    least.feasible = least.peak_bytes <= limit_bytes;
    KeepBest(std::move(least), &starts);
  }
  PlannerResult result = planner.Improve(std::move(starts), limit_bytes);
  result.work += work_alone;
  return result;
}

PlannerResult PlanForLeastPeak(const MemGraph& graph, const PlannerOptions& options) {
  if (!options.recompute && !options.link.usable()) {
    return Evaluate(graph, Plan(), std::numeric_limits<int64_t>::max(), options.link);
  }
  return Planner(graph, options).Least();
}

}  // namespace lms
