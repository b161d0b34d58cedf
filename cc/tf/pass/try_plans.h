// Plans for one goal, each rewritten and verified, until one holds.

#ifndef LMS_CC_TF_PASS_TRY_PLANS_H_
#define LMS_CC_TF_PASS_TRY_PLANS_H_

#include <cstdint>
#include <optional>
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

// A plan of another device that does not hold here.
struct Unlike {
  std::string device;      // "": there is none
  int64_t peak_bytes = 0;  // that it takes here; 0: no more than is allowed, but there is no room in one piece
};

struct BudgetResult {
  BudgetOutcome outcome = BudgetOutcome::kFailed;
  // Rewritten.
  DevicePlan planned;
  RewrittenStep rewritten;   // failed: its status says why
  int64_t budget_bytes = 0;  // that the least was found to be; 0: something else was asked for
  std::string like;          // the device of the step whose plan it is; "": its own
  Unlike unlike;             // its own, as that of another device does not hold here
  bool short_of = false;     // no plan holds an automatic budget: of those that were tried this one is nearest to it
  // Infeasible.
  int64_t least_peak = 0;  // of a plan that was verified: whoever asks for that much gets it
  // All.
  Restraint restraint;  // what plans had to do without in the end
};

BudgetResult End(BudgetOutcome outcome, const Attempt& attempt, int64_t least_peak = 0);
BudgetResult Accepted(DevicePlan planned, RewrittenStep rewritten, const Restraint& restraint, int64_t budget_bytes);

// A budget that was named holds whatever else the device has: who lacks room there is only told so.
bool Met(const BudgetGoal& goal, const MemoryProfile& profile);

// Plans that were tried for a budget, and do not hold.
struct Tried {
  // The one that falls short by least; of those that do by as much, the one that adds least time.
  std::optional<BudgetResult> nearest;
  int64_t lowest_limit = 0;  // that a plan was found for; 0: none was

  // A plan that was made for a limit.
  void Add(const BudgetGoal& goal, int64_t limit, BudgetResult result);
  // Any plan.
  void Keep(const BudgetGoal& goal, BudgetResult result);
};

// One device of a step, and what is planned for. All of it outlives this.
struct Planning {
  const DeviceContext& context;
  const ReadStep& read;
  const BudgetGoal& goal;
  int most_attempts;
  Candidates* candidates;
  std::vector<std::string>* warnings;

  Planning For(const BudgetGoal& other) const { return {context, read, other, most_attempts, candidates, warnings}; }
  // The same, with warnings that go elsewhere.
  Planning Into(std::vector<std::string>* others) const {
    return {context, read, goal, most_attempts, candidates, others};
  }
};

// From this attempt on. What could not be placed in the order is no candidate any more; each kind of change that is
// given up, as a plan with it failed, adds to the warnings. `tried`: gets the plans that do not hold; may be null.
BudgetResult TryPlans(const Planning& planning, Attempt attempt, Tried* tried);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_TRY_PLANS_H_
