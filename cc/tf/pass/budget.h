// The budget that the user asked for, as bytes of a device.
//
// All budgets are totals: what is resident (weights, arguments, constants) plus what the step allocates.
//   bytes     as given
//   percent   of the step's own predicted activation peak, plus what is resident
//   auto      what the device has left, plus what is resident and there already. On a GPU what is left is its
//             allocator's limit less what is in use; constants are not there yet, and the limit is never exceeded. On
//             the CPU it is what this process may still take (cgroup, RLIMIT_DATA, RLIMIT_AS, MemAvailable), or, where
//             that is less, what its pool has left (cpu_pool.h), as on a GPU
//   min       0: the planner looks for the least
//
// Where the allocator's limit (a GPU's, or that of the CPU's pool) leaves less than bytes or a percentage come to, it
// is what the limit leaves for a step that does not fit there, as with auto (measure_stage).

#ifndef LMS_CC_TF_PASS_BUDGET_H_
#define LMS_CC_TF_PASS_BUDGET_H_

#include <cstdint>
#include <string>

#include "cc/core/options/options.h"
#include "cc/core/system/system_memory.h"

namespace tensorflow::grappler {
class Cluster;
}  // namespace tensorflow::grappler

namespace lms {

struct ResolvedBudget {
  int64_t bytes = 0;
  std::string source;  // for kAuto: which limit decided; otherwise empty
  bool hard = false;   // the limit of the device's allocator: what is above it fails
};

// Is it what an automatic budget comes to where nothing is known of the device?
bool IsUnlimited(int64_t budget_bytes);

// What the planner aims at: the budget less the safety margin's share of what it leaves for activations.
int64_t PlanningLimit(int64_t budget_bytes, int64_t resident_bytes, double safety_margin);

// The inverse: the budget for which the planner would aim at `limit_bytes`.
int64_t BudgetForLimit(int64_t limit_bytes, int64_t resident_bytes, double safety_margin);

// What a step takes as it is, as predicted. Resident bytes are part of the peaks.
struct StepBytes {
  int64_t resident = 0;
  int64_t peak = 0;
  int64_t worst = 0;      // the peak, or more where iterations of loops may overlap
  int64_t lacking = 0;    // by how much room was short on the device, in pieces as they are (overlap.h)
  int64_t constants = 0;  // of what is resident: they come to the device when the step is first run
  int64_t outside = 0;    // of the peak, at most: what is too small for the device's arena, and not in its limit
};

// Is the step planned for a CPU's pool that is not here ("_pool")?
bool PoolToBe(const Options& options, const std::string& device);

// What that pool has for the step.
ResolvedBudget OfPoolToBe(const Options& options, const StepBytes& step);

// `cluster` may be null; a GPU's limit is then unknown and taken as unbounded.
ResolvedBudget ResolveBudget(const Budget& budget, const StepBytes& step, const std::string& device,
                             const tensorflow::grappler::Cluster* cluster);

// What a program that begins now may take on the CPU: what the machine has for this process, or, where that is less,
// the share of what its pool has left that can be counted on, as no tensor lies across two pieces of it.
MemoryAvailable CpuMemoryLeft();

// What the CPU's pool may hold; 0 where there is none, or one without a limit.
int64_t CpuPoolLimit();

// What predictions have to be for a step to keep its budget.
class BudgetGoal {
 public:
  BudgetGoal() = default;
  // `asked`: the device's budget, of which `budget_bytes` is what it comes to.
  BudgetGoal(const Options& options, const Budget& asked, int64_t budget_bytes, const StepBytes& step);

  // The lowest peak is asked for.
  bool least() const { return kind_ == Budget::Kind::kMin; }
  // The budget is what the device has: to come as near to it as can be is better than to leave the step as it is.
  bool automatic() const { return kind_ == Budget::Kind::kAuto; }
  // The same step, of which the lowest peak is asked for.
  BudgetGoal AsLeast() const;
  // A share of the step's own peak, or the least: asked of every function that runs, not only of training steps.
  bool relative() const { return least() || kind_ == Budget::Kind::kPercent; }
  int64_t budget_bytes() const { return budget_bytes_; }
  const StepBytes& step() const { return step_; }

  // What the planner aims at.
  int64_t Limit() const { return PlanningLimit(Allowed(), step_.resident, safety_margin_); }
  // What a prediction may be for the step to keep the budget: the budget, less what steps have been seen to take more.
  int64_t Allowed() const;
  // The limit for a plan that is made though the step may fit as it is.
  int64_t LimitForPlan() const;
  // Is the step, as it came, above it? With an automatic budget the margin counts too: what is left on a device is
  // never exact. An explicit budget that the prediction meets is met.
  bool Over() const;
  // What would have to be asked for to get down to `peak`. Plans with hints, and those for a variant of the step (a
  // loop that computes again), may be above what that takes without one.
  int64_t BudgetFor(int64_t peak) const;

 private:
  Budget::Kind kind_ = Budget::Kind::kAuto;
  int64_t budget_bytes_ = 0;
  StepBytes step_;
  double safety_margin_ = 0;
  double observed_excess_ = 1;
};

// Functions with less are left alone where the budget is relative to their own peak: nothing would be gained.
inline constexpr int64_t kLeastActivationBytes = 256 << 10;

// What a relative budget asks for: kLeastActivationBytes, unless it was set, for tests that have smaller steps.
int64_t LeastActivationBytes();
void SetLeastActivationBytes(int64_t bytes);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_BUDGET_H_
