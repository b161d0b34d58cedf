// The model of the allocator (cc/core/simulate/arena.h) against TensorFlow's own.

#include "cc/core/simulate/arena.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/predict/chunk_splits.h"
#include "cc/tf/predict/device_arena.h"
#include "gtest/gtest.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/framework/allocator.h"

namespace lms {

// Of the parameters of tests, in their names.
void PrintTo(const ArenaSettings& settings, std::ostream* out) {
  *out << settings.limit_bytes << " bytes" << (settings.grows ? ", growing" : "")
       << (settings.collects ? ", giving back" : "");
}

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Addresses that nobody touches, each region above the last.
class Addresses : public tensorflow::SubAllocator {
 public:
  Addresses() : SubAllocator({}, {}) {}
  void* Alloc(size_t /*alignment*/, size_t bytes, size_t* received) override {
    char* const region = next_;
    next_ += bytes + 4096;
    regions.emplace_back(region, bytes);
    *received = bytes;
    return region;
  }
  void Free(void* /*address*/, size_t /*bytes*/) override {}
  bool SupportsCoalescing() const override { return false; }

  std::vector<std::pair<char*, size_t>> regions;

 private:
  char* next_ = reinterpret_cast<char*>(uintptr_t{1} << 40);
};

// As SplitExactly() has it.
ArenaSettings Exact(ArenaSettings settings) {
  settings.least_split_off = kArenaUnit;
  return settings;
}

ArenaSettings Limited(int64_t bytes, bool grows, bool collects = false) {
  ArenaSettings settings;
  settings.limit_bytes = bytes;
  settings.grows = grows;
  settings.collects = collects;
  return settings;
}

tensorflow::BFCAllocator::Options OptionsOf(const ArenaSettings& settings) {
  tensorflow::BFCAllocator::Options options;
  options.allow_growth = settings.grows;
  options.garbage_collection = settings.collects;
  options.allow_retry_on_failure = false;
  return options;
}

class ArenaTest : public ::testing::TestWithParam<ArenaSettings> {};

TEST_P(ArenaTest, HandsOutWhatTensorFlowsAllocatorDoes) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    auto owned = std::make_unique<Addresses>();
    const Addresses& addresses = *owned;
    tensorflow::BFCAllocator theirs(std::move(owned), GetParam().limit_bytes, "test", OptionsOf(GetParam()));
    if (GetParam().least_split_off == kArenaUnit) SplitExactly(&theirs);
    Arena ours(GetParam());
    const auto offset = [&](const void* pointer) {
      int64_t before = 0;
      for (const auto& [region, bytes] : addresses.regions) {
        if (pointer >= region && pointer < region + bytes) return before + (static_cast<const char*>(pointer) - region);
        before += static_cast<int64_t>(bytes);
      }
      return int64_t{-1};
    };
    std::mt19937 random(seed);
    std::vector<std::pair<void*, Arena::ChunkId>> held;
    int64_t most = 0;
    for (int i = 0; i < 1500; ++i) {
      if (!held.empty() && random() % 100 < 45) {
        std::swap(held[random() % held.size()], held.back());
        theirs.DeallocateRaw(held.back().first);
        ours.Free(held.back().second);
        held.pop_back();
        continue;
      }
      // Few sizes, as steps have them, and some of any size.
      const int64_t bytes =
          random() % 3 == 0 ? 1 + random() % (GetParam().limit_bytes / 20) : int64_t{1000} << (random() % 14);
      void* const pointer = theirs.AllocateRaw(64, bytes);
      const Arena::ChunkId chunk = ours.Allocate(bytes);
      ASSERT_EQ(pointer == nullptr, chunk == Arena::kNoRoom) << bytes << " bytes, seed " << seed;
      if (pointer == nullptr) continue;
      ASSERT_EQ(static_cast<int64_t>(theirs.AllocatedSize(pointer)), ours.BytesOf(chunk));
      ASSERT_EQ(offset(pointer), ours.OffsetOf(chunk));
      held.emplace_back(pointer, chunk);
      const auto stats = theirs.GetStats();
      ASSERT_EQ(stats->bytes_in_use, ours.bytes_in_use());
      ASSERT_EQ(stats->peak_bytes_in_use, most = std::max(most, ours.bytes_in_use()));
    }
    for (const auto& [pointer, chunk] : held) theirs.DeallocateRaw(pointer);
  }
}

TEST(ChunkSplitsTest, BySomeShareOfTheLimitOrFromSoManyBytesOn) {
  tensorflow::BFCAllocator::Options options;
  tensorflow::BFCAllocator usual(std::make_unique<Addresses>(), 4096 * kMiB, "usual", options);
  EXPECT_EQ(LeastSplitOff(&usual), 128 * kMiB);
  options.fragmentation_fraction = 0.25;
  tensorflow::BFCAllocator told(std::make_unique<Addresses>(), 4096 * kMiB, "told", options);
  EXPECT_EQ(LeastSplitOff(&told), 1024 * kMiB);
  // Who has said so knows why.
  SplitExactly(&told);
  EXPECT_EQ(LeastSplitOff(&told), 1024 * kMiB);
}

TEST(ChunkSplitsTest, ExactlyFromNowOn) {
  for (const int64_t limit : {64 * kMiB, 1024 * kMiB + 12345, 4096 * kMiB}) {
    tensorflow::BFCAllocator allocator(std::make_unique<Addresses>(), limit, "test", OptionsOf(Limited(limit, false)));
    void* const before = allocator.AllocateRaw(64, 30 * kMiB);
    const auto again = [&](int64_t bytes) {
      void* const chunk = allocator.AllocateRaw(64, bytes);
      const auto handed_out = static_cast<int64_t>(allocator.AllocatedSize(chunk));
      allocator.DeallocateRaw(chunk);
      return handed_out;
    };
    void* const behind = allocator.AllocateRaw(64, kArenaUnit);  // what is given back is no larger than it was
    allocator.DeallocateRaw(before);
    EXPECT_EQ(again(20 * kMiB), 30 * kMiB);
    SplitExactly(&allocator);
    EXPECT_EQ(LeastSplitOff(&allocator), kArenaUnit);
    EXPECT_EQ(again(20 * kMiB), 20 * kMiB);
    EXPECT_EQ(again(30 * kMiB - kArenaUnit), 30 * kMiB - kArenaUnit);
    EXPECT_EQ(again(30 * kMiB), 30 * kMiB);
    allocator.DeallocateRaw(behind);
  }
}

class ArenaPiecesTest : public ArenaTest {};

TEST_P(ArenaPiecesTest, GoesOnFromWhatThereIs) {
  tensorflow::BFCAllocator theirs(std::make_unique<Addresses>(), GetParam().limit_bytes, "test", OptionsOf(GetParam()));
  std::mt19937 random(1);
  std::vector<void*> before;
  for (int i = 0; i < 60; ++i) before.push_back(theirs.AllocateRaw(64, 1 + random() % kMiB));
  for (size_t i = 0; i < before.size(); i += 1 + random() % 3) theirs.DeallocateRaw(before[i]);
  ArenaSettings settings = GetParam();
  settings.pieces = PiecesOf(&theirs);
  Arena ours(settings);
  std::vector<std::pair<void*, Arena::ChunkId>> held;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(theirs.GetStats()->bytes_in_use, ours.bytes_in_use());
    if (!held.empty() && random() % 100 < 40) {
      std::swap(held[random() % held.size()], held.back());
      theirs.DeallocateRaw(held.back().first);
      ours.Free(held.back().second);
      held.pop_back();
      continue;
    }
    const int64_t bytes = 1 + random() % kMiB;
    void* const pointer = theirs.AllocateRaw(64, bytes);
    const Arena::ChunkId chunk = ours.Allocate(bytes);
    ASSERT_EQ(pointer == nullptr, chunk == Arena::kNoRoom);
    if (pointer == nullptr) {
      EXPECT_GT(bytes, ours.LargestFree());
      ++refused;
      continue;
    }
    ASSERT_EQ(static_cast<int64_t>(theirs.AllocatedSize(pointer)), ours.BytesOf(chunk));
    if (!GetParam().grows) {
      ASSERT_EQ(static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)), ours.OffsetOf(chunk));
    }
    held.emplace_back(pointer, chunk);
  }
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Limits, ArenaTest,
                         ::testing::Values(Limited(64 * kMiB, false), Limited(64 * kMiB, true),
                                           Limited(1024 * kMiB + 12345, false), Limited(64 * kMiB, true, true),
                                           Limited(64 * kMiB + 12345, true, true), Exact(Limited(64 * kMiB, false)),
                                           Exact(Limited(1024 * kMiB + 12345, true, true))));
INSTANTIATE_TEST_SUITE_P(SlowLimits, ArenaTest, ::testing::Values(Limited(4096 * kMiB, true)));
INSTANTIATE_TEST_SUITE_P(Limits, ArenaPiecesTest,
                         ::testing::Values(Limited(64 * kMiB, false), Limited(64 * kMiB, true),
                                           Limited(64 * kMiB, true, true)));

}  // namespace
}  // namespace lms
