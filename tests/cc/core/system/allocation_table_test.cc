#include "cc/core/system/allocation_table.h"

#include <cstdint>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "gtest/gtest.h"

namespace lms {
namespace {

const void* Pointer(uint64_t number) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(number * 64)); }

TEST(AllocationTableTest, RemembersBytesUntilRemoved) {
  AllocationTable table;
  int64_t replaced = -1;
  EXPECT_TRUE(table.Insert(Pointer(1), 100, &replaced));
  EXPECT_EQ(replaced, 0);
  EXPECT_EQ(table.Size(), 1u);
  EXPECT_EQ(table.Remove(Pointer(1)), 100);
  EXPECT_EQ(table.Remove(Pointer(1)), -1);
  EXPECT_EQ(table.Size(), 0u);
}

TEST(AllocationTableTest, AnUnknownPointerIsNotFound) {
  AllocationTable table;
  EXPECT_EQ(table.Remove(Pointer(7)), -1);
}

TEST(AllocationTableTest, ZeroBytesAreNotUnknown) {
  AllocationTable table;
  int64_t replaced = -1;
  EXPECT_TRUE(table.Insert(Pointer(3), 0, &replaced));
  EXPECT_EQ(table.Remove(Pointer(3)), 0);
}

TEST(AllocationTableTest, APointerRecordedTwiceIsReplaced) {
  AllocationTable table;
  int64_t replaced = -1;
  EXPECT_TRUE(table.Insert(Pointer(1), 100, &replaced));
  EXPECT_TRUE(table.Insert(Pointer(1), 30, &replaced));
  EXPECT_EQ(replaced, 100);
  EXPECT_EQ(table.Size(), 1u);
  EXPECT_EQ(table.Remove(Pointer(1)), 30);
}

// Dense pointers make long probe runs, so that removals shift entries back over the end of the table too.
TEST(AllocationTableTest, AgreesWithAMapUnderRandomUse) {
  AllocationTable table;
  std::unordered_map<uint64_t, int64_t> expected;
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t number = 1 + random() % 20000;
    const auto known = expected.find(number);
    if (random() % 2 == 0) {
      int64_t replaced = -1;
      ASSERT_TRUE(table.Insert(Pointer(number), i, &replaced));
      ASSERT_EQ(replaced, known == expected.end() ? 0 : known->second) << "step " << i;
      expected[number] = i;
    } else {
      ASSERT_EQ(table.Remove(Pointer(number)), known == expected.end() ? -1 : known->second) << "step " << i;
      expected.erase(number);
    }
  }
  EXPECT_EQ(table.Size(), expected.size());
  for (const auto& [number, bytes] : expected) ASSERT_EQ(table.Remove(Pointer(number)), bytes);
  EXPECT_EQ(table.Size(), 0u);
}

TEST(AllocationTableTest, ThreadsDoNotDisturbEachOther) {
  AllocationTable table;
  constexpr uint64_t kThreads = 8;
  constexpr uint64_t kPointers = 5000;
  std::vector<int64_t> sums(kThreads, 0);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&table, &sums, t] {
      int64_t replaced = 0;
      for (uint64_t i = 0; i < kPointers; ++i) table.Insert(Pointer(1 + i * kThreads + t), 1, &replaced);
      for (uint64_t i = 0; i < kPointers; ++i) sums[t] += table.Remove(Pointer(1 + i * kThreads + t));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, static_cast<int64_t>(kPointers));
  EXPECT_EQ(table.Size(), 0u);
}

}  // namespace
}  // namespace lms
