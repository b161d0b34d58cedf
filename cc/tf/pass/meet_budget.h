// Plans, rewrites and verifies until a plan holds: what follows where one fails, or is found above the budget.

#ifndef LMS_CC_TF_PASS_MEET_BUDGET_H_
#define LMS_CC_TF_PASS_MEET_BUDGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/search/restraint.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_context.h"
#include "cc/tf/pass/plan_stage.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/pass/rewrite_stage.h"

namespace lms {

enum class BudgetOutcome {
  kRewritten,
  kFits,           // as it is, or as nothing that hints ask for can be done
  kNothingToGain,  // no plan takes less than the step as it is
  kInfeasible,
  kFailed,
};

struct BudgetResult {
  BudgetOutcome outcome = BudgetOutcome::kFailed;
  // Rewritten.
  DevicePlan planned;
  RewrittenStep rewritten;   // failed: its status says why
  int64_t budget_bytes = 0;  // that the least was found to be; 0: something else was asked for
  std::string like;          // the device of the step whose plan it is; "": its own
  bool short_of = false;     // no plan holds an automatic budget: of those that were tried this one is nearest to it
  // Infeasible.
  int64_t least_peak = 0;  // that was found; 0: none was looked for
  // All.
  Restraint restraint;  // what plans had to do without in the end
};

// What could not be placed in the order is no candidate any more; each kind of change that is given up, as a plan with
// it failed, adds to *warnings.
//
// A plan may be found above the budget once it is verified. Where none of them holds, the least is looked for before
// the budget is given up: where that holds, the plan of least added time between it and those that did not is taken.
// An automatic budget is used as far as plans hold: once one does, higher limits are tried that are below those that
// did not. Where room is short in one piece alone, plans that leave other pieces are tried: above the least, and
// without swaps. Where it is not strict, and none of these holds, what comes nearest is taken.
BudgetResult MeetBudget(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                        Candidates* candidates, std::vector<std::string>* warnings);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_MEET_BUDGET_H_
