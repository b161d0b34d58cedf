#include "cc/tf/runtime/host_bytes.h"

#include <gtest/gtest.h>

#include <future>

namespace lms {
namespace {

using Taken = HostBytes::Taken;

TEST(HostBytes, TheLimitIsThatOfAllTogether) {
  HostBytes one;
  HostBytes two;
  EXPECT_TRUE(one.Take(60, 100));
  EXPECT_FALSE(two.Take(50, 100));
  EXPECT_EQ(two.TakeBehindCopies(50, 100, /*wait=*/true), Taken::kNo);
  EXPECT_EQ(two.TakeBehindCopies(40, 100, /*wait=*/false), Taken::kYes);
  EXPECT_EQ(HostBytes::InUse(), 100);
  one.Release();
  two.Release();
  EXPECT_EQ(HostBytes::InUse(), 0);
}

TEST(HostBytes, WhoRunsAheadOfCopiesTakesNoMoreThanWasEverHeld) {
  const int64_t held = int64_t{1} << 40;  // more than any other test
  HostBytes step;
  ASSERT_EQ(step.TakeBehindCopies(held, 0, false), Taken::kYes);
  step.LeaveToCopy();
  HostBytes next;
  EXPECT_EQ(next.TakeBehindCopies(1, 0, false), Taken::kLater);
  EXPECT_EQ(HostBytes::InUse(), held);
  auto waits = std::async(std::launch::async, [&next] { return next.TakeBehindCopies(1, 0, true); });
  step.Release();  // its copy has ended
  EXPECT_EQ(waits.get(), Taken::kYes);
  EXPECT_EQ(HostBytes::InUse(), 1);
}

TEST(HostBytes, WithinALimitCopiesAreWaitedForToo) {
  HostBytes step;
  ASSERT_EQ(step.TakeBehindCopies(80, 100, false), Taken::kYes);
  step.LeaveToCopy();
  HostBytes next;
  EXPECT_EQ(next.TakeBehindCopies(50, 100, false), Taken::kLater);
  step.Release();
  EXPECT_EQ(next.TakeBehindCopies(50, 100, false), Taken::kYes);
}

}  // namespace
}  // namespace lms
