#include "cc/core/system/system_memory.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace lms {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;

class SystemMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) / (std::string("lms_cgroup_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // A version 2 group with a limit, a usage and file cache that can be given up, in MiB.
  void WriteGroup(const std::string& group, const std::string& limit, int usage_mib, int cache_mib) {
    Write(group + "/memory.max", limit + "\n");
    Write(group + "/memory.current", std::to_string(usage_mib * kMiB) + "\n");
    Write(group + "/memory.stat", "anon 1\ninactive_file " + std::to_string(cache_mib * kMiB) + "\nactive_file 7\n");
  }
  std::optional<int64_t> Left(const std::string& cgroup) const { return CgroupBytesLeft(cgroup, root_.string()); }

  fs::path root_;
};

std::string Mib(int64_t mib) { return std::to_string(mib * kMiB); }

TEST_F(SystemMemoryTest, AFieldIsReadInBytes) {
  const std::string text = "VmPeak:\t  999 kB\nVmData:\t  2048 kB\nThreads:\t3\n";
  EXPECT_EQ(FieldBytes(text, "VmData"), 2 * kMiB);
  EXPECT_EQ(FieldBytes(text, "VmDat"), std::nullopt);
  EXPECT_EQ(FieldBytes(text, "VmSize"), std::nullopt);
  EXPECT_EQ(FieldBytes("VmData: none\n", "VmData"), std::nullopt);
}

TEST_F(SystemMemoryTest, FileCacheDoesNotCountAsUsed) {
  WriteGroup("job", Mib(100), 60, 20);
  EXPECT_EQ(Left("0::/job\n"), 60 * kMiB);  // 100 - (60 - 20)
}

TEST_F(SystemMemoryTest, TheTightestGroupOnThePathDecides) {
  WriteGroup("slice", Mib(90), 70, 0);         // 20 left
  WriteGroup("slice/job", Mib(100), 60, 0);    // 40 left
  WriteGroup("slice/job/step", "max", 50, 0);  // no limit
  EXPECT_EQ(Left("0::/slice/job/step\n"), 20 * kMiB);
  EXPECT_EQ(Left("0::/other\n"), std::nullopt);
}

TEST_F(SystemMemoryTest, TheHighMarkIsALimitToo) {
  WriteGroup("job", Mib(100), 60, 0);
  Write("job/memory.high", Mib(75));
  EXPECT_EQ(Left("0::/job\n"), 15 * kMiB);
}

TEST_F(SystemMemoryTest, AGroupOverItsLimitHasNothingLeft) {
  WriteGroup("job", Mib(10), 60, 0);
  EXPECT_EQ(Left("0::/job\n"), 0);
}

TEST_F(SystemMemoryTest, WithoutALimitThereIsNoBound) {
  WriteGroup("job", "max", 60, 0);
  EXPECT_EQ(Left("0::/job\n"), std::nullopt);
  EXPECT_EQ(Left(""), std::nullopt);
  EXPECT_EQ(Left("no colons\n"), std::nullopt);
}

// In a container without its own cgroup namespace the path is the host's, while the mount shows only the container's
// group, as the root.
TEST_F(SystemMemoryTest, APathThatIsNotVisibleFallsBackToTheRoot) {
  WriteGroup(".", Mib(100), 30, 0);
  EXPECT_EQ(Left("0::/docker/0123/worker\n"), 70 * kMiB);
}

TEST_F(SystemMemoryTest, Version1IsReadAsWell) {
  Write("memory/job/memory.limit_in_bytes", Mib(100));
  Write("memory/job/memory.usage_in_bytes", Mib(70));
  Write("memory/job/memory.stat", "inactive_file 5\ntotal_inactive_file " + Mib(10) + "\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");  // how version 1 says "none"
  Write("memory/memory.usage_in_bytes", Mib(500));
  EXPECT_EQ(Left("9:cpuset:/job\n4:cpu,memory:/job\n0::/\n"), 40 * kMiB);  // 100 - (70 - 10)
  EXPECT_EQ(Left("4:memory:/\n"), std::nullopt);
  EXPECT_EQ(Left("4:memory2:/job\n"), std::nullopt);
}

TEST_F(SystemMemoryTest, Version2BesideVersion1IsFound) {
  WriteGroup("unified/job", Mib(100), 30, 0);
  EXPECT_EQ(Left("4:cpu:/\n0::/job\n"), 70 * kMiB);
}

class BoundsTest : public SystemMemoryTest {
 protected:
  void SetUp() override {
    SystemMemoryTest::SetUp();
    WriteGroup("job", Mib(100), 50, 0);                                                  // 50 MiB left
    sources_.meminfo = "MemTotal: 409600 kB\nMemFree: 1 kB\nMemAvailable: 204800 kB\n";  // 200 MiB
    sources_.status = "VmSize:\t 512000 kB\nVmData:\t 102400 kB\n";                      // 500 and 100 MiB
    sources_.cgroup_root = root_.string();
  }
  MemorySources sources_;
};

TEST_F(BoundsTest, EachBoundDecidesWhereItIsTheTightest) {
  MemoryAvailable available = AvailableMemory(sources_);
  EXPECT_EQ(available.bound, "MemAvailable");
  EXPECT_EQ(available.bytes, 200 * kMiB);

  sources_.address_space_limit = 600 * kMiB;
  available = AvailableMemory(sources_);
  EXPECT_EQ(available.bound, "RLIMIT_AS");
  EXPECT_EQ(available.bytes, 100 * kMiB);

  sources_.cgroup = "0::/job\n";
  available = AvailableMemory(sources_);
  EXPECT_EQ(available.bound, "cgroup");
  EXPECT_EQ(available.bytes, 50 * kMiB);

  sources_.data_limit = 130 * kMiB;
  available = AvailableMemory(sources_);
  EXPECT_EQ(available.bound, "RLIMIT_DATA");
  EXPECT_EQ(available.bytes, 30 * kMiB);
  sources_.idle_bytes = 15 * kMiB;  // of the 100 that are mapped
  EXPECT_EQ(AvailableMemory(sources_).bytes, 45 * kMiB);
}

TEST_F(BoundsTest, ALimitAlreadyPassedLeavesNothing) {
  sources_.data_limit = 60 * kMiB;
  const MemoryAvailable available = AvailableMemory(sources_);
  EXPECT_EQ(available.bound, "RLIMIT_DATA");
  EXPECT_EQ(available.bytes, 0);
}

TEST_F(BoundsTest, WhatCannotBeReadIsLeftOut) {
  sources_.status.clear();
  sources_.data_limit = 60 * kMiB;
  EXPECT_EQ(AvailableMemory(sources_).bound, "MemAvailable");
  sources_.meminfo.clear();
  const MemoryAvailable available = AvailableMemory(sources_);
  EXPECT_EQ(available.bound, "none");
  EXPECT_EQ(available.bytes, MemoryAvailable::kUnbounded);
}

TEST(ThisMachineTest, AResourceLimitIsSeen) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  const MemorySources sources = ReadMemorySources();
  const std::optional<int64_t> data = FieldBytes(sources.status, "VmData");
  ASSERT_TRUE(data.has_value());
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(*data + 16 * kMiB);
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  const MemoryAvailable available = AvailableMemory();
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_EQ(available.bound, "RLIMIT_DATA");
  EXPECT_LE(available.bytes, 16 * kMiB);
  EXPECT_GT(available.bytes, 8 * kMiB);
}

}  // namespace
}  // namespace lms
