// Places in TensorFlow's own allocator, over memory of the CPU.

#include "cc/tf/runtime/placed_memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/tf/predict/chunk_splits.h"
#include "gtest/gtest.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/common_runtime/pool_allocator.h"
#include "tensorflow/core/platform/numa.h"
#include "tensorflow/core/profiler/lib/scoped_memory_debug_annotation.h"

namespace lms {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A pool of one region. Allocators are never freed in a program that gives places, so those of tests are not either.
tensorflow::BFCAllocator* NewPool(int64_t bytes) {
  tensorflow::BFCAllocator::Options options;
  options.allow_retry_on_failure = false;
  using Visitors = std::vector<tensorflow::SubAllocator::Visitor>;
  auto memory =
      std::make_unique<tensorflow::BasicCPUAllocator>(tensorflow::port::kNUMANoAffinity, Visitors(), Visitors());
  auto* const pool = new tensorflow::BFCAllocator(std::move(memory), bytes, "pool", options);
  SplitExactly(pool);
  return pool;
}

char* Ask(tensorflow::BFCAllocator* pool, const char* op, int64_t bytes, int64_t run = 1, bool waits = false) {
  const tsl::profiler::ScopedMemoryDebugAnnotation named(op, run);
  return static_cast<char*>(pool->AllocateRaw(64, bytes, tensorflow::AllocationAttributes(waits, false, nullptr)));
}

int64_t InUse(tensorflow::BFCAllocator* pool) { return pool->GetStats()->bytes_in_use; }

// a and b one behind the other, c where a was.
PlacedStep Step() {
  PlacedStep step;
  step.blocks = {2 * kMiB};
  step.tensors = {{"a", kMiB, {0, 0}}, {"b", kMiB, {0, kMiB}}, {"c", kMiB, {0, 0}}};
  return step;
}

TEST(PlacedMemoryTest, TensorsLieAtTheirPlaces) {
  auto* const pool = NewPool(4 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  ASSERT_EQ(WhyNoPlaces(pool), "");  // once is enough
  const int64_t before = CountsOfPlaces().placed;
  NotePlacedRun(1, PlaceStep(pool, Step()));
  char* const b = Ask(pool, "b", kMiB);
  char* const a = Ask(pool, "a", kMiB - 10);  // in units of 256 bytes
  EXPECT_EQ(b - a, kMiB);
  EXPECT_EQ(InUse(pool), 2 * kMiB);
  EXPECT_EQ(pool->RequestedSize(a), kMiB - 10);
  EXPECT_EQ(pool->AllocatedSize(a), kMiB);
  EXPECT_NE(pool->AllocationId(a), pool->AllocationId(b));
  pool->DeallocateRaw(a);
  char* const c = Ask(pool, "c", kMiB);
  EXPECT_EQ(c, a);
  pool->DeallocateRaw(b);
  EXPECT_EQ(InUse(pool), 2 * kMiB);
  pool->DeallocateRaw(c);
  EXPECT_EQ(InUse(pool), 0);
  EXPECT_EQ(CountsOfPlaces().placed - before, 3);
}

TEST(PlacedMemoryTest, OthersComeFromTheAllocator) {
  auto* const pool = NewPool(4 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  NotePlacedRun(1, PlaceStep(pool, Step()));
  char* const a = Ask(pool, "a", kMiB);
  const std::vector<std::pair<const char*, int64_t>> others = {{"x", kMiB}, {"a", kMiB / 2}, {"", kMiB / 4}};
  std::vector<char*> got;
  for (const auto& [op, bytes] : others) {
    got.push_back(Ask(pool, op, bytes));
    ASSERT_NE(got.back(), nullptr);
    EXPECT_TRUE(got.back() < a || got.back() >= a + 2 * kMiB) << op;
    EXPECT_EQ(static_cast<int64_t>(pool->RequestedSize(got.back())), bytes);
  }
  for (char* const pointer : got) pool->DeallocateRaw(pointer);
  EXPECT_EQ(InUse(pool), 2 * kMiB);
  pool->DeallocateRaw(a);
  EXPECT_EQ(InUse(pool), 0);
}

TEST(PlacedMemoryTest, WhosePlaceIsNotFreeComesFromTheAllocator) {
  auto* const pool = NewPool(4 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  NotePlacedRun(1, PlaceStep(pool, Step()));
  const int64_t before = CountsOfPlaces().displaced;
  char* const a = Ask(pool, "a", kMiB);
  char* const c = Ask(pool, "c", kMiB);  // another order: a is still there
  char* const of_another_step = Ask(pool, "a", kMiB);
  EXPECT_TRUE(c < a || c >= a + 2 * kMiB);
  EXPECT_TRUE(of_another_step < a || of_another_step >= a + 2 * kMiB);
  EXPECT_EQ(CountsOfPlaces().displaced - before, 2);
  for (char* const pointer : {a, c, of_another_step}) pool->DeallocateRaw(pointer);
  EXPECT_EQ(InUse(pool), 0);
}

TEST(PlacedMemoryTest, WhatIsFreeOfABlockIsThereForAllBeforeMemoryRunsOut) {
  auto* const pool = NewPool(2 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  NotePlacedRun(1, PlaceStep(pool, Step()));
  char* const a = Ask(pool, "a", kMiB);
  char* const x = Ask(pool, "x", kMiB / 2);
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x, a + kMiB);
  EXPECT_EQ(Ask(pool, "y", kMiB), nullptr);
  EXPECT_EQ(Ask(pool, "b", kMiB), nullptr);
  pool->DeallocateRaw(a);
  EXPECT_EQ(InUse(pool), 2 * kMiB);  // x is still in the block
  pool->DeallocateRaw(x);
  EXPECT_EQ(InUse(pool), 0);
}

TEST(PlacedMemoryTest, WhereTheAllocatorHasNoRoomForABlockThereAreNoPlaces) {
  auto* const pool = NewPool(2 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  NotePlacedRun(1, PlaceStep(pool, Step()));
  char* const x = Ask(pool, "x", kMiB / 2);
  char* const a = Ask(pool, "a", kMiB);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(InUse(pool), 3 * kMiB / 2);
  pool->DeallocateRaw(x);
  pool->DeallocateRaw(a);
  // Now there is.
  char* const again = Ask(pool, "a", kMiB);
  EXPECT_EQ(InUse(pool), 2 * kMiB);
  pool->DeallocateRaw(again);
}

TEST(PlacedMemoryTest, WhoeverMayWaitGetsWhatIsReleasedMeanwhile) {
  auto* const pool = NewPool(2 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  NotePlacedRun(1, PlaceStep(pool, Step()));
  char* const a = Ask(pool, "a", kMiB);
  char* const b = Ask(pool, "b", kMiB);
  std::thread releases([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pool->DeallocateRaw(a);
  });
  char* const x = Ask(pool, "x", kMiB, 1, /*waits=*/true);
  releases.join();
  EXPECT_EQ(x, a);
  pool->DeallocateRaw(x);
  pool->DeallocateRaw(b);
  EXPECT_EQ(InUse(pool), 0);
}

TEST(PlacedMemoryTest, BeforeATensorTakesAPlaceOfOthersItWaitsForItsOwn) {
  auto* const pool = NewPool(2 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  NotePlacedRun(1, PlaceStep(pool, Step()));
  char* const a = Ask(pool, "a", kMiB);
  std::thread releases([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pool->DeallocateRaw(a);
  });
  char* const c = Ask(pool, "c", kMiB, 1, /*waits=*/true);  // there is room: where b is to be
  releases.join();
  EXPECT_EQ(c, a);
  char* const b = Ask(pool, "b", kMiB);
  EXPECT_EQ(b, a + kMiB);
  pool->DeallocateRaw(b);
  // Nobody releases c: another takes what there is.
  char* const again = Ask(pool, "a", kMiB, 1, /*waits=*/true);
  EXPECT_EQ(again, a + kMiB);
  pool->DeallocateRaw(again);
  pool->DeallocateRaw(c);
  EXPECT_EQ(InUse(pool), 0);
}

TEST(PlacedMemoryTest, EachRunHasThePlacesThatItHasNamed) {
  auto* const pool = NewPool(8 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  PlacedStep other = Step();
  other.blocks = {3 * kMiB};
  other.tensors[0].place.offset = 2 * kMiB;
  NotePlacedRun(1, PlaceStep(pool, Step()));
  NotePlacedRun(2, PlaceStep(pool, other));
  const int64_t before = CountsOfPlaces().placed;
  // One that has named none: a prediction by the same model, say.
  pool->DeallocateRaw(Ask(pool, "a", kMiB, /*run=*/3));
  EXPECT_EQ(CountsOfPlaces().placed, before);
  for (const int64_t run : {1, 2}) {
    char* const b = Ask(pool, "b", kMiB, run);
    char* const a = Ask(pool, "a", kMiB, run);
    EXPECT_EQ(a - b, run == 1 ? -kMiB : kMiB);
    EXPECT_EQ(InUse(pool), (run + 1) * kMiB);
    // The blocks are the first one's as long as something is in them.
    char* const of_the_other = Ask(pool, "b", kMiB, 3 - run);
    EXPECT_EQ(InUse(pool), (run + 2) * kMiB);
    for (char* const pointer : {a, b, of_the_other}) pool->DeallocateRaw(pointer);
  }
  EXPECT_EQ(CountsOfPlaces().placed, before + 4);
}

TEST(PlacedMemoryTest, OldOnesAreForgotten) {
  auto* const pool = NewPool(8 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  const int64_t old = PlaceStep(pool, Step());
  for (size_t i = 0; i < kMostPlacedSteps; ++i) PlaceStep(pool, Step());
  NotePlacedRun(1, old);
  const int64_t before = CountsOfPlaces().placed;
  pool->DeallocateRaw(Ask(pool, "a", kMiB));
  EXPECT_EQ(CountsOfPlaces().placed, before);
}

// Two steps at once, in any order, each with memory of its own to write to.
TEST(PlacedMemoryTest, NoTwoTensorsEverOverlap) {
  auto* const pool = NewPool(24 * kMiB);
  ASSERT_EQ(WhyNoPlaces(pool), "");
  std::mt19937 places(1);
  std::vector<std::string> names;
  PlacedStep step;
  step.blocks = {8 * kMiB, 2 * kMiB};
  for (int i = 0; i < 60; ++i) {
    names.push_back("op" + std::to_string(i));
    const auto bytes = static_cast<int64_t>(1 + places() % 4000) * 256;
    const int block = i % 5 == 0 ? 1 : 0;
    const auto room = static_cast<uint64_t>((step.blocks[block] - bytes) / 256);
    step.tensors.push_back({names.back(), bytes, {block, static_cast<int64_t>(places() % room) * 256}});
  }
  const int64_t number = PlaceStep(pool, step);
  const auto work = [&](int seed) {
    std::mt19937 random(seed);
    NotePlacedRun(seed, number);
    std::vector<std::pair<char*, int>> mine;
    for (int i = 0; i < 4000; ++i) {
      if (mine.size() < 12 && random() % 2 == 0) {
        const PlacedStep::Tensor& tensor = step.tensors[random() % step.tensors.size()];
        const char* const op = tensor.op.c_str();  // a view in some versions of TensorFlow
        const tsl::profiler::ScopedMemoryDebugAnnotation named(op, seed);
        const tensorflow::AllocationAttributes once(false, true, nullptr);
        auto* const pointer = static_cast<char*>(pool->AllocateRaw(64, tensor.bytes, once));
        if (pointer == nullptr) continue;
        std::memset(pointer, seed, tensor.bytes);
        mine.emplace_back(pointer, static_cast<int>(tensor.bytes));
      } else if (!mine.empty()) {
        const size_t which = random() % mine.size();
        const auto [pointer, bytes] = mine[which];
        ASSERT_TRUE(std::all_of(pointer, pointer + bytes, [&](char c) { return c == static_cast<char>(seed); }));
        ASSERT_EQ(pool->RequestedSize(pointer), static_cast<size_t>(bytes));
        pool->DeallocateRaw(pointer);
        mine.erase(mine.begin() + static_cast<int64_t>(which));
      }
    }
    for (const auto& [pointer, bytes] : mine) pool->DeallocateRaw(pointer);
  };
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(InUse(pool), 0);
  EXPECT_GT(CountsOfPlaces().placed, 1000);
}

}  // namespace
}  // namespace lms
