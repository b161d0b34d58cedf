#include "cc/core/profile/profile_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/text_file.h"

namespace lms {
namespace {

namespace fs = std::filesystem;

class ProfileFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / (std::string("lms_profile_") + test->name());
    fs::remove_all(directory_);
    path_ = (directory_ / "deep" / "down.profile").string();
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::shared_ptr<const Profile> Load() {
    std::string problem;
    std::shared_ptr<const Profile> profile = LoadProfile(path_, &problem);
    EXPECT_EQ(problem, "");
    return profile;
  }

  fs::path directory_;
  std::string path_;
  ProfilePlace place_{"CPU x", "2.21.0", "0.1.0", true};
};

TEST_F(ProfileFileTest, SecondEntriesJoinTheFirst) {
  EXPECT_EQ(Load(), nullptr);
  EXPECT_EQ(AddToProfile(path_, place_, {{"A()", {1, 1, 1}}, {"B()", {2, 1, 1}}}).problem, "");
  EXPECT_EQ(Load()->entries.size(), 2U);
  const ProfileWritten second = AddToProfile(path_, place_, {{"B()", {5, 1, 1}}, {"C()", {3, 1, 1}}});
  EXPECT_EQ(second.problem, "");
  EXPECT_EQ(second.replaced, "");
  ASSERT_EQ(Load()->entries.size(), 3U);
  EXPECT_EQ(Load()->entries.at("B()").measured_us, 5);
  for (const auto& file : fs::directory_iterator(fs::path(path_).parent_path())) {
    EXPECT_EQ(file.path().filename().string().find(".new."), std::string::npos) << file.path();
  }
}

TEST_F(ProfileFileTest, AFileIsReadOnceUntilItChanges) {
  AddToProfile(path_, place_, {{"A()", {1, 1, 1}}});
  const auto first = Load();
  EXPECT_EQ(Load(), first);
  AddToProfile(path_, place_, {{"A()", {2, 1, 1}}});
  EXPECT_NE(Load(), first);
  EXPECT_EQ(Load()->entries.at("A()").measured_us, 2);
  EXPECT_EQ(first->entries.at("A()").measured_us, 1);
}

TEST_F(ProfileFileTest, AnotherPlacesProfileIsMovedAside) {
  AddToProfile(path_, {"CPU y", "2.21.0", "0.1.0", true}, {{"A()", {1, 1, 1}}});
  const ProfileWritten written = AddToProfile(path_, place_, {{"B()", {2, 1, 1}}});
  EXPECT_EQ(written.problem, "");
  EXPECT_EQ(written.replaced, "it was measured on CPU y, this is CPU x");
  EXPECT_EQ(Load()->place.device, "CPU x");
  EXPECT_EQ(Load()->entries.size(), 1U);
  path_ += ".old";
  EXPECT_EQ(Load()->place.device, "CPU y");
}

TEST_F(ProfileFileTest, ADamagedProfileIsRefusedAndMadeAnew) {
  AddToProfile(path_, place_, {{"A()", {1, 1, 1}}});
  std::string text;
  ASSERT_EQ(ReadTextFile(path_, &text), "");
  ASSERT_EQ(WriteTextFile(path_, text.substr(0, text.size() - 4)), "");
  std::string problem;
  EXPECT_EQ(LoadProfile(path_, &problem), nullptr);
  EXPECT_EQ(problem.rfind(path_ + ":6: ", 0), 0U) << problem;
  EXPECT_EQ(LoadProfile(path_, &problem), nullptr);
  EXPECT_NE(problem, "");  // the second time, too
  EXPECT_EQ(AddToProfile(path_, place_, {{"B()", {2, 1, 1}}}).replaced, problem);
  EXPECT_EQ(Load()->entries.count("B()"), 1U);
}

TEST_F(ProfileFileTest, WhatIsNoFileIsRefused) {
  fs::create_directories(path_);
  std::string problem;
  EXPECT_EQ(LoadProfile(path_, &problem), nullptr);
  EXPECT_EQ(problem, path_ + ": is no file");
  EXPECT_EQ(AddToProfile(path_, place_, {}).problem, path_ + ": is a directory");
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);  // reading it would never end
  EXPECT_EQ(LoadProfile(path_, &problem), nullptr);
  EXPECT_EQ(problem, path_ + ": is no file");
  const std::string below = (directory_ / "file" / "p").string();
  ASSERT_EQ(WriteTextFile((directory_ / "file").string(), ""), "");
  EXPECT_NE(AddToProfile(below, place_, {}).problem.find("cannot be made"), std::string::npos);
}

TEST_F(ProfileFileTest, WritersAtTheSameTimeLoseNothing) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 8; ++i) {
        const std::string key = "A(" + std::to_string(8 * t + i) + ")";
        // On a slow disk one may wait longer for the others than it is ready to; then it is told so, and asks again.
        std::string problem = "has held it";
        while (problem.find("has held it") != std::string::npos) {
          problem = AddToProfile(path_, place_, {{key, {1, 1, 1}}}).problem;
        }
        EXPECT_EQ(problem, "");
        EXPECT_NE(LoadProfile(path_, &problem), nullptr);
        EXPECT_EQ(problem, "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Load()->entries.size(), 32U);
}

TEST_F(ProfileFileTest, TheDefaultPlaceFollowsTheEnvironment) {
  const char* const names[] = {"LMS_PROFILE_DIR", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::string> before;
  for (const char* name : names) before.emplace_back(std::getenv(name) == nullptr ? "" : std::getenv(name));
  ::setenv("LMS_PROFILE_DIR", "/d", 1);
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(DefaultProfilePath("CPU a/b cores 2"), "/d/CPU_a_b_cores_2.profile");
  ::unsetenv("LMS_PROFILE_DIR");
  EXPECT_EQ(DefaultProfilePath("CPU"), "/x/lms/profiles/CPU.profile");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(DefaultProfilePath("CPU"), "/h/.cache/lms/profiles/CPU.profile");
  ::unsetenv("HOME");
  EXPECT_EQ(DefaultProfilePath("CPU"), "");
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].empty()) {
      ::unsetenv(names[i]);
    } else {
      ::setenv(names[i], before[i].c_str(), 1);
    }
  }
}

}  // namespace
}  // namespace lms
