#include "cc/core/base/block_space.h"

#include <optional>

#include "gtest/gtest.h"

namespace lms {
namespace {

TEST(BlockSpaceTest, WhatIsTakenIsNotGivenTwice) {
  BlockSpace space({10, 6});
  EXPECT_TRUE(space.empty());
  EXPECT_TRUE(space.Take({0, 2}, 4));
  EXPECT_FALSE(space.empty());
  for (const int64_t offset : {0, 1, 3, 5}) EXPECT_FALSE(space.Take({0, offset}, 3)) << offset;
  EXPECT_FALSE(space.Take({0, 0}, 10));
  EXPECT_TRUE(space.Take({0, 0}, 2));
  EXPECT_TRUE(space.Take({0, 6}, 4));
  EXPECT_EQ(space.LargestFree(), 6);
  space.Give({0, 2});
  EXPECT_FALSE(space.Take({0, 2}, 5));
  EXPECT_TRUE(space.Take({0, 3}, 3));
}

TEST(BlockSpaceTest, NothingReachesBeyondItsBlock) {
  BlockSpace space({10, 6});
  EXPECT_FALSE(space.Take({1, 3}, 4));
  EXPECT_TRUE(space.Take({1, 3}, 3));
  EXPECT_FALSE(space.Take({0, 10}, 1));
}

TEST(BlockSpaceTest, TheSmallestFreePartThatIsLargeEnoughIsTaken) {
  BlockSpace space({10, 6});
  ASSERT_TRUE(space.Take({0, 3}, 2));
  EXPECT_EQ(space.TakeAnywhere(3), (Place{0, 0}));
  EXPECT_EQ(space.TakeAnywhere(3), (Place{0, 5}));
  EXPECT_EQ(space.TakeAnywhere(3), (Place{1, 0}));
  EXPECT_EQ(space.TakeAnywhere(4), std::nullopt);
  EXPECT_EQ(space.TakeAnywhere(2), (Place{0, 8}));
}

}  // namespace
}  // namespace lms
