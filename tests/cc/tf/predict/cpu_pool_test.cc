#include "cc/tf/predict/cpu_pool.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/predict/chunk_splits.h"
#include "cc/tf/predict/device_arena.h"
#include "gtest/gtest.h"
#include "tests/cc/tf/cpu_pool_device.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::kCpu;
using testing::PooledCpu;

constexpr int64_t MiB(int64_t count) { return count << 20; }

TEST(CpuPoolTest, ABfcAllocatorIsAPool) {
  const PooledCpu cpu(MiB(64));
  const auto held = cpu.Allocate(MiB(1));
  const std::optional<CpuPool> pool = CpuPoolOf(cpu.pool());
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->limit_bytes, MiB(64));
  EXPECT_TRUE(pool->limited);
  // Of the first region, 2 MiB, half is in use.
  EXPECT_EQ(pool->in_use_bytes, MiB(1));
  EXPECT_EQ(pool->idle_bytes, MiB(1));
  EXPECT_EQ(pool->least_bytes, 0);
  EXPECT_EQ(pool->setting, "TF_CPU_BFC_MEM_LIMIT_IN_MB");
}

TEST(CpuPoolTest, ALimitAboveTheMachinesMemoryIsNone) {
  const PooledCpu cpu(int64_t{1} << 50);
  EXPECT_FALSE(CpuPoolOf(cpu.pool())->limited);
  EXPECT_TRUE(DeviceArenas(kCpu, cpu.cluster(), 0.1, true).empty());
}

TEST(CpuPoolTest, OtherAllocatorsAreNone) { EXPECT_FALSE(CpuPoolOf(nullptr)); }

TEST(CpuPoolTest, AutomaticBudgetsGoByItsChunks) {
  const PooledCpu cpu(MiB(64));
  const auto held = cpu.Allocate(MiB(1));
  const std::vector<ArenaSettings> arenas = DeviceArenas(kCpu, cpu.cluster(), 0.05, true);
  ASSERT_EQ(arenas.size(), 2);
  EXPECT_EQ(arenas[0].limit_bytes, MiB(64));
  EXPECT_TRUE(arenas[0].grows);
  EXPECT_EQ(arenas[0].pieces.size(), 2);
  // Twice the share, as chunks are not split exactly: a tenth of the 63 MiB that are free, in units of 256 bytes, is
  // kept of what no region has taken.
  EXPECT_EQ(arenas[1].limit_bytes, MiB(64) - MiB(63) / 10 / kArenaUnit * kArenaUnit);
  EXPECT_EQ(arenas[1].pieces.size(), 2);
}

TEST(CpuPoolTest, ALimitedOneHandsOutExactly) {
  const PooledCpu limited(MiB(64));
  HandOutExactly(kCpu, limited.cluster());
  const std::vector<ArenaSettings> arenas = DeviceArenas(kCpu, limited.cluster(), 0.25, true);
  ASSERT_EQ(arenas.size(), 2);
  EXPECT_EQ(arenas[0].least_split_off, kArenaUnit);
  EXPECT_EQ(arenas[1].limit_bytes, MiB(48));
  const PooledCpu unlimited(int64_t{1} << 50);
  HandOutExactly(kCpu, unlimited.cluster());
  EXPECT_GT(LeastSplitOff(unlimited.pool()), kArenaUnit);
}

TEST(CpuPoolTest, BudgetsInBytesGoByBytes) {
  const PooledCpu cpu(MiB(64));
  EXPECT_TRUE(DeviceArenas(kCpu, cpu.cluster(), 0.1, false).empty());
}

TEST(CpuPoolTest, TheRestIsTakenAsOneRegion) {
  const PooledCpu cpu(MiB(64));
  const auto held = cpu.Allocate(MiB(1));
  ASSERT_EQ(CpuPoolOf(cpu.pool())->untaken_bytes, MiB(62));
  TakeRest(*CpuPoolOf(cpu.pool()));
  const std::optional<CpuPool> pool = CpuPoolOf(cpu.pool());
  EXPECT_EQ(pool->untaken_bytes, 0);
  EXPECT_EQ(pool->in_use_bytes, MiB(1));
  EXPECT_EQ(pool->idle_bytes, MiB(63));
  EXPECT_NE(cpu.Allocate(MiB(62)), nullptr);
}

TEST(CpuPoolTest, WhereOneRegionHasAllAShareOfItIsKept) {
  const PooledCpu cpu(MiB(64));
  cpu.Allocate(MiB(64));  // and given back: one region from now on
  const std::vector<ArenaSettings> arenas = DeviceArenas(kCpu, cpu.cluster(), 0.125, true);
  ASSERT_EQ(arenas.size(), 2);
  ASSERT_EQ(arenas[0].pieces.size(), 1);
  ASSERT_EQ(arenas[1].pieces.size(), 2);
  EXPECT_EQ(arenas[1].pieces[0].bytes, MiB(48));
  EXPECT_FALSE(arenas[1].pieces[0].used);
  EXPECT_EQ(arenas[1].pieces[1].bytes, MiB(16));
  EXPECT_TRUE(arenas[1].pieces[1].used);
}

TEST(CpuPoolTest, OneThatIsToBeIsOneRegionWithoutAnything) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  for (const bool exact : {false, true}) {
    const std::vector<ArenaSettings> arenas = ArenasOfPool(kBytes, exact, 0.125);
    ASSERT_EQ(arenas.size(), 2);
    EXPECT_EQ(arenas[0].limit_bytes, kBytes);
    EXPECT_EQ(arenas[1].limit_bytes, kBytes - kBytes / 8);
    for (const ArenaSettings& arena : arenas) {
      EXPECT_FALSE(arena.grows);
      EXPECT_TRUE(arena.pieces.empty());
      EXPECT_EQ(arena.least_split_off == kArenaUnit, exact);
      EXPECT_EQ(arena.least_bytes, kLeastPoolBytes);
    }
  }
}

}  // namespace
}  // namespace lms
