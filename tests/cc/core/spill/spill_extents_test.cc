#include "cc/core/spill/spill_extents.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "cc/core/base/random.h"

namespace lms {
namespace {

TEST(SpillExtentsTest, TakesTheSmallestPartThatIsLargeEnough) {
  SpillExtents extents;
  EXPECT_FALSE(extents.Allocate(1).has_value());
  extents.Grow(100);
  const SpillExtent a = *extents.Allocate(30);
  const SpillExtent b = *extents.Allocate(10);
  const SpillExtent c = *extents.Allocate(20);
  const SpillExtent d = *extents.Allocate(10);
  EXPECT_EQ(d.offset, 60);
  extents.Free(a);  // [0, 30) is free, [40, 60) too, and [70, 100)
  extents.Free(c);
  EXPECT_EQ(extents.Allocate(15)->offset, 40);
  EXPECT_EQ(extents.Allocate(30)->offset, 0);
  EXPECT_EQ(extents.Allocate(5)->offset, 55);
  EXPECT_EQ(extents.used(), 10 + 15 + 30 + 5 + 10);
  EXPECT_EQ(b.offset, 30);
}

TEST(SpillExtentsTest, MergesNeighboursAndShrinks) {
  SpillExtents extents;
  extents.Grow(90);
  const SpillExtent a = *extents.Allocate(30);
  const SpillExtent b = *extents.Allocate(30);
  const SpillExtent c = *extents.Allocate(30);
  EXPECT_EQ(extents.FreeAtEnd(), 0);
  extents.Free(a);
  extents.Free(c);
  EXPECT_FALSE(extents.Allocate(31).has_value());
  EXPECT_EQ(extents.FreeAtEnd(), 30);
  extents.Free(b);
  EXPECT_EQ(extents.FreeAtEnd(), 90);
  EXPECT_EQ(extents.Allocate(90)->offset, 0);
  extents.Free({60, 30});
  EXPECT_EQ(extents.Shrink(), 60);
  EXPECT_EQ(extents.size(), 60);
  extents.Free({0, 60});
  EXPECT_EQ(extents.Shrink(), 0);
  EXPECT_EQ(extents.used(), 0);
}

TEST(SpillExtentsTest, PartsCoverWhatOneCannot) {
  SpillExtents extents;
  extents.Grow(100);
  for (int i = 0; i < 10; ++i) extents.Allocate(10);
  for (const int64_t offset : {0, 20, 30, 70}) extents.Free({offset, 10});
  EXPECT_TRUE(extents.AllocateParts(41).empty());
  EXPECT_EQ(extents.used(), 60);
  const std::vector<SpillExtent> parts = extents.AllocateParts(35);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].bytes, 20);
  EXPECT_EQ(parts[0].offset, 20);
  EXPECT_EQ(parts[1].bytes, 10);
  EXPECT_EQ(parts[2].bytes, 5);
  EXPECT_EQ(extents.used(), 95);
}

TEST(SpillExtentsTest, NoTwoOverlapWhateverTheOrder) {
  SpillExtents extents;
  Random random(7);
  std::map<int64_t, int64_t> taken;
  int64_t used = 0;
  for (int step = 0; step < 5000; ++step) {
    if (random.Below(2) == 0 || taken.empty()) {
      const int64_t bytes = 1 + random.Below(50);
      std::optional<SpillExtent> extent = extents.Allocate(bytes);
      if (!extent) {
        extents.Grow(bytes);
        extent = extents.Allocate(bytes);
      }
      ASSERT_TRUE(extent.has_value());
      const auto next = taken.lower_bound(extent->offset);
      const bool before_next = next == taken.end() || extent->offset + bytes <= next->first;
      const bool after_last =
          next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= extent->offset;
      ASSERT_TRUE(before_next && after_last);
      ASSERT_LE(extent->offset + bytes, extents.size());
      taken[extent->offset] = bytes;
      used += bytes;
    } else {
      auto some = std::next(taken.begin(), random.Below(static_cast<int>(taken.size())));
      extents.Free({some->first, some->second});
      used -= some->second;
      taken.erase(some);
    }
    ASSERT_EQ(extents.used(), used);
  }
  EXPECT_LT(extents.size(), 20000);  // freed room is used again
}

}  // namespace
}  // namespace lms
