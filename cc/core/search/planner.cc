#include "cc/core/search/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "cc/core/graph/repeats.h"
#include "cc/core/search/checkpoint_chain.h"
#include "cc/core/search/gap_eviction.h"
#include "cc/core/search/hinted_plan.h"
#include "cc/core/search/local_search.h"
#include "cc/core/search/plan_state.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/lower_bound.h"
#include "cc/core/simulate/transfers.h"

namespace lms {
namespace {

// Ordered so that the first few already cover the ground: planning may stop after any of them.
constexpr EvictionRule kStarts[] = {{1.0, 0.25}, {0.7, 0.0},       {1.4, 1.0},       {1.0, 0.0},
                                    {0.7, 0.25}, {1.4, 0.25},      {1.0, 1.0},       {0.7, 1.0},
                                    {1.4, 0.0},  {1.0, 0.0, 0.95}, {1.0, 0.25, 0.85}};
// Where all of these fail.
constexpr EvictionRule kLastResorts[] = {{1.0, 0.0, 1, true}, {1.0, 1.0, 1, true}};
constexpr int kFewStarts = 3;
// Of a microsecond of the link, in microseconds of computing, one start after the other.
constexpr double kLinkPrices[] = {0.1, 0, 0.5};
// A chain of checkpoints for this many times the limit, with gap eviction for the rest.
constexpr double kChainSlack[] = {1.15, 1.4, 1.8, 2.5};
constexpr size_t kRepeats = 4;         // as many alike buffers are a reason for a start that treats them alike
constexpr size_t kKeptStarts = 3;      // that local search starts from
constexpr double kNearlyFree = 0.002;  // of the step: with plans that add no more, others need not be tried
constexpr double kShareAlone = 0.15;   // of the work, for recomputation alone and for swapping alone
constexpr double kHopeless = 2;        // a chain so many times dearer than the best plan is not refined
constexpr size_t kHuge = 30000;        // ops: no local search, and stages as a last resort
constexpr int kMostStages = 128;
constexpr double kChainShare = 0.5;  // of the work, for the chain's dynamic program
constexpr uint64_t kSeed = 1;
// Steps of work, for each op and buffer.
constexpr int64_t kSimulationWork = 4;
constexpr int64_t kRepeatsWork = 8;
constexpr int64_t kFirstStartWork = 200;

PlannerResult Evaluate(const MemGraph& graph, Plan plan, int64_t limit_bytes, const SwapLink& link) {
  PlannerResult result;
  result.peak_bytes = Simulate(graph, plan).peak_bytes;
  result.feasible = result.peak_bytes <= limit_bytes;
  result.cost_us = plan.CostUs(graph);
  if (!plan.swap_outs.empty()) {
    const Transfers transfers = SimulateTransfers(graph, plan, link);
    result.stall_us = transfers.stall_us;
    result.transfer_us = transfers.transfer_us;
    result.cost_us += transfers.stall_us + transfers.compute_us;
  }
  result.plan = std::move(plan);
  return result;
}

bool Better(const PlannerResult& a, const PlannerResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  if (!a.feasible) return a.peak_bytes < b.peak_bytes;
  const auto size = [](const Plan& plan) { return plan.steps.size() + plan.swap_outs.size() + plan.swap_ins.size(); };
  return std::make_tuple(a.cost_us, size(a.plan)) < std::make_tuple(b.cost_us, size(b.plan));
}

// As many stages as can be solved for a part of the work: that takes a sixth of their cube, for each of 256 amounts of
// memory, 16 of these in a step (checkpoint_chain.cc).
int StagesFor(int64_t work) {
  const double cells = kChainShare * static_cast<double>(work) * 16;
  return std::clamp(static_cast<int>(std::cbrt(cells * 6 / 257)), 8, kMostStages);
}

class Planner {
 public:
  Planner(const MemGraph& graph, const PlannerOptions& options)
      : graph_(graph),
        options_(options),
        resident_(graph.ResidentBytes()),
        until_(options.work),
        sweep_(static_cast<int64_t>(graph.ops.size() + graph.buffers.size())) {
    if (!HasEvictionHints(graph)) return;
    hinted_ = Fresh().ToPlan();
    hinted_us_ = Evaluate(hinted_, std::numeric_limits<int64_t>::max()).cost_us;
  }

  // Some or all starts for the limit, without local search: the best plans, different ones, best first; at least one.
  std::vector<PlannerResult> Start(int64_t limit_bytes, bool all) {
    std::vector<PlannerResult> best{Evaluate(hinted_, limit_bytes)};
    const int64_t limit = limit_bytes - resident_;
    if (best[0].feasible || limit <= 0) return best;
    PlanState state = Fresh();
    int starts = 0;
    // The first start goes on where others would not.
    const auto late = [&] { return starts > 0 ? Late(state.work()) : work_ + state.work() >= FirstStartUntil(); };
    GapEviction eviction(&state, limit, late, options_.swap_rules);
    eviction.ForgetHistory();
    bool fresh = true;
    // A start begins with "keep everything", but for hints.
    const auto begin = [&] {
      if (!fresh) {
        work_ += state.work();
        state = Fresh();
      }
      fresh = false;
    };
    const auto finish = [&](bool under) {
      if (under) {
        eviction.TakeBack();
        eviction.SwapInstead();
      }
      Keep(Evaluate(state.ToPlan(), limit_bytes), &best);
      ++starts;
    };
    const auto start_by = [&](const EvictionRule& rule) {
      begin();
      finish(eviction.Run(Allowed(rule, starts)));
    };
    // Where there is a plan, half of the work at most goes into further starts.
    const auto enough = [&] {
      return Late(state.work()) || (best[0].feasible && work_ + state.work() > options_.work / 2);
    };
    const auto rules = [&](int first, int last) {
      for (int i = first; i < last && (starts == 0 || !enough()); ++i) start_by(kStarts[i]);
    };
    rules(0, 1);
    if (options_.single_start) {
      work_ += state.work();
      return best;
    }
    // Stages of hundreds of ops make closures that are slow to refine: on huge graphs only where nothing else works.
    const bool huge = graph_.ops.size() > kHuge;
    if (!Late(state.work()) && !(huge && best[0].feasible) && PrepareChain()) {
      // Whole stages, again and again, where others have found something far cheaper, are not worth refining.
      const auto hopeless = [&] { return best[0].feasible && state.cost_us() > kHopeless * best[0].cost_us; };
      begin();
      const int level = ChainLevel(limit, &state);
      if (level >= 0) {
        chain_->Apply(level, &state);
        if (!hopeless()) finish(true);
      }
      const int exact = std::max(level, chain_->LeastLevel());
      for (const double slack : kChainSlack) {
        const int looser = static_cast<int>(slack * exact);
        if (looser >= chain_->levels() || enough()) break;
        begin();
        chain_->Apply(looser, &state);
        if (!hopeless()) finish(eviction.Run(Allowed(kStarts[0], starts)));
      }
    }
    rules(1, kFewStarts);
    if (all && !enough()) {
      const std::vector<std::vector<BufferId>> groups = FindRepeats(graph_);
      work_ += kRepeatsWork * sweep_;
      const bool repeats =
          std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g.size() >= kRepeats; });
      if (repeats) {
        begin();
        finish(eviction.RunAlike(Allowed(kStarts[1], starts), groups));
      }
      rules(kFewStarts, static_cast<int>(sizeof(kStarts) / sizeof(kStarts[0])));
      for (const EvictionRule& rule : kLastResorts) {
        if (!best[0].feasible && !Late(state.work())) start_by(rule);
      }
    }
    work_ += state.work();
    return best;
  }

  // Local search from each of the plans, for a part of the work, then from the best of the results.
  PlannerResult Improve(std::vector<PlannerResult> starts, int64_t limit_bytes) {
    PlannerResult best = starts[0];
    best.work = work_;
    // What hints ask for cannot be improved.
    if (!hinted_.empty() && best.feasible && best.cost_us <= hinted_us_) return best;
    if (best.plan.empty() || options_.single_start) return best;
    const int64_t work = std::max(options_.work / 4, options_.work - work_);
    until_ = work_ + work;
    double bound_us = 0;
    if (!options_.link.usable()) {  // the bound is of recomputation
      WorkMeter meter(work / 2);
      best.bound_us = bound_us = LowerBoundUs(graph_, limit_bytes, &meter);
      work_ += meter.done();
    }
    const int64_t share = work / 2 / static_cast<int64_t>(starts.size());
    const bool huge = graph_.ops.size() > kHuge;
    for (const PlannerResult& start : starts) {
      if (huge || Late() || start.feasible != starts[0].feasible) break;
      PlannerResult result = Search(start.plan, limit_bytes, share, bound_us);
      if (Better(result, best)) best = std::move(result);
    }
    if (!huge && !Late()) {
      PlannerResult result = Search(best.plan, limit_bytes, work - work / 2, bound_us);
      if (Better(result, best)) best = std::move(result);
    }
    best.bound_us = bound_us;
    best.work = work_;
    return best;
  }

  // The lowest peak that a search over limits finds, for less time if another way leads there.
  PlannerResult Least() {
    PlannerResult least = Lowest();
    const int64_t limit_bytes = least.peak_bytes;
    std::vector<PlannerResult> starts = Start(limit_bytes, true);
    Keep(std::move(least), &starts);
    return Improve(std::move(starts), limit_bytes);
  }

  // Puts the result among the best few, unless an equal one is there.
  static void Keep(PlannerResult result, std::vector<PlannerResult>* best) {
    for (const PlannerResult& other : *best) {
      if (other.cost_us == result.cost_us && other.peak_bytes == result.peak_bytes) return;
    }
    const auto at = std::find_if(best->begin(), best->end(),
                                 [&result](const PlannerResult& other) { return Better(result, other); });
    best->insert(at, std::move(result));
    if (best->size() > kKeptStarts) best->pop_back();
  }

 private:
  // Nothing decided but what hints ask for.
  PlanState Fresh() const {
    PlanState state(graph_, options_.move, options_.link);
    ApplyHints(&state);
    return state;
  }

  // Bisection between what a single op needs and the lowest peak so far, each plan grown from the one before.
  PlannerResult Lowest() {
    constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
    constexpr int kChainTries = 8;
    constexpr int kSteps = 10;
    PlannerResult best = Evaluate(hinted_, kNoLimit);
    until_ = work_ + options_.work / 2;
    if (PrepareChain()) {
      PlanState state = Fresh();
      // Solutions for little more than the least may turn out smaller than that for the least.
      double level = chain_->LeastLevel();
      for (int i = 0; i < kChainTries && level < chain_->levels() && (i == 0 || !Late(state.work())); ++i) {
        chain_->Apply(static_cast<int>(level), &state);
        if (state.bytes().Max() + resident_ < best.peak_bytes) best = Evaluate(state.ToPlan(), kNoLimit);
        state.UndoAll();
        level = std::max(level + 1, level * 1.15);
      }
      work_ += state.work();
    }
    int64_t low = LowerBoundBytes(graph_);
    // A part of the work goes into plans that greedy ways do not find.
    const int64_t share = options_.work / 2 / kSteps;
    for (int i = 0; i < kSteps && low < best.peak_bytes && !Late(); ++i) {
      const int64_t limit_bytes = low + (best.peak_bytes - low) / 2;
      PlanState state = Fresh();
      GapEviction eviction(&state, limit_bytes - resident_, [&] { return Late(state.work()); }, options_.swap_rules);
      PlannerResult result;
      result.peak_bytes = kNoLimit;
      for (const Plan& from : {best.plan, hinted_}) {
        state.Load(from);
        EvictionRule rule = Allowed(kStarts[i % kFewStarts], i);
        rule.crowd = true;
        if (eviction.Run(rule)) eviction.TakeBack();
        if (state.bytes().Max() + resident_ < result.peak_bytes) result = Evaluate(state.ToPlan(), limit_bytes);
        if (result.feasible || Late(state.work())) break;
      }
      work_ += state.work();
      if (!result.feasible && graph_.ops.size() <= kHuge && !Late()) {
        PlannerResult found = Search(result.plan, limit_bytes, share, 0);
        if (found.peak_bytes < result.peak_bytes) result = std::move(found);
      }
      if (!result.feasible) low = limit_bytes + 1;
      if (result.peak_bytes < best.peak_bytes) best = std::move(result);
    }
    best.feasible = true;
    until_ = std::max(work_, options_.work);
    return best;
  }

  // Is the work used up? `more`: what has been done beside what is counted.
  bool Late(int64_t more = 0) const { return work_ + more >= until_; }

  // The first start may take more than its share: without it there is no plan.
  int64_t FirstStartUntil() const { return std::max(until_, work_ + kFirstStartWork * sweep_); }

  PlannerResult Search(const Plan& from, int64_t limit_bytes, int64_t work, double enough_us) {
    PlanState state = Fresh();
    state.Load(from);
    LocalSearchLimits limits;
    limits.work = work;
    limits.enough_us = enough_us;
    limits.interrupt = [&state, until = state.work() + work] { return state.work() >= until; };
    limits.recompute = options_.recompute;
    limits.swap_rules = options_.swap_rules;
    work_ += ImproveLocally(&state, limit_bytes - resident_, kSeed, limits);
    return Evaluate(state.ToPlan(), limit_bytes);
  }

  PlannerResult Evaluate(Plan plan, int64_t limit_bytes) {
    work_ += kSimulationWork * sweep_;
    return lms::Evaluate(graph_, std::move(plan), limit_bytes, options_.link);
  }

  // The rule as the options have it: without recomputation, with a price for the link.
  EvictionRule Allowed(EvictionRule rule, int start) const {
    rule.recompute = options_.recompute;
    if (options_.link.usable()) rule.link_price = kLinkPrices[start % (sizeof(kLinkPrices) / sizeof(kLinkPrices[0]))];
    return rule;
  }

  bool PrepareChain() {
    // The chain decides for itself what is saved, hints or no hints.
    if (!options_.recompute || !hinted_.empty()) return false;
    if (chain_ == nullptr) {
      chain_ = std::make_unique<CheckpointChain>(graph_, StagesFor(options_.work));
      if (chain_->usable()) chain_->Solve(Simulate(graph_, Plan()).peak_bytes - resident_);
      work_ += kSimulationWork * sweep_ + chain_->work();
    }
    return chain_->usable() && chain_->LeastLevel() < chain_->levels();
  }

  // The highest level of the chain whose decisions are under the limit; -1 if there is none. The state is left as it
  // was.
  int ChainLevel(int64_t limit, PlanState* state) const {
    int good = -1;
    int low = chain_->LeastLevel();
    int high = chain_->levels() - 1;
    while (low <= high) {
      const int middle = low + (high - low) / 2;
      chain_->Apply(middle, state);
      const bool under = state->bytes().Max() <= limit;
      state->UndoAll();
      if (under) {
        good = middle;
        low = middle + 1;
      } else {
        high = middle - 1;
      }
    }
    return good;
  }

  const MemGraph& graph_;
  const PlannerOptions& options_;
  int64_t resident_;
  int64_t until_;  // work at which what is going on ends
  int64_t sweep_;
  int64_t work_ = 0;
  std::unique_ptr<CheckpointChain> chain_;
  Plan hinted_;           // what hints ask for; without any, nothing
  double hinted_us_ = 0;  // that it costs
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
  std::vector<PlannerResult> starts = planner.Start(limit_bytes, true);
  const bool nearly_free = starts[0].feasible && starts[0].cost_us < kNearlyFree * graph.TotalCostUs();
  if (mix && !nearly_free) {
    // Neither way alone may be better than both.
    PlannerOptions alone = options;
    alone.work = static_cast<int64_t>(static_cast<double>(options.work) * kShareAlone);
    for (const bool swap : {false, true}) {
      alone.recompute = !swap;
      alone.link = swap ? options.link : SwapLink();
      Planner other(graph, alone);
      PlannerResult result = other.Improve(other.Start(limit_bytes, true), limit_bytes);
      work_alone += result.work;
      Planner::Keep(std::move(result), &starts);
    }
  }
  if (!starts[0].feasible && limit_bytes >= LowerBoundBytes(graph) && !options.single_start) {
    // What the search for the least peak finds must hold as a limit too.
    PlannerResult least = planner.Least();
    least.feasible = least.peak_bytes <= limit_bytes;
    Planner::Keep(std::move(least), &starts);
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
