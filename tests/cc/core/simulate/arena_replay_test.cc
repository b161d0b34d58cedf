#include "cc/core/simulate/arena_replay.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace lms {
namespace {

// What another arena of such settings does, from what it has at first.
struct Recorded {
  ArenaSettings before;
  std::vector<ArenaRequest> requests;
  std::vector<ArenaSettings::Piece> after;
  int64_t peak_bytes = 0;
};

std::vector<ArenaSettings::Piece> ByAddress(std::vector<ArenaSettings::Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& one, const auto& other) { return one.address < other.address; });
  return pieces;
}

Recorded Record(int64_t least_split_off) {
  constexpr int64_t kLimit = 1 << 20;
  ArenaSettings settings;
  settings.limit_bytes = kLimit;
  settings.least_split_off = least_split_off;
  settings.pieces = {{64 << 10, 64 << 10, true, 60 << 10}, {128 << 10, kLimit - (64 << 10), false, 0}};
  Recorded recorded;
  recorded.before = settings;
  Arena arena(settings);
  std::mt19937 random(1);
  std::vector<std::pair<Arena::ChunkId, int64_t>> held = {{0, 64 << 10}};  // and the addresses
  for (int i = 0; i < 2000; ++i) {
    if (!held.empty() && random() % 100 < 45) {
      std::swap(held[random() % held.size()], held.back());
      arena.Free(held.back().first);
      recorded.requests.push_back({0, held.back().second, 0});
      held.pop_back();
      continue;
    }
    const auto bytes = static_cast<int64_t>(1 + random() % 50000);
    const Arena::ChunkId chunk = arena.Allocate(bytes);
    if (chunk == Arena::kNoRoom) {
      recorded.requests.push_back({bytes, 0, 0});
      continue;
    }
    held.emplace_back(chunk, arena.OffsetOf(chunk));
    recorded.requests.push_back({bytes, arena.OffsetOf(chunk), arena.BytesOf(chunk)});
    recorded.peak_bytes = std::max(recorded.peak_bytes, arena.bytes_in_use());
  }
  recorded.after = ByAddress(arena.Pieces());
  return recorded;
}

TEST(ArenaReplayTest, TheSameAllocatorDoesTheSame) {
  const Recorded recorded = Record(kArenaUnit);
  const ArenaReplay replay = Replay(recorded.before, recorded.requests, recorded.after);
  EXPECT_GT(replay.requests, 1000);
  EXPECT_EQ(replay.differences, 0);
  EXPECT_EQ(replay.peak_bytes, recorded.peak_bytes);
  EXPECT_EQ(replay.seen_peak_bytes, recorded.peak_bytes);
  EXPECT_TRUE(replay.same_map);
}

TEST(ArenaReplayTest, OneThatSplitsOtherwiseDiffers) {
  Recorded recorded = Record(kArenaUnit);
  recorded.before.least_split_off = int64_t{128} << 20;
  const ArenaReplay replay = Replay(recorded.before, recorded.requests, recorded.after);
  EXPECT_GT(replay.differences, 100);
  EXPECT_GT(replay.peak_bytes, replay.seen_peak_bytes);
  EXPECT_FALSE(replay.same_map);
}

}  // namespace
}  // namespace lms
