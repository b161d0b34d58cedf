// The budget that the user asked for, as bytes of a device.
//
// All budgets are totals: what is resident (weights, arguments, constants) plus what the step allocates.
//   bytes     as given
//   percent   of the step's own predicted activation peak, plus what is resident
//   auto      what is resident plus what the device has left: on a GPU its allocator's limit less what is in use, on
//   the
//             CPU what this process may still take (cgroup, RLIMIT_DATA, RLIMIT_AS, MemAvailable)
//   min       0: the planner looks for the least

#ifndef LMS_CC_TF_PASS_BUDGET_H_
#define LMS_CC_TF_PASS_BUDGET_H_

#include <cstdint>
#include <string>

#include "cc/core/options/options.h"
#include "tensorflow/core/grappler/clusters/cluster.h"

namespace lms {

struct ResolvedBudget {
  int64_t bytes = 0;
  std::string source;  // for kAuto: which limit decided; otherwise empty
};

// `cluster` may be null; a GPU's limit is then unknown and taken as unbounded.
ResolvedBudget ResolveBudget(const Budget& budget, int64_t resident_bytes, int64_t peak_bytes,
                             const std::string& device, const tensorflow::grappler::Cluster* cluster);

// What the planner aims at: the budget less the safety margin's share of what it leaves for activations.
int64_t PlanningLimit(int64_t budget_bytes, int64_t resident_bytes, double safety_margin);

// The inverse: the budget for which the planner would aim at `limit_bytes`.
int64_t BudgetForLimit(int64_t limit_bytes, int64_t resident_bytes, double safety_margin);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_BUDGET_H_
