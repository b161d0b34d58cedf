#include "cc/tf/pass/try_plans.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace lms {
namespace {

constexpr int64_t kLimitOfDevice = 1000;

BudgetGoal Automatic() {
  Options options;
  options.memory_budget.kind = Budget::Kind::kAuto;
  return {options, options.memory_budget, kLimitOfDevice, StepBytes{100, 2000, 2000}};
}

// A plan that was verified.
BudgetResult Verified(int64_t peak, int64_t lacking_as_is, int64_t lacking, double cost_us) {
  BudgetResult result;
  result.outcome = BudgetOutcome::kRewritten;
  result.rewritten.profile.peak_bytes = peak;
  result.rewritten.profile.lacking_as_is = lacking_as_is;
  result.rewritten.profile.lacking_bytes = lacking;
  result.planned.result.cost_us = cost_us;
  return result;
}

double CostOfNearest(std::initializer_list<BudgetResult> plans) {
  Tried tried;
  for (const BudgetResult& plan : plans) tried.Keep(Automatic(), plan);
  return tried.nearest->planned.result.cost_us;
}

TEST(Tried, TheNearestFallsShortByLeast) {
  EXPECT_EQ(CostOfNearest({Verified(1400, 0, 0, 1), Verified(1200, 0, 0, 2), Verified(1300, 0, 0, 3)}), 2);
  EXPECT_EQ(CostOfNearest({Verified(900, 50, 50, 1), Verified(900, 20, 20, 2)}), 2);
  EXPECT_EQ(CostOfNearest({Verified(1100, 0, 0, 1), Verified(900, 50, 50, 2)}), 2);
}

TEST(Tried, WhatTheDeviceLacksAsItIsComesBeforeWhatIsSetAside) {
  EXPECT_EQ(CostOfNearest({Verified(900, 10, 10, 1), Verified(900, 0, 70, 2)}), 2);
  EXPECT_EQ(CostOfNearest({Verified(900, 0, 70, 1), Verified(900, 0, 60, 2)}), 2);
}

TEST(Tried, OfEquallyNearOnesTheCheapestIsKept) {
  EXPECT_EQ(CostOfNearest({Verified(900, 0, 70, 3), Verified(800, 0, 70, 1), Verified(700, 0, 70, 2)}), 1);
}

TEST(Tried, WhatIsKeptHasNoLimit) {
  Tried tried;
  tried.Add(Automatic(), 800, Verified(1400, 0, 0, 1));
  tried.Add(Automatic(), 900, Verified(1500, 0, 0, 1));
  tried.Keep(Automatic(), Verified(1200, 0, 0, 2));
  EXPECT_EQ(tried.lowest_limit, 800);
  EXPECT_EQ(tried.nearest->rewritten.profile.peak_bytes, 1200);
}

}  // namespace
}  // namespace lms
