#include "cc/core/spill/spill_measure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <string>

#include "tests/cc/core/faulty_files.h"

namespace lms {
namespace {

TEST(MeasureSpillTest, FindsFiguresOfARealDirectory) {
  std::string problem;
  const std::string directory = std::filesystem::temp_directory_path().string();
  const SwapLink link = MeasureSpill(directory, int64_t{8} << 20, &problem);
  EXPECT_EQ(problem, "");
  EXPECT_TRUE(link.usable());
  EXPECT_GT(link.out_share, 0);
  EXPECT_LE(link.out_share, 1);
  EXPECT_GT(link.in_share, 0);
  EXPECT_LE(link.in_share, 1);
  EXPECT_TRUE(link.one_lane());
  EXPECT_GT(link.latency_us, 0);
  EXPECT_GT(link.compute_us_per_byte, 0);
  EXPECT_GT(link.capacity_bytes, 0);
  EXPECT_LT(link.capacity_bytes, std::numeric_limits<int64_t>::max());
}

TEST(MeasureSpillTest, StoresNoMoreThanItMay) {
  FaultyFiles files;
  files.disk_bytes = int64_t{1} << 20;
  std::string problem;
  EXPECT_TRUE(MeasureSpill(&files, "/d", int64_t{1} << 20, &problem).usable());
  EXPECT_EQ(problem, "");
  EXPECT_LE(files.most_bytes, int64_t{1} << 20);
}

TEST(MeasureSpillTest, AProblemIsToldAndTheLinkNotUsable) {
  for (int FaultyFiles::* fault :
       {&FaultyFiles::open_error, &FaultyFiles::reserve_error, &FaultyFiles::write_error, &FaultyFiles::read_error}) {
    FaultyFiles files;
    files.*fault = EIO;
    std::string problem;
    EXPECT_FALSE(MeasureSpill(&files, "/d", int64_t{8} << 20, &problem).usable());
    EXPECT_NE(problem.find("Input/output error"), std::string::npos) << problem;
  }
}

}  // namespace
}  // namespace lms
