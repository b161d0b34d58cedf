// What other budgets would cost a step that has been planned: the ways of strategy.h, tried for one budget after the
// other.
//
// Predicted by the planner's own simulator: nothing is rewritten, nothing verified, and ops run one after the other.

#ifndef LMS_CC_TF_PASS_STEP_PARETO_H_
#define LMS_CC_TF_PASS_STEP_PARETO_H_

#include <cstdint>
#include <vector>

#include "cc/core/report/report.h"

namespace lms {

struct BudgetPoint {
  int64_t budget_bytes = 0;  // to ask for, safety margin included
  int64_t peak_bytes = 0;    // of the plan, resident included; where it is not feasible: the lowest that was found
  double overhead = 0;       // added time as a share of the step's
  bool feasible = false;
};

struct BudgetTable {
  std::vector<BudgetPoint> points;  // by falling budgets
  int64_t peak_bytes = 0;           // as it is
  int64_t resident_bytes = 0;
};

// `budgets`: in bytes; where empty, `points` of them (2 at least) from the peak down to the least feasible one. A plan
// counts for all budgets that it keeps. Plans for all of them together do as much work as takes about `seconds`
// (work_meter.h).
BudgetTable PlanForBudgets(const PlannedStep& step, std::vector<int64_t> budgets, int points, double seconds);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_STEP_PARETO_H_
