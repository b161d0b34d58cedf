#include "cc/core/options/swap_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lms {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

TEST(SwapLimits, ThePinnedPoolIsReadAsTensorFlowReadsIt) {
  EXPECT_EQ(HostPoolBytes(nullptr), 64 * kGiB);
  EXPECT_EQ(HostPoolBytes("1024"), kGiB);
  EXPECT_EQ(HostPoolBytes("0"), 0);
  EXPECT_EQ(HostPoolBytes(""), 64 * kGiB);
  EXPECT_EQ(HostPoolBytes("64GB"), 64 * kGiB);
  EXPECT_EQ(HostPoolBytes("99999999999999999999"), 64 * kGiB);
  EXPECT_EQ(HostPoolBytes("-1"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(HostPoolBytes("9999999999999999"), std::numeric_limits<int64_t>::max());
}

TEST(SwapLimits, TheTightestCounts) {
  // 64 GiB less 2 in use; 100 GiB less a reserve of 4.
  EXPECT_EQ(LeastLimit(HostLimits(0, 64 * kGiB, 2 * kGiB, 100 * kGiB)), 62 * kGiB);
  EXPECT_EQ(LeastLimit(HostLimits(0, 128 * kGiB, 0, 100 * kGiB)), 96 * kGiB);
  EXPECT_EQ(LeastLimit(HostLimits(kGiB, 64 * kGiB, 0, 100 * kGiB)), kGiB);
  EXPECT_EQ(LeastLimit(HostLimits(0, kGiB, 2 * kGiB, 100 * kGiB)), 0);
  // A tenth stays free, 10 GiB at most; what swapping holds already is there for it.
  EXPECT_EQ(LeastLimit(DiskLimits(0, "/d", 50 * kGiB, 0)), 45 * kGiB);
  EXPECT_EQ(LeastLimit(DiskLimits(0, "/d", 500 * kGiB, 0)), 490 * kGiB);
  EXPECT_EQ(LeastLimit(DiskLimits(0, "/d", 40 * kGiB, 10 * kGiB)), 45 * kGiB);
  EXPECT_EQ(LeastLimit(DiskLimits(3 * kGiB, "/d", 50 * kGiB, 0)), 3 * kGiB);
  EXPECT_EQ(LeastLimit({}), std::numeric_limits<int64_t>::max());
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_GT(LeastLimit(DiskLimits(0, "/d", most, most)), most / 2);  // no overflow
}

TEST(SwapLimits, TheWarningNamesTheSettingAndItsValue) {
  // 80 GiB and a tenth are 88 GiB: 90112 MB.
  EXPECT_EQ(SwapLimitWarning(80 * kGiB, HostLimits(0, 64 * kGiB, 0, 200 * kGiB)),
            "swapping needs 80.00 GiB of pinned host memory, but TF_GPU_HOST_MEM_LIMIT_IN_MB allows 64.00 GiB: set it "
            "to 90112 before the program starts");
  EXPECT_EQ(SwapLimitWarning(64 * kGiB, HostLimits(0, 64 * kGiB, 0, 200 * kGiB)), "");
  // 63 GiB, a tenth and 2 GiB in use: 71.3, so 72 GiB.
  const std::string beside = SwapLimitWarning(63 * kGiB, HostLimits(0, 64 * kGiB, 2 * kGiB, 200 * kGiB));
  EXPECT_NE(beside.find("allows 62.00 GiB beside 2.00 GiB in use: set it to 73728 "), std::string::npos) << beside;
}

TEST(SwapLimits, EveryLimitBelowHasItsClause) {
  const std::string host = SwapLimitWarning(80 * kGiB, HostLimits(kGiB, 64 * kGiB, 0, 20 * kGiB));
  EXPECT_NE(host.find("but swap_host_limit allows 1.00 GiB: raise it; and TF_GPU"), std::string::npos) << host;
  EXPECT_NE(host.find("; and the machine has 18.00 GiB for it"), std::string::npos) << host;
  EXPECT_NE(host.find("swap_to='disk'"), std::string::npos) << host;
  const std::string disk = SwapLimitWarning(50 * kGiB, DiskLimits(kGiB, "/spill", 10 * kGiB, 0));
  EXPECT_EQ(disk,
            "swapping needs 50.00 GiB on disk, but swap_disk_limit allows 1.00 GiB: raise it; and /spill has 9.00 GiB "
            "to give: make room there, or set swap_to to another directory");
  EXPECT_EQ(SwapLimitWarning(kMiB, DiskLimits(0, "/spill", 10 * kGiB, 0)), "");
}

}  // namespace
}  // namespace lms
