#include "cc/tf/pass/shortfall.h"

#include "cc/core/options/swap_limits.h"
#include "cc/core/search/strategy.h"
#include "cc/core/simulate/lower_bound.h"
#include "cc/core/simulate/transfers.h"
#include "cc/tf/pass/hint_notes.h"
#include "cc/tf/pass/plan_stage.h"

namespace lms {
namespace {

// Would there be a plan if the tier took more? Then the setting that stands in its way is named.
std::string WhatLimitsSwapping(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                               StrategyOptions ways) {
  const ChosenSwap& swap = candidates.swap;
  if (!swap.link.usable() || swap.limits.empty() || goal.budget_bytes() <= goal.step().resident) return "";
  const MemGraph& graph = candidates.imported.graph;
  if (goal.Limit() < LowerBoundBytes(graph)) return "";  // it is not for the tier
  ways.planner.link.capacity_bytes = SwapLink().capacity_bytes;
  ways.order = false;
  const PlannerResult planned =
      context.account.Timed([&] { return ChooseForLimit(graph, goal.Limit(), ways).planned; });
  context.account.Count(planned.work);
  if (!planned.feasible) return "";
  const Transfers transfers = SimulateTransfers(graph, planned.plan, swap.link);
  return SwapLimitWarning(transfers.peak_stored_bytes, swap.limits);
}

}  // namespace

Shortfall ExplainShortfall(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                           const Restraint& restraint, int64_t least_peak) {
  Attempt first;
  first.restraint = restraint;
  Shortfall shortfall;
  shortfall.min_budget_bytes = goal.BudgetFor(least_peak);
  shortfall.swap_limit = WhatLimitsSwapping(context, goal, candidates, StrategyFor(context, goal, candidates, first));
  shortfall.hints = HintsInTheWay(context, goal, candidates, restraint);
  return shortfall;
}

}  // namespace lms
