#include "cc/core/base/latest.h"

#include <gtest/gtest.h>

#include <string>

namespace lms {
namespace {

TEST(Latest, GivesTheSameValueAgain) {
  Latest<int> latest;
  EXPECT_EQ(latest.Find("a"), nullptr);
  *latest.Of("a") = 3;
  EXPECT_EQ(*latest.Of("a"), 3);
  EXPECT_EQ(*latest.Find("a"), 3);
  EXPECT_EQ(*latest.Of("b"), 0);
}

TEST(Latest, ForgetsTheFirst) {
  Latest<int> latest;
  const auto first = latest.Of("first");
  *first = 1;
  for (size_t i = 0; i < Latest<int>::kMost; ++i) *latest.Of(std::to_string(i)) = 2;
  EXPECT_EQ(latest.Find("first"), nullptr);
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(*latest.Find("0"), 2);
}

}  // namespace
}  // namespace lms
