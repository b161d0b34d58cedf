#include "cc/core/base/range_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(RangeTree, StartsAtZero) {
  const RangeTree tree(5);
  EXPECT_EQ(tree.Max(), 0);
  EXPECT_EQ(tree.Values(), std::vector<int64_t>(5, 0));
}

TEST(RangeTree, AnEmptyRangeAddsNothingAndHasNoMaximum) {
  RangeTree tree(5);
  tree.Add(3, 2, 100);
  EXPECT_EQ(tree.Max(), 0);
  EXPECT_EQ(tree.Max(3, 2), kLeast);
}

TEST(RangeTree, ATreeOfOneAndOfNone) {
  RangeTree one(1);
  one.Add(0, 0, -3);
  EXPECT_EQ(one.Max(), -3);
  EXPECT_EQ(RangeTree(0).Max(), 0);
}

// Against a plain array, for sizes around powers of two.
TEST(RangeTree, AgreesWithAPlainArray) {
  for (const int size : {1, 2, 3, 7, 8, 9, 63, 64, 100}) {
    testing::Random random(static_cast<uint64_t>(size));
    RangeTree tree(size);
    std::vector<int64_t> plain(size, 0);
    for (int change = 0; change < 200; ++change) {
      const int first = random.Below(size);
      const int last = first + random.Below(size - first);
      const int64_t value = random.Below(2001) - 1000;
      tree.Add(first, last, value);
      for (int i = first; i <= last; ++i) plain[i] += value;
      ASSERT_EQ(tree.Max(), *std::max_element(plain.begin(), plain.end()));
      const int from = random.Below(size);
      const int to = from + random.Below(size - from);
      ASSERT_EQ(tree.Max(from, to), *std::max_element(plain.begin() + from, plain.begin() + to + 1))
          << from << ".." << to;
    }
    EXPECT_EQ(tree.Values(), plain);
  }
}

}  // namespace
}  // namespace lms
