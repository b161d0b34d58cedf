// Of a budget that cannot be met: what could be, and what stands in the way.

#ifndef LMS_CC_TF_PASS_SHORTFALL_H_
#define LMS_CC_TF_PASS_SHORTFALL_H_

#include <cstdint>
#include <string>

#include "cc/core/search/restraint.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_context.h"

namespace lms {

struct Shortfall {
  int64_t min_budget_bytes = 0;  // the least that was found to be feasible
  std::string swap_limit;        // a warning: the setting that keeps too little from being swapped; "": none does
  std::string hints;             // words on hints in the way, to follow others; "": none are
};

// `least_peak`: that was found (BudgetResult).
Shortfall ExplainShortfall(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                           const Restraint& restraint, int64_t least_peak);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_SHORTFALL_H_
