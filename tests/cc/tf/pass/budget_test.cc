#include "cc/tf/pass/budget.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/cc/tf/cpu_pool_device.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

Budget Of(Budget::Kind kind, int64_t bytes = 0, double percent = 0) {
  Budget budget;
  budget.kind = kind;
  budget.bytes = bytes;
  budget.percent = percent;
  return budget;
}

constexpr StepBytes kStep{1000, 5000, 5000, 0};

TEST(Budget, BytesAreTaken) {
  EXPECT_EQ(ResolveBudget(Of(Budget::Kind::kBytes, 1234), kStep, testing::kCpu, nullptr).bytes, 1234);
}

TEST(Budget, APercentageIsOfTheActivations) {
  // 1000 resident, 4000 above: 60% are 1000 + 2400.
  EXPECT_EQ(ResolveBudget(Of(Budget::Kind::kPercent, 0, 60), kStep, testing::kCpu, nullptr).bytes, 3400);
  EXPECT_EQ(ResolveBudget(Of(Budget::Kind::kPercent, 0, 100), kStep, testing::kCpu, nullptr).bytes, 5000);
}

TEST(Budget, TheLeastHasNoBytes) {
  EXPECT_EQ(ResolveBudget(Of(Budget::Kind::kMin), kStep, testing::kCpu, nullptr).bytes, 0);
}

TEST(Budget, AutoIsWhatIsResidentPlusWhatTheMachineHasLeft) {
  const ResolvedBudget budget = ResolveBudget(Of(Budget::Kind::kAuto), kStep, testing::kCpu, nullptr);
  EXPECT_GT(budget.bytes, 1000);
  EXPECT_FALSE(budget.source.empty());
}

TEST(Budget, AutoOnACpuWithAPoolIsWhatThePoolHasLeft) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const testing::PooledCpu cpu(64 * kMiB);
  const auto held = cpu.Allocate(16 * kMiB);
  // Of 64 MiB others hold 16. Of the 5 that are resident constants, 2, are not there yet; 1 MiB is not of the pool.
  const StepBytes step{5 * kMiB, 100 * kMiB, 100 * kMiB, 0, 2 * kMiB, kMiB};
  const ResolvedBudget budget = ResolveBudget(Of(Budget::Kind::kAuto), step, testing::kCpu, cpu.cluster());
  EXPECT_EQ(budget.bytes, (64 - 16 + 3 + 1) * kMiB);
  EXPECT_EQ(budget.source, "the limit of the CPU's pool, TF_CPU_BFC_MEM_LIMIT_IN_MB");
  EXPECT_EQ(ResolveBudget(Of(Budget::Kind::kBytes, 1234), step, testing::kCpu, cpu.cluster()).bytes, 1234);
}

TEST(Budget, APoolLargerThanTheMachineIsNoLimit) {
  const testing::PooledCpu cpu(int64_t{1} << 50);
  const ResolvedBudget budget = ResolveBudget(Of(Budget::Kind::kAuto), kStep, testing::kCpu, cpu.cluster());
  EXPECT_EQ(budget.source.find("pool"), std::string::npos);
}

TEST(Budget, AutoIsWhatAPoolToBeHas) {
  Options options;
  EXPECT_FALSE(PoolToBe(options, testing::kCpu));
  options.pool_bytes = 7000;
  EXPECT_TRUE(PoolToBe(options, testing::kCpu));
  EXPECT_FALSE(PoolToBe(options, "/job:localhost/replica:0/task:0/device:GPU:0"));
  StepBytes step = kStep;
  step.outside = 30;
  EXPECT_EQ(OfPoolToBe(options, step).bytes, 7030);
  EXPECT_TRUE(OfPoolToBe(options, step).hard);
  options.memory_budget = Of(Budget::Kind::kBytes, 5000);
  EXPECT_FALSE(PoolToBe(options, testing::kCpu));
}

TEST(Budget, AGpuOfWhichNothingIsKnownHasNoLimit) {
  const ResolvedBudget budget =
      ResolveBudget(Of(Budget::Kind::kAuto), kStep, "/job:localhost/replica:0/task:0/device:GPU:0", nullptr);
  EXPECT_EQ(budget.bytes, std::numeric_limits<int64_t>::max());  // resident bytes on top do not overflow it
  EXPECT_EQ(budget.source, "no limit known");
}

TEST(Budget, TheMarginIsAShareOfTheActivations) {
  EXPECT_EQ(PlanningLimit(5000, 1000, 0.25), 4000);  // 1000 + 0.75 * 4000
  EXPECT_EQ(PlanningLimit(5000, 1000, 0), 5000);
  EXPECT_EQ(PlanningLimit(900, 1000, 0.25), 900);  // nothing left for activations
}

TEST(Budget, TheBudgetNamedForALimitIsEnoughForIt) {
  for (const double margin : {0.0, 0.05, 0.3, 0.9}) {
    for (const int64_t limit : {1001, 1007, 123457}) {
      const int64_t budget = BudgetForLimit(limit, 1000, margin);
      EXPECT_GE(PlanningLimit(budget, 1000, margin), limit) << margin;
    }
  }
  // 1000 + 3000 / 0.75, and one for rounding.
  EXPECT_EQ(BudgetForLimit(4000, 1000, 0.25), 5001);
}

TEST(Budget, AMarginOfNearlyEverythingDoesNotOverflow) {
  EXPECT_GT(BudgetForLimit(int64_t{1} << 40, 0, 0.9999999999999999), int64_t{1} << 60);
}

BudgetGoal GoalOf(Budget::Kind kind, int64_t budget_bytes, double excess = 1) {
  Options options;
  options.memory_budget = Of(kind, budget_bytes);
  options.safety_margin = 0.1;
  options.observed_excess = excess;
  return {options, options.memory_budget, budget_bytes, StepBytes{1000, 5000, 5200}};
}

TEST(BudgetGoal, PlansLeaveTheMargin) {
  const BudgetGoal goal = GoalOf(Budget::Kind::kBytes, 3000);
  EXPECT_EQ(goal.Allowed(), 3000);
  EXPECT_EQ(goal.Limit(), 1000 + 1800);
  EXPECT_EQ(goal.LimitForPlan(), goal.Limit());
  EXPECT_TRUE(goal.Over());
  EXPECT_FALSE(goal.relative());
}

TEST(BudgetGoal, WhatStepsTookMoreIsTakenOff) {
  const BudgetGoal goal = GoalOf(Budget::Kind::kBytes, 3000, 1.25);
  EXPECT_EQ(goal.Allowed(), 1000 + 1600);
  EXPECT_EQ(goal.Limit(), 1000 + 1440);
}

TEST(BudgetGoal, TheWorstIsWhatHasToFit) {
  EXPECT_TRUE(GoalOf(Budget::Kind::kBytes, 5199).Over());
  EXPECT_FALSE(GoalOf(Budget::Kind::kBytes, 5200).Over());
  // With an automatic budget the margin counts.
  EXPECT_TRUE(GoalOf(Budget::Kind::kAuto, 5200).Over());
  EXPECT_FALSE(GoalOf(Budget::Kind::kAuto, 6000).Over());
  EXPECT_TRUE(GoalOf(Budget::Kind::kMin, 0).Over());
}

TEST(BudgetGoal, RoomThatADeviceLacksIsAMatterOfAutomaticBudgets) {
  StepBytes step{1000, 5000, 5000};
  step.lacking = 1;
  Options options;
  options.memory_budget.kind = Budget::Kind::kAuto;
  EXPECT_TRUE(BudgetGoal(options, options.memory_budget, 1 << 20, step).Over());
  options.memory_budget.kind = Budget::Kind::kBytes;
  EXPECT_FALSE(BudgetGoal(options, options.memory_budget, 1 << 20, step).Over());
}

TEST(BudgetGoal, APlanThatNothingAsksForMayTakeWhatIsAllowed) {
  EXPECT_EQ(GoalOf(Budget::Kind::kBytes, 6000).LimitForPlan(), 6000);
}

TEST(BudgetGoal, WhatFitsNeedsNoMargin) {
  const BudgetGoal goal = GoalOf(Budget::Kind::kBytes, 3000);
  EXPECT_EQ(goal.BudgetFor(2800), BudgetForLimit(2800, 1000, 0.1));
  EXPECT_EQ(goal.BudgetFor(4990), 5000);
  EXPECT_EQ(goal.BudgetFor(5400), BudgetForLimit(5400, 1000, 0.1));
  EXPECT_GT(GoalOf(Budget::Kind::kAuto, 3000).BudgetFor(4990), 5000);
}

}  // namespace
}  // namespace lms
