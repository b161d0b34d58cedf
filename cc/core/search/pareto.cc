#include "cc/core/search/pareto.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cc/core/simulate/liveness.h"

namespace lms {

std::vector<ParetoPoint> ParetoTable(const MemGraph& graph, const ParetoOptions& options) {
  const int64_t most = Simulate(graph, Plan()).peak_bytes;
  std::vector<PlannerResult> found(1);  // the first of them keeps everything
  found[0].peak_bytes = most;
  found.push_back(PlanForLeastPeak(graph, options.planner));
  const int64_t least = found[1].peak_bytes;
  std::vector<int64_t> budgets{most, least};
  for (int i = options.points - 2; i > 0; --i) {
    // Multiplied in floating point: bytes times points may not fit 63 bits.
    const double share = static_cast<double>(i) / (options.points - 1);
    budgets.push_back(least + static_cast<int64_t>(share * static_cast<double>(most - least)));
    // Where it is over its budget it still counts for others.
    found.push_back(PlanForLimit(graph, budgets.back(), options.planner));
  }
  std::sort(budgets.begin(), budgets.end());
  std::vector<ParetoPoint> table;
  for (const int64_t budget : budgets) {
    const PlannerResult* best = nullptr;
    for (const PlannerResult& plan : found) {
      if (plan.peak_bytes > budget) continue;
      if (best == nullptr || std::tie(plan.cost_us, plan.peak_bytes) < std::tie(best->cost_us, best->peak_bytes)) {
        best = &plan;
      }
    }
    if (best == nullptr || (!table.empty() && best->cost_us >= table.back().added_us)) continue;
    table.push_back({budget, best->peak_bytes, best->cost_us, best->plan});
  }
  std::reverse(table.begin(), table.end());
  return table;
}

}  // namespace lms
