// What memory costs in time: the plans worth having between "keep everything" and the least feasible peak.

#ifndef LMS_CC_CORE_SEARCH_PARETO_H_
#define LMS_CC_CORE_SEARCH_PARETO_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"
#include "cc/core/search/planner.h"

namespace lms {

struct ParetoOptions {
  int points = 10;         // budgets that are planned for, at least 2: both ends, and evenly between them
  PlannerOptions planner;  // the time limit holds for each budget
};

struct ParetoPoint {
  int64_t budget_bytes = 0;  // asked for, resident included
  int64_t peak_bytes = 0;    // of the plan, at most the budget
  double added_us = 0;
  Plan plan;
};

// By falling budgets: the first point adds no time (it keeps everything, or moves ops only), the last has the least
// peak that was found. No point is dominated: each next one has a lower budget, a lower peak and a higher cost. A plan
// serves every budget that it fits, so where a lower budget's plan is as cheap as a higher one's, only the lower one is
// there.
// The graph has at least one op.
std::vector<ParetoPoint> ParetoTable(const MemGraph& graph, const ParetoOptions& options);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_PARETO_H_
