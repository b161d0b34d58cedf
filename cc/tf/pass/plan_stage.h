// A plan for the step.

#ifndef LMS_CC_TF_PASS_PLAN_STAGE_H_
#define LMS_CC_TF_PASS_PLAN_STAGE_H_

#include <cstdint>
#include <optional>

#include "cc/core/search/planner.h"
#include "cc/core/search/restraint.h"
#include "cc/core/search/strategy.h"
#include "cc/tf/import/import.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_context.h"

namespace lms {

// One of several attempts at a plan that holds.
struct Attempt {
  int number = 0;  // of attempts before it, without those that failed
  int64_t limit = 0;
  Restraint restraint;
};

struct DevicePlan {
  PlannerResult result;
  std::optional<ImportedGraph> ordered;  // the graph, in the order that is to be enforced
  int64_t order_limit = 0;  // of bytes up to which the order need not be enforced; 0: it is the executor's own

  // The graph that the plan is for.
  const ImportedGraph& GraphOf(const Candidates& candidates) const { return ordered ? *ordered : candidates.imported; }
};

// With a part of the work that is left: who plans again has less, and there is always some.
PlannerOptions PlannerFor(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                          const Restraint& restraint);

// An order that did not hold in the verifier's eyes is given another chance beside recomputation, and then given up.
StrategyOptions StrategyFor(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                            const Attempt& attempt);

// Stage "plan".
Strategy PlanStep(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                  const Attempt& attempt);

// The model's plan for another device that holds the same part of it. Nothing where this device's part is another, or
// the plan does not do for it. Stage "plan".
std::optional<DevicePlan> PlanLike(const Model& model, const DeviceContext& context, const BudgetGoal& goal,
                                   const Candidates& candidates);

// Keeps an accepted plan as a model for the devices that are planned next. `peak_bytes`: as predicted.
void KeepForOthers(const DeviceContext& context, const BudgetGoal& goal, const ImportedGraph& graph,
                   const DevicePlan& planned, int64_t peak_bytes);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_PLAN_STAGE_H_
