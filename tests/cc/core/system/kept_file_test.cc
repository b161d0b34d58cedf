#include "cc/core/system/kept_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cc/core/base/waited.h"

namespace lms {
namespace {

// Two locks of one process exclude each other as those of two programs do.
TEST(KeptFileLock, OneThatIsHeldIsWaitedForOnlySoLong) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "lms_held").string();
  const double before = Waited();
  {
    const KeptFileLock first(path);
    EXPECT_EQ(first.problem(), "");
    const KeptFileLock second(path, 0);
    EXPECT_EQ(second.problem(), path + ".lock: another program has held it for 0 s");
    const KeptFileLock third(path, 0.01);
    EXPECT_NE(third.problem(), "");
    EXPECT_GE(Waited() - before, 0.01);
  }
  EXPECT_EQ(KeptFileLock(path).problem(), "");
  std::filesystem::remove(path + ".lock");
}

TEST(KeptFileLock, WhereNoneCanBeMadeThereIsNone) { EXPECT_EQ(KeptFileLock("/no/such/directory/file").problem(), ""); }

}  // namespace
}  // namespace lms
