#include "cc/tf/pass/step_pareto.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "cc/core/search/planner.h"
#include "cc/core/search/strategy.h"
#include "cc/core/simulate/liveness.h"
#include "cc/tf/pass/budget.h"

namespace lms {
namespace {

struct Found {
  int64_t peak_bytes;
  double cost_us;
};

StrategyOptions Ways(const PlannedStep& step, double seconds) {
  StrategyOptions ways;
  ways.planner = PlannerOptionsFor(seconds);
  ways.planner.recompute = step.recompute;
  ways.planner.move = step.reorder;
  ways.planner.link = step.link;
  ways.planner.swap_rules = step.rules;
  ways.order = step.reorder;
  return ways;
}

}  // namespace

BudgetTable PlanForBudgets(const PlannedStep& step, std::vector<int64_t> budgets, int points, double seconds) {
  BudgetTable table;
  table.peak_bytes = Simulate(step.graph, Plan()).peak_bytes;
  table.resident_bytes = step.graph.ResidentBytes();
  const double step_us = step.graph.TotalCostUs();
  std::vector<Found> found{{table.peak_bytes, 0}};
  const size_t plans = (budgets.empty() ? static_cast<size_t>(std::max(points, 2)) : budgets.size()) + 1;
  const StrategyOptions ways = Ways(step, seconds / static_cast<double>(plans));
  const PlannerResult least = ChooseForLeastPeak(step.graph, ways).planned;
  found.push_back({least.peak_bytes, least.cost_us});
  const int64_t lowest =
      std::min(found.back().peak_bytes == table.peak_bytes
                   ? table.peak_bytes
                   : BudgetForLimit(found.back().peak_bytes, table.resident_bytes, step.safety_margin),
               table.peak_bytes);
  if (budgets.empty()) {
    for (int i = 0; i < std::max(points, 2); ++i) {
      const double share = static_cast<double>(i) / (std::max(points, 2) - 1);
      budgets.push_back(table.peak_bytes -
                        static_cast<int64_t>(share * static_cast<double>(table.peak_bytes - lowest)));
    }
  }
  std::sort(budgets.begin(), budgets.end(), std::greater<>());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  // A step that fits needs no margin.
  const auto limit_of = [&](int64_t budget) {
    return budget >= table.peak_bytes ? budget : PlanningLimit(budget, table.resident_bytes, step.safety_margin);
  };
  for (const int64_t budget : budgets) {
    if (budget >= table.peak_bytes) continue;
    const PlannerResult planned = ChooseForLimit(step.graph, limit_of(budget), ways).planned;
    found.push_back({planned.peak_bytes, planned.cost_us});
  }
  for (const int64_t budget : budgets) {
    const Found* best = nullptr;
    const Found* lowest_found = &found.front();
    for (const Found& plan : found) {
      if (std::tie(plan.peak_bytes, plan.cost_us) < std::tie(lowest_found->peak_bytes, lowest_found->cost_us)) {
        lowest_found = &plan;
      }
      if (plan.peak_bytes > limit_of(budget)) continue;
      if (best == nullptr || std::tie(plan.cost_us, plan.peak_bytes) < std::tie(best->cost_us, best->peak_bytes)) {
        best = &plan;
      }
    }
    const Found& shown = best == nullptr ? *lowest_found : *best;
    table.points.push_back({budget, shown.peak_bytes, step_us > 0 ? shown.cost_us / step_us : 0, best != nullptr});
  }
  return table;
}

}  // namespace lms
