// Second stage: what the step takes as it came, and what it may take.

#ifndef LMS_CC_TF_PASS_MEASURE_STAGE_H_
#define LMS_CC_TF_PASS_MEASURE_STAGE_H_

#include <string>
#include <vector>

#include "cc/core/report/report.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/run_record.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/device_context.h"
#include "cc/tf/pass/read_stage.h"

namespace lms {

struct MeasuredStep {
  MemoryProfile profile;  // as predicted
  RunRecord record;       // of the run with that profile
  BudgetGoal goal;
  std::string budget_source;  // of an automatic budget: which limit decided
  std::string assumption;     // what it all holds for; "": always
  std::string assumed;        // a warning: what else rests on sizes that nobody knows; "": nothing
  std::vector<OpenSize> open_sizes;
  std::vector<std::string> warnings;

  int64_t Activations() const { return goal.step().peak - goal.step().resident; }
};

// Stages "liveness" and "budget". The ops of `read` have their costs.
MeasuredStep MeasureStep(const DeviceContext& context, const ReadStep& read);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_MEASURE_STAGE_H_
