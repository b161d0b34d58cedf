#include "cc/tf/pass/budget.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <string>

#include "cc/core/system/system_memory.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/predict/cpu_pool.h"
#include "cc/tf/predict/device_arena.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/grappler/clusters/cluster.h"

namespace lms {
namespace {

constexpr int64_t kUnbounded = MemoryAvailable::kUnbounded;

std::atomic<int64_t> least_activation_bytes{kLeastActivationBytes};

// What an arena has for a step: its limit less what others hold.
int64_t OfArena(const StepBytes& step, int64_t limit, int64_t in_use) {
  const int64_t there = std::max<int64_t>(0, step.resident - step.constants);
  return std::clamp<int64_t>(limit - in_use + there, 0, limit) + step.outside;
}

ResolvedBudget OfGpu(const StepBytes& step, tensorflow::Allocator* allocator) {
  const auto stats = allocator == nullptr ? std::nullopt : allocator->GetStats();
  if (!stats || !stats->bytes_limit) return {kUnbounded, "no limit known"};
  return {OfArena(step, *stats->bytes_limit, stats->bytes_in_use), "the GPU's memory limit", true};
}

std::string PoolLimit(const CpuPool& pool) { return "the limit of the CPU's pool, " + pool.setting; }

ResolvedBudget OfCpu(const StepBytes& step, tensorflow::Allocator* allocator) {
  const std::optional<CpuPool> pool = CpuPoolOf(allocator);
  const MemoryAvailable available = AvailableMemory(pool ? pool->idle_bytes : 0);
  const bool overflows = available.bytes > kUnbounded - step.resident;
  ResolvedBudget left{overflows ? kUnbounded : available.bytes + step.resident, available.bound};
  if (!pool || !pool->limited) return left;
  const int64_t of_pool = OfArena(step, pool->limit_bytes, pool->in_use_bytes);
  return of_pool < left.bytes ? ResolvedBudget{of_pool, PoolLimit(*pool), true} : left;
}

}  // namespace

bool PoolToBe(const Options& options, const std::string& device) {
  return options.pool_bytes > 0 && DeviceType(device) == "CPU" && BudgetOf(options, device).kind == Budget::Kind::kAuto;
}

ResolvedBudget OfPoolToBe(const Options& options, const StepBytes& step) {
  return {options.pool_bytes + step.outside, "the limit of the CPU's pool", true};
}

MemoryAvailable CpuMemoryLeft() {
  constexpr double kShare = 0.85;  // a step that takes 309 MiB ran out in 360 MiB, and trained in 400
  const std::optional<CpuPool> pool = CpuPoolOf(tensorflow::cpu_allocator());
  MemoryAvailable available = AvailableMemory(pool ? pool->idle_bytes : 0);
  if (!pool || !pool->limited) return available;
  const auto of_pool = static_cast<int64_t>(static_cast<double>(pool->limit_bytes - pool->in_use_bytes) * kShare);
  return of_pool < available.bytes ? MemoryAvailable{std::max<int64_t>(0, of_pool), PoolLimit(*pool)} : available;
}

int64_t CpuPoolLimit() {
  const std::optional<CpuPool> pool = CpuPoolOf(tensorflow::cpu_allocator());
  return pool && pool->limited ? pool->limit_bytes : 0;
}

bool IsUnlimited(int64_t budget_bytes) { return budget_bytes == kUnbounded; }

ResolvedBudget ResolveBudget(const Budget& budget, const StepBytes& step, const std::string& device,
                             const tensorflow::grappler::Cluster* cluster) {
  switch (budget.kind) {
    case Budget::Kind::kBytes:
      return {budget.bytes, ""};
    case Budget::Kind::kPercent: {
      const double activations = static_cast<double>(step.peak - step.resident);
      return {step.resident + static_cast<int64_t>(std::floor(activations * budget.percent / 100)), ""};
    }
    case Budget::Kind::kMin:
      return {0, ""};
    case Budget::Kind::kAuto:
      break;
  }
  tensorflow::Allocator* const allocator = AllocatorOf(device, cluster);
  return IsGpu(device) ? OfGpu(step, allocator) : OfCpu(step, allocator);
}

int64_t PlanningLimit(int64_t budget_bytes, int64_t resident_bytes, double safety_margin) {
  const int64_t activations = budget_bytes - resident_bytes;
  if (activations <= 0) return budget_bytes;
  return resident_bytes + static_cast<int64_t>(static_cast<double>(activations) * (1 - safety_margin));
}

int64_t BudgetForLimit(int64_t limit_bytes, int64_t resident_bytes, double safety_margin) {
  const double activations = static_cast<double>(limit_bytes - resident_bytes);
  // One byte up, so that rounding never makes the named budget infeasible. A margin of nearly everything asks for more
  // bytes than there are numbers.
  constexpr double kMost = 4e18;
  return resident_bytes + static_cast<int64_t>(std::min(kMost, std::ceil(activations / (1 - safety_margin)))) + 1;
}

BudgetGoal::BudgetGoal(const Options& options, const Budget& asked, int64_t budget_bytes, const StepBytes& step)
    : kind_(asked.kind),
      budget_bytes_(budget_bytes),
      step_(step),
      safety_margin_(options.safety_margin),
      observed_excess_(options.observed_excess) {}

BudgetGoal BudgetGoal::AsLeast() const {
  BudgetGoal least = *this;
  least.kind_ = Budget::Kind::kMin;
  least.budget_bytes_ = 0;
  return least;
}

int64_t BudgetGoal::Allowed() const {
  const int64_t activations = budget_bytes_ - step_.resident;
  if (observed_excess_ <= 1 || activations <= 0) return budget_bytes_;
  return step_.resident + static_cast<int64_t>(static_cast<double>(activations) / observed_excess_);
}

int64_t BudgetGoal::LimitForPlan() const { return Over() ? Limit() : std::max(Limit(), Allowed()); }

bool BudgetGoal::Over() const {
  switch (kind_) {
    case Budget::Kind::kMin:
      return true;
    case Budget::Kind::kAuto:
      return step_.lacking > 0 || step_.worst > Limit();
    default:
      return step_.worst > Allowed();
  }
}

int64_t BudgetGoal::BudgetFor(int64_t peak) const {
  const int64_t budget = BudgetForLimit(peak, step_.resident, safety_margin_);
  if (kind_ == Budget::Kind::kAuto || peak > step_.peak) return budget;
  // A step that fits needs no margin.
  return std::min(budget, step_.peak);
}

int64_t LeastActivationBytes() { return least_activation_bytes.load(); }

void SetLeastActivationBytes(int64_t bytes) { least_activation_bytes.store(bytes); }

}  // namespace lms
