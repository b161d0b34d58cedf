// Plans, rewrites and verifies until a plan holds: what follows where one fails, or is found above the budget.

#ifndef LMS_CC_TF_PASS_MEET_BUDGET_H_
#define LMS_CC_TF_PASS_MEET_BUDGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_context.h"
#include "cc/tf/pass/measure_stage.h"
#include "cc/tf/pass/plan_stage.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/pass/rewrite_stage.h"

namespace lms {

enum class Outcome {
  kRewritten,
  kFits,           // as it is, or as nothing that hints ask for can be done
  kNothingToGain,  // the least was asked for, and is what the step takes as it is
  kInfeasible,
  kFailed,
};

struct Result {
  Outcome outcome = Outcome::kFailed;
  // Rewritten.
  DevicePlan planned;
  RewrittenStep rewritten;   // failed: its status says why
  int64_t budget_bytes = 0;  // that the least was found to be; 0: something else was asked for
  bool like_first = false;   // it is the plan of the step's first device
  // Infeasible.
  int64_t least_peak = 0;  // that was found; 0: none was looked for
  Restraint restraint;     // what plans had to do without in the end
};

// Plans that fail take what they failed with out of the candidates; each that is given up adds to *warnings.
Result MeetBudget(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal, Candidates* candidates,
                  std::vector<std::string>* warnings);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_MEET_BUDGET_H_
