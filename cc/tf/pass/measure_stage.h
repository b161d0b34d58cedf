// What the step takes as it came, and what it may take.

#ifndef LMS_CC_TF_PASS_MEASURE_STAGE_H_
#define LMS_CC_TF_PASS_MEASURE_STAGE_H_

#include <cstdint>
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
  MemoryProfile profile;       // as predicted
  RunRecord record;            // of the run with that profile
  int64_t constant_bytes = 0;  // of those of the step that are present throughout, computed ones included
  std::string assumption;      // what it all holds for; "": always
  std::string assumed;         // a warning: what else rests on sizes that nobody knows; "": nothing
  std::vector<OpenSize> open_sizes;
  std::vector<OpenLoop> open_loops;
  std::vector<std::string> warnings;

  int64_t Activations() const { return profile.peak_bytes - profile.resident_bytes; }
};

// Stage "liveness". The ops of `read` have their costs.
MeasuredStep MeasureStep(const DeviceContext& context, const ReadStep& read);

// Is what the limit of the CPU's pool leaves less than the bytes or the percentage that the user asked for? Then what
// counts is how the pool is cut up, and the step is measured once more with that (ReadArenas).
bool PoolLimitIsNearer(const DeviceContext& context, const ReadStep& read, const MeasuredStep& measured);

struct AskedFor {
  BudgetGoal goal;
  std::string asked;    // as the user wrote it: "60%"
  std::string source;   // of an automatic budget: which limit decided; else ""
  std::string warning;  // "": none
};

// Stage "budget".
AskedFor ResolveGoal(const DeviceContext& context, const ReadStep& read, const MeasuredStep& measured);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_MEASURE_STAGE_H_
