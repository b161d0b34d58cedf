// Plans, rewrites and verifies until a plan holds: what follows where one fails, or is found above the budget.

#ifndef LMS_CC_TF_PASS_MEET_BUDGET_H_
#define LMS_CC_TF_PASS_MEET_BUDGET_H_

#include <string>
#include <vector>

#include "cc/tf/pass/try_plans.h"

namespace lms {

// A plan may be found above the budget once it is verified: then the next is aimed lower (try_plans.h). Where none of
// them holds, what holds for less is looked for before the budget is given up (fall_back.h). An automatic budget is
// used as far as plans hold: once one does, higher limits are tried that are below those that did not. What could not
// be placed in the order is no candidate any more; each kind of change that is given up, as a plan with it failed, adds
// to *warnings.
BudgetResult MeetBudget(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                        Candidates* candidates, std::vector<std::string>* warnings);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_MEET_BUDGET_H_
