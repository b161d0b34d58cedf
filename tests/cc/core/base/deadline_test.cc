#include "cc/core/base/deadline.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "cc/core/base/waited.h"

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

TEST(DeadlineTest, WhatTheThreadSaysItWaitedCounts) {
  const double before = Waited();
  std::string other;
  std::thread([&other] {
    const Deadline deadline(1e6);
    EXPECT_FALSE(deadline.Passed());
    AddWaited(2e6);
    try {
      deadline.Check();
    } catch (const TooMuch& too_much) {
      other = too_much.what();
    }
  }).join();
  EXPECT_EQ(other, "it took more than 1e+06 s of the processor, with what was waited for a disk");
  EXPECT_EQ(Waited(), before);  // of each thread its own
}

}  // namespace
}  // namespace lms
