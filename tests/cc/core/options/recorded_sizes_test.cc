#include "cc/core/options/recorded_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace lms {
namespace {

TEST(RecordedSizes, TellsTheLargestThatWereSeen) {
  RecordedSizes sizes;
  EXPECT_EQ(sizes.Text(), "");
  sizes.Note("b:0", {7, 3});
  sizes.Note("a:1", {});
  EXPECT_EQ(sizes.Text(), "a:1=;b:0=7,3");
  sizes.Note("b:0", {5, 3});
  EXPECT_EQ(sizes.Text(), "a:1=;b:0=7,3");
  sizes.Note("b:0", {5, 4});
  EXPECT_EQ(sizes.Text(), "a:1=;b:0=7,4");
}

// A mask that keeps a few elements more in most steps: each of six calls had a plan of its own made.
TEST(RecordedSizes, TakesASizeThatIsHardlyLargerAsPlannedFor) {
  RecordedSizes sizes;
  sizes.Note("mask:0", {10196});
  EXPECT_EQ(sizes.Text(), "mask:0=10196");
  for (const int64_t kept : {10208, 10212, 10214, 10297}) {
    sizes.Note("mask:0", {kept});
    EXPECT_EQ(sizes.Text(), "mask:0=10196") << kept;
  }
  sizes.Note("mask:0", {10298});
  EXPECT_EQ(sizes.Text(), "mask:0=10298");
}

TEST(RecordedSizes, LeavesRoomForWhatGrowsAgainAndAgain) {
  RecordedSizes sizes;
  int plans = 0;
  std::string told;
  for (int64_t length = 100; length < 400; ++length) {
    sizes.Note("fixed:0", {8, 2});
    sizes.Note("text:0", {length});
    const std::string now = sizes.Text();
    plans += now != told;
    told = now;
    RecordedShapes shapes;
    ASSERT_TRUE(ParseRecordedSizes(told, &shapes));
    EXPECT_GE(shapes["text:0"][0] * 101 / 100, length);
    EXPECT_LE(shapes["text:0"][0], length + length / 4);
    EXPECT_EQ(shapes["fixed:0"], (RecordedShape{8, 2}));
  }
  EXPECT_LE(plans, 12);
}

TEST(RecordedSizes, LeavesLittleRoomForLengthsAtRandom) {
  RecordedSizes sizes;
  uint32_t random = 1;
  int64_t most = 0;
  int plans = 0;
  std::string told;
  for (int step = 0; step < 1000; ++step) {
    random = random * 1664525 + 1013904223;
    const int64_t length = 16 + (random >> 16) % 500;
    most = std::max(most, length);
    sizes.Note("text:0", {length});
    const std::string now = sizes.Text();
    plans += now != told;
    told = now;
  }
  RecordedShapes shapes;
  ASSERT_TRUE(ParseRecordedSizes(told, &shapes));
  EXPECT_GE(shapes["text:0"][0] * 101 / 100, most);
  EXPECT_LE(shapes["text:0"][0], most + most / 10);
  EXPECT_LE(plans, 10);
}

// The tokens of eight experts: 24 steps had ten plans made while only those had room that were too large just then.
TEST(RecordedSizes, LeavesRoomAboveAllThatVary) {
  RecordedSizes sizes;
  uint32_t random = 7;
  int plans = 0;
  std::string told;
  for (int step = 0; step < 200; ++step) {
    for (int expert = 0; expert < 8; ++expert) {
      random = random * 1664525 + 1013904223;
      sizes.Note("expert_" + std::to_string(expert) + ":0", {900 + (random >> 16) % 300});
    }
    const std::string now = sizes.Text();
    plans += now != told;
    told = now;
  }
  EXPECT_LE(plans, 8);
}

TEST(RecordedSizes, TellsNothingOfATensorWhoseRankChanges) {
  RecordedSizes sizes;
  sizes.Note("a:0", {7, 3});
  sizes.Note("b:0", {2});
  EXPECT_EQ(sizes.Text(), "a:0=7,3;b:0=2");
  sizes.Note("a:0", {7});
  EXPECT_EQ(sizes.Text(), "b:0=2");
  sizes.Note("a:0", {7, 3});
  EXPECT_EQ(sizes.Text(), "b:0=2");
}

TEST(RecordedSizes, TellsNothingOfWhatIsTooSmallToMatter) {
  RecordedSizes sizes;
  sizes.Note("a:0", {7, 3}, 22);
  EXPECT_EQ(sizes.Text(), "");
  sizes.Note("a:0", {8, 3}, 22);
  EXPECT_EQ(sizes.Text(), "a:0=8,3");
  sizes.Note("a:0", {2, 4}, 22);
  EXPECT_EQ(sizes.Text(), "a:0=8,4");
}

TEST(RecordedSizes, ReadsWhatItTells) {
  RecordedShapes shapes;
  ASSERT_TRUE(ParseRecordedSizes("model/Where:0=57,2;x:1=;y:0=0", &shapes));
  EXPECT_EQ(shapes, (RecordedShapes{{"model/Where:0", {57, 2}}, {"x:1", {}}, {"y:0", {0}}}));
  for (const char* wrong : {"x", "=3", "x:0=3,", "x:0=a", "x:0=-1", "x:0=3;y"}) {
    RecordedShapes none;
    EXPECT_FALSE(ParseRecordedSizes(wrong, &none)) << wrong;
  }
}

}  // namespace
}  // namespace lms
