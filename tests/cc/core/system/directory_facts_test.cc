#include "cc/core/system/directory_facts.h"

#include <gtest/gtest.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cc/core/base/text_file.h"

namespace lms {
namespace {

namespace fs = std::filesystem;

class DirectoryFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / (std::string("lms_directory_") + test->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override {
    fs::permissions(directory_, fs::perms::owner_all);
    fs::remove_all(directory_);
  }

  fs::path directory_;
};

TEST_F(DirectoryFactsTest, AGoodOne) {
  const DirectoryFacts facts = LookAtDirectory(directory_.string());
  EXPECT_EQ(facts.problem, "");
  EXPECT_GT(facts.free_bytes, 0);
  EXPECT_FALSE(facts.file_system.empty());
  EXPECT_TRUE(fs::is_empty(directory_));  // nothing is left behind
  // The same file system, the same name.
  fs::create_directories(directory_ / "below");
  EXPECT_EQ(LookAtDirectory((directory_ / "below").string()).file_system.substr(0, facts.file_system.find('/')),
            facts.file_system.substr(0, facts.file_system.find('/')));
}

TEST_F(DirectoryFactsTest, BadOnes) {
  EXPECT_NE(LookAtDirectory((directory_ / "none").string()).problem.find("No such file"), std::string::npos);
  const std::string file = (directory_ / "file").string();
  ASSERT_EQ(WriteTextFile(file, ""), "");
  EXPECT_EQ(LookAtDirectory(file).problem, file + ": is no directory");
  if (::geteuid() == 0) {
    // Root may write everywhere but where nobody can.
    EXPECT_NE(LookAtDirectory("/proc/self").problem.find("no file can be made there"), std::string::npos);
    return;
  }
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_NE(LookAtDirectory(directory_.string()).problem.find("no file can be made there: Permission"),
            std::string::npos);
}

TEST_F(DirectoryFactsTest, MemoryIsKnown) {
  struct statfs kind;
  if (::statfs("/dev/shm", &kind) != 0 || kind.f_type != 0x01021994) {
    EXPECT_FALSE(LookAtDirectory("/dev/shm").in_memory);
    return;
  }
  EXPECT_TRUE(LookAtDirectory("/dev/shm").in_memory);
}

TEST_F(DirectoryFactsTest, TheSourceOfAMount) {
  const std::string info =
      "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
      "23 22 0:21 / /proc rw - proc proc rw\n"
      "nonsense\n"
      "24 22 0:30 / /data rw master:1 shared:7 - nfs4 server:/export rw,vers=4\n"
      "25 22 0:31 / /cut rw\n";
  EXPECT_EQ(MountSource(info, 254, 1), "/dev/vda1");
  EXPECT_EQ(MountSource(info, 0, 30), "server:/export");
  EXPECT_EQ(MountSource(info, 0, 31), "");
  EXPECT_EQ(MountSource(info, 25, 4), "");
  EXPECT_EQ(MountSource("", 254, 1), "");
}

TEST_F(DirectoryFactsTest, TheDefaultFollowsTheEnvironment) {
  const char* const names[] = {"LMS_SPILL_DIR", "TMPDIR"};
  std::string before[2];
  for (int i = 0; i < 2; ++i) before[i] = std::getenv(names[i]) == nullptr ? "" : std::getenv(names[i]);
  ::setenv("LMS_SPILL_DIR", "/spill", 1);
  ::setenv("TMPDIR", "/t", 1);
  EXPECT_EQ(DirectoryForSpilling(), "/spill");
  ::setenv("LMS_SPILL_DIR", "", 1);
  EXPECT_EQ(DirectoryForSpilling(), "/t");
  ::unsetenv("TMPDIR");
  // Also on a machine without it there is somewhere to go.
  EXPECT_EQ(DirectoryForSpilling(), std::filesystem::is_directory("/var/tmp") ? "/var/tmp" : "/tmp");
  for (int i = 0; i < 2; ++i) {
    if (before[i].empty()) {
      ::unsetenv(names[i]);
    } else {
      ::setenv(names[i], before[i].c_str(), 1);
    }
  }
}

}  // namespace
}  // namespace lms
