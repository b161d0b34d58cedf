#include "cc/core/base/deadline.h"

#include <gtest/gtest.h>

namespace lms {
namespace {

TEST(DeadlineTest, NoneNeverPasses) {
  EXPECT_FALSE(Deadline().Passed());
  EXPECT_NO_THROW(Deadline().Check());
  Pace pace{Deadline()};
  for (int i = 0; i < 10; ++i) EXPECT_NO_THROW(pace.Step(1000000000));
}

TEST(DeadlineTest, OneThatHasPassedThrows) {
  const Deadline deadline(-1);
  EXPECT_TRUE(deadline.Passed());
  EXPECT_THROW(deadline.Check(), TooMuch);
}

TEST(DeadlineTest, OneFarAwayHasNotPassed) { EXPECT_NO_THROW(Deadline(1e6).Check()); }

TEST(DeadlineTest, APaceAsksWhenEnoughHasBeenDone) {
  Pace pace{Deadline(-1)};
  EXPECT_NO_THROW(pace.Step());
  EXPECT_THROW(
      {
        for (int i = 0; i < 1000000; ++i) pace.Step(10);
      },
      TooMuch);
}

TEST(DeadlineTest, WhatCountsIsTheThreadsOwnTime) {
  const double before = Deadline::Now();
  double sum = 0;
  for (int i = 0; i < 1000000; ++i) sum += 1.0 / (i + 1);
  EXPECT_GT(sum, 14);
  EXPECT_GT(Deadline::Now(), before);
}

}  // namespace
}  // namespace lms
