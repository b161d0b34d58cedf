#include "cc/core/search/restraint.h"

#include <gtest/gtest.h>

namespace lms {
namespace {

TEST(Restraint, LeavesOutOneKindAfterTheOther) {
  Restraint restraint;
  EXPECT_EQ(restraint.Words(), "");
  // Another order, moves, edges, recomputations; no swaps.
  const Restraint::Kinds parts = {true, true, true, false, true};
  ASSERT_TRUE(restraint.Tighten(parts));
  EXPECT_EQ(restraint.Words(), "another order of operations");
  EXPECT_FALSE(restraint.MayOrder());
  EXPECT_TRUE(restraint.Allows(Change::kMoves));
  ASSERT_TRUE(restraint.Tighten(parts));
  EXPECT_EQ(restraint.Words(), "moves");
  ASSERT_TRUE(restraint.Tighten(parts));
  EXPECT_EQ(restraint.Words(), "edges that hold the order");
  EXPECT_FALSE(restraint.Tighten(parts));  // recomputations are all that is left
  EXPECT_TRUE(restraint.Allows(Change::kRecomputations));
}

TEST(Restraint, LeavesOutWhatTheFailedPlanHas) {
  Restraint restraint;
  ASSERT_TRUE(restraint.Tighten({false, false, false, true, true}));
  EXPECT_EQ(restraint.Words(), "swaps");
  EXPECT_TRUE(restraint.MayOrder());
  EXPECT_FALSE(Restraint().Tighten({false, false, true, false, false}));
}

}  // namespace
}  // namespace lms
