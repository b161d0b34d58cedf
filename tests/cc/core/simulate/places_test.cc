#include "cc/core/simulate/places.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lms {
namespace {

Lifetime Of(OpId op, int64_t bytes, int32_t from, int32_t to) {
  Lifetime lifetime;
  lifetime.what = {op, 0};
  lifetime.bytes = bytes;
  lifetime.from = from;
  lifetime.to = to;
  return lifetime;
}

// The best way.
Places Found(const std::vector<std::vector<Lifetime>>& runs, const std::vector<int64_t>& free, int64_t least_bytes = 1,
             double rare = 0) {
  const std::vector<Places> ways = FindPlaces(runs, free, least_bytes, rare);
  return ways.empty() ? Places() : ways.front();
}

std::vector<int64_t> OffsetsOf(const Places& places) {
  std::vector<int64_t> offsets;
  for (const Places::Entry& entry : places.entries) offsets.push_back(entry.place.offset);
  return offsets;
}

TEST(PlacesTest, WhatIsThereOneAfterTheOtherSharesAPlace) {
  const Places places = Found({{Of(0, 1024, 0, 3), Of(1, 1024, 3, 6), Of(2, 1024, 6, 9)}}, {4096}, 1);
  EXPECT_EQ(OffsetsOf(places), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(places.blocks, std::vector<int64_t>{1024});
}

TEST(PlacesTest, WhatIsThereTogetherInAnyRunDoesNot) {
  const std::vector<Lifetime> one = {Of(0, 1024, 0, 3), Of(1, 1024, 3, 6)};
  const std::vector<Lifetime> other = {Of(0, 1024, 0, 4), Of(1, 1024, 3, 6)};
  EXPECT_EQ(Found({one, one}, {4096}, 1).blocks, std::vector<int64_t>{1024});
  EXPECT_EQ(Found({one, other}, {4096}, 1).blocks, std::vector<int64_t>{2048});
}

TEST(PlacesTest, WhatRarelyMeetsMayShareAPlace) {
  const std::vector<Lifetime> usual = {Of(0, 1024, 0, 3), Of(1, 1024, 3, 6)};
  const std::vector<Lifetime> other = {Of(0, 1024, 0, 4), Of(1, 1024, 3, 6)};
  EXPECT_EQ(Found({usual, usual, usual, other}, {4096}, 1, 0.25).blocks, std::vector<int64_t>{1024});
  EXPECT_EQ(Found({usual, usual, other, other}, {4096}, 1, 0.25).blocks, std::vector<int64_t>{2048});
}

// By requests the first lies at 0 and the second, which stays, behind it: the third finds 512 and 1024 bytes, not 1536.
TEST(PlacesTest, WhatStaysLongDoesNotCutUpWhatOthersNeed) {
  const std::vector<Lifetime> run = {Of(0, 512, 0, 2), Of(1, 512, 1, 9), Of(2, 1536, 3, 5)};
  const Places places = Found({run}, {2048}, 1);
  ASSERT_EQ(places.entries.size(), 3u);
  EXPECT_EQ(places.blocks, std::vector<int64_t>{2048});
}

TEST(PlacesTest, WhatIsSmallOrStaysGetsNoneAndRoomIsLeftForIt) {
  std::vector<Lifetime> run = {Of(0, 1024, 0, 9), Of(1, 256, 0, 9), Of(2, 1024, 1, 9)};
  run[2].stays = true;
  const Places places = Found({run}, {4096}, 512);
  ASSERT_EQ(places.entries.size(), 1u);
  EXPECT_EQ(places.entries[0].what.op, 0);
  EXPECT_EQ(places.blocks, std::vector<int64_t>{1024});
  // 1280 bytes and an eighth of that are left for the others: there is no room for a place.
  EXPECT_TRUE(Found({run}, {2304}, 512).empty());
}

TEST(PlacesTest, WorkspaceTakesRoomButNoPlace) {
  std::vector<Lifetime> run = {Of(0, 1024, 0, 9), Of(1, 512, 1, 2)};
  run[1].what.part = Allocated::kWorkspace;
  const Places places = Found({run}, {4096}, 1);
  ASSERT_EQ(places.entries.size(), 1u);
  EXPECT_EQ(places.blocks, std::vector<int64_t>{1536});
}

TEST(PlacesTest, ManyPiecesBecomeSeveralBlocks) {
  const std::vector<Lifetime> run = {Of(0, 1024, 0, 9), Of(1, 1024, 0, 9), Of(2, 512, 0, 9)};
  const Places places = Found({run}, {1024, 512, 1024}, 1);
  EXPECT_EQ(places.blocks, (std::vector<int64_t>{1024, 1024, 512}));
  EXPECT_TRUE(Found({run}, {1024, 1024}, 1).empty());  // there is more than free
}

// In many random steps: no two that are there at once overlap, in any run; no place reaches beyond its block; the
// blocks are no more than what is free; and of one run what is packed is not far from what is in use at the most.
TEST(PlacesTest, NoTwoOverlapInAnyRun) {
  double worst = 1;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    const auto tensors = static_cast<int32_t>(2 + upto(60));
    const int64_t runs_count = 1 + upto(4);
    std::vector<int64_t> bytes;
    for (int32_t i = 0; i < tensors; ++i) bytes.push_back(1 + upto(upto(3) == 0 ? 20000 : 3000));
    std::vector<std::vector<Lifetime>> runs;
    int64_t most = 0;
    for (int64_t r = 0; r < runs_count; ++r) {
      runs.emplace_back();
      std::vector<int64_t> in_use(200, 0);
      for (int32_t i = 0; i < tensors; ++i) {
        const auto from = static_cast<int32_t>(i + upto(5));
        const auto to = static_cast<int32_t>(from + 1 + upto(upto(4) == 0 ? 60 : 6));
        runs.back().push_back(Of(i, bytes[i], from, to));
        for (int32_t t = from; t < to; ++t) in_use[t] += InArenaUnits(bytes[i]);
      }
      most = std::max(most, *std::max_element(in_use.begin(), in_use.end()));
    }
    const Places places = Found(runs, {4 * most}, 1);
    ASSERT_EQ(places.entries.size(), static_cast<size_t>(tensors)) << seed;
    ASSERT_EQ(places.blocks.size(), 1u);
    // Where runs differ, what meets in one of them must be apart in all.
    if (runs_count == 1) worst = std::max(worst, static_cast<double>(places.blocks[0]) / static_cast<double>(most));
    for (const std::vector<Lifetime>& run : runs) {
      for (size_t i = 0; i < run.size(); ++i) {
        const Places::Entry& one = places.entries[i];
        ASSERT_EQ(places.Find(one.what, one.bytes), &one.place);
        ASSERT_LE(one.place.offset + one.bytes, places.blocks[0]) << seed;
        for (size_t j = 0; j < i; ++j) {
          if (run[i].from >= run[j].to || run[j].from >= run[i].to) continue;
          const Places::Entry& other = places.entries[j];
          ASSERT_TRUE(one.place.offset + one.bytes <= other.place.offset ||
                      other.place.offset + other.bytes <= one.place.offset)
              << "seed " << seed << ": " << i << " and " << j;
        }
      }
    }
  }
  EXPECT_LT(worst, 1.2);
}

}  // namespace
}  // namespace lms
