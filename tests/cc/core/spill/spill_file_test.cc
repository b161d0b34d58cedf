#include "cc/core/spill/spill_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

namespace lms {
namespace {

namespace fs = std::filesystem;

class SpillFileTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!fs::is_directory(GetParam())) GTEST_SKIP() << GetParam() << " is not there";
    std::string pattern = GetParam() + "/lms_spill_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    memory_.reset(static_cast<char*>(std::aligned_alloc(kSpillAlignment, kSpillAlignment * 4)));
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }

  std::unique_ptr<SpillFile> Open() {
    int error = 0;
    std::unique_ptr<SpillFile> file = SystemSpillFiles()->Open(directory_, &error);
    EXPECT_NE(file, nullptr) << std::strerror(error);
    return file;
  }
  char* memory() { return memory_.get(); }

  std::string directory_;
  std::unique_ptr<char, decltype(&std::free)> memory_{nullptr, &std::free};
};

TEST_P(SpillFileTest, KeepsBytesWithoutAName) {
  const std::unique_ptr<SpillFile> file = Open();
  EXPECT_TRUE(fs::is_empty(directory_));
  EXPECT_EQ(file->Reserve(0, 4 * kSpillAlignment), 0);
  std::memset(memory(), 'a', kSpillAlignment);
  EXPECT_EQ(file->Write(memory(), kSpillAlignment, 2 * kSpillAlignment).bytes, kSpillAlignment);
  std::memset(memory(), 'b', 4 * kSpillAlignment);
  EXPECT_EQ(file->Read(memory(), 4 * kSpillAlignment, 0).bytes, 4 * kSpillAlignment);
  EXPECT_EQ(memory()[0], 0);
  EXPECT_EQ(memory()[2 * kSpillAlignment], 'a');
  EXPECT_EQ(memory()[3 * kSpillAlignment], 0);
  EXPECT_EQ(file->Truncate(kSpillAlignment), 0);
  const SpillIo after_end = file->Read(memory(), kSpillAlignment, kSpillAlignment);
  EXPECT_EQ(after_end.bytes, 0);
  EXPECT_EQ(after_end.error, 0);
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_P(SpillFileTest, OtherAlignmentsGiveUpTheDirectWayAndStillWork) {
  const std::unique_ptr<SpillFile> file = Open();
  EXPECT_EQ(file->Reserve(0, 2 * kSpillAlignment), 0);
  std::memset(memory(), 'c', 100);
  EXPECT_EQ(file->Write(memory() + 1, 99, 3).bytes, 99);
  std::memset(memory(), 'd', 2 * kSpillAlignment);
  EXPECT_EQ(file->Read(memory() + 1, 200, 1).bytes, 200);
  EXPECT_EQ(memory()[2], 0);
  EXPECT_EQ(memory()[3], 'c');
  EXPECT_EQ(memory()[101], 'c');
  EXPECT_EQ(memory()[102], 0);
}

TEST_P(SpillFileTest, ALimitOnFileSizesIsAnErrorWhereTheSignalIsBlocked) {
  const std::unique_ptr<SpillFile> file = Open();
  int error = 0;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  std::thread thread([&] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    const rlimit small{8 * kSpillAlignment, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    error = file->Reserve(0, 64 * kSpillAlignment);
    setrlimit(RLIMIT_FSIZE, &before);
  });
  thread.join();
  EXPECT_EQ(error, EFBIG);
}

TEST_P(SpillFileTest, FreeBytesAreThoseOfTheFileSystem) {
  EXPECT_GT(SystemSpillFiles()->FreeBytes(directory_), 0);
  EXPECT_EQ(SystemSpillFiles()->FreeBytes(directory_ + "/none"), -1);
}

TEST_P(SpillFileTest, NoFileWhereThereIsNoDirectory) {
  int error = 0;
  EXPECT_EQ(SystemSpillFiles()->Open(directory_ + "/none", &error), nullptr);
  EXPECT_EQ(error, ENOENT);
  const std::string plain = directory_ + "/plain";
  close(open(plain.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(SystemSpillFiles()->Open(plain, &error), nullptr);
  EXPECT_EQ(error, ENOTDIR);
  fs::remove(plain);
}

// A disk, and a file system in memory.
INSTANTIATE_TEST_SUITE_P(Where, SpillFileTest, ::testing::Values(fs::temp_directory_path().string(), "/dev/shm"),
                         [](const auto& where) { return where.index == 0 ? "Temporary" : "Memory"; });

}  // namespace
}  // namespace lms
