#include "cc/core/profile/link_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/base/text_file.h"

namespace lms {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNow = 1795257000;

SwapLink Link(double out, double in) {
  SwapLink link;
  link.out_bytes_per_us = out;
  link.in_bytes_per_us = in;
  link.out_share = 0.625;
  link.in_share = 0.375;
  link.latency_us = 150.5;
  link.compute_us_per_byte = 0.0002;
  return link;
}

class LinkFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / (std::string("lms_link_") + test->name());
    fs::remove_all(directory_);
    path_ = (directory_ / "deep" / "down.link").string();
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::optional<MeasuredLink> Find(const LinkKey& key, int64_t now = kNow, const std::string& device = "CPU x",
                                   const std::string& version = "0.1.0") {
    return FindLink(path_, device, version, key, now, &why_);
  }

  fs::path directory_;
  std::string path_;
  std::string why_;
  const LinkKey disk_{"disk", "254:1 /dev/vda1"};
  const LinkKey host_{"host", ""};
};

TEST_F(LinkFileTest, WhatIsStoredIsFound) {
  EXPECT_FALSE(Find(disk_));
  EXPECT_EQ(why_, "");
  EXPECT_EQ(StoreLink(path_, "CPU x", "0.1.0", disk_, {Link(3400, 1700), kNow}), "");
  EXPECT_EQ(StoreLink(path_, "CPU x", "0.1.0", host_, {Link(12000, 13000), kNow + 1}), "");
  const std::optional<MeasuredLink> found = Find(disk_);
  ASSERT_TRUE(found) << why_;
  EXPECT_EQ(found->unix_seconds, kNow);
  EXPECT_EQ(found->link.out_bytes_per_us, 3400);
  EXPECT_EQ(found->link.in_bytes_per_us, 1700);
  EXPECT_EQ(found->link.out_share, 0.625);
  EXPECT_EQ(found->link.in_share, 0.375);
  EXPECT_EQ(found->link.latency_us, 150.5);
  EXPECT_EQ(found->link.compute_us_per_byte, 0.0002);
  EXPECT_EQ(Find(host_)->link.out_bytes_per_us, 12000);
  EXPECT_FALSE(Find({"disk", "another"}));
  EXPECT_EQ(StoreLink(path_, "CPU x", "0.1.0", disk_, {Link(1, 2), kNow}), "");
  EXPECT_EQ(Find(disk_)->link.out_bytes_per_us, 1);
  EXPECT_EQ(Find(host_)->link.out_bytes_per_us, 12000);
}

TEST_F(LinkFileTest, AFigureGrowsOld) {
  StoreLink(path_, "CPU x", "0.1.0", disk_, {Link(3400, 1700), kNow});
  EXPECT_TRUE(Find(disk_, kNow + kMostLinkAgeSeconds));
  EXPECT_FALSE(Find(disk_, kNow + kMostLinkAgeSeconds + 1));
  EXPECT_NE(why_.find("more than a day ago"), std::string::npos) << why_;
  EXPECT_FALSE(Find(disk_, kNow - kMostLinkAgeSeconds - 1));  // by a clock that was wrong
}

TEST_F(LinkFileTest, AnotherPlacesFigureIsNotTaken) {
  StoreLink(path_, "CPU x", "0.1.0", disk_, {Link(3400, 1700), kNow});
  EXPECT_FALSE(Find(disk_, kNow, "CPU y"));
  EXPECT_NE(why_.find("measured on CPU x, this is CPU y"), std::string::npos) << why_;
  EXPECT_FALSE(Find(disk_, kNow, "CPU x", "0.2.0"));
  EXPECT_NE(why_.find("measured with lms 0.1.0"), std::string::npos) << why_;
  EXPECT_EQ(StoreLink(path_, "CPU y", "0.1.0", host_, {Link(1, 2), kNow}), "");
  EXPECT_FALSE(Find(disk_, kNow, "CPU y"));
  EXPECT_TRUE(Find(host_, kNow, "CPU y"));
}

TEST_F(LinkFileTest, ADamagedFileIsRefusedAndReplaced) {
  StoreLink(path_, "CPU x", "0.1.0", disk_, {Link(3400, 1700), kNow});
  std::string text;
  ASSERT_EQ(ReadTextFile(path_, &text), "");
  for (size_t cut = 1; cut < text.size(); ++cut) {
    ASSERT_EQ(WriteTextFile(path_, text.substr(0, cut)), "");
    const std::optional<MeasuredLink> found = Find(disk_);
    // A number that has lost its end may still be one; nothing else may.
    if (found) {
      EXPECT_GT(cut, text.size() - 11);
    }
  }
  ASSERT_EQ(WriteTextFile(path_, text.substr(0, text.size() - 20)), "");
  EXPECT_FALSE(Find(disk_));
  EXPECT_EQ(why_.rfind(path_ + ":4: ", 0), 0U) << why_;
  EXPECT_EQ(StoreLink(path_, "CPU x", "0.1.0", host_, {Link(1, 2), kNow}), "");
  EXPECT_TRUE(Find(host_));
}

TEST_F(LinkFileTest, LinesThatAreWrong) {
  const std::string head = "lms-link 1\ndevice x\nlms 1\n";
  LinkFile file;
  EXPECT_EQ(ParseLinkFile(head + "link disk a 1 1 1 1 0 0 5\n", "f", &file), "");
  EXPECT_EQ(file.links.size(), 1U);
  for (const char* line : {"link disk a 0 1 1 1 0 0 5", "link disk a 1 1 0 1 0 0 5", "link disk a 1 1 1.5 1 0 0 5",
                           "link tape a 1 1 1 1 0 0 5", "link disk a 1 1 1 1 0 0", "link disk a 1 1 1 1 0 x 5",
                           "link disk a 1 -1 1 1 0 0 5", "link disk a 1 1 1 1 0 0 soon", "device y", "speed 5",
                           "link disk a 1 1 1 1 0 0 5\nlink disk a 1 1 1 1 0 0 5"}) {
    EXPECT_NE(ParseLinkFile(head + line + "\n", "f", &file), "") << line;
  }
  EXPECT_NE(ParseLinkFile("lms-link 2\ndevice x\n", "f", &file), "");
  EXPECT_NE(ParseLinkFile("lms-profile 1\ndevice x\n", "f", &file), "");
  EXPECT_NE(ParseLinkFile("", "f", &file), "");
  EXPECT_NE(ParseLinkFile("lms-link 1\n", "f", &file), "");
  EXPECT_EQ(file.links.size(), 1U);  // nothing was taken
}

TEST_F(LinkFileTest, WhatCannotBeIsMadePlausible) {
  const double nan = std::nan("");
  SwapLink odd;
  odd.out_bytes_per_us = nan;
  odd.in_bytes_per_us = -5;
  odd.out_share = 1.25;
  odd.in_share = 0;
  odd.latency_us = std::numeric_limits<double>::infinity();
  odd.capacity_bytes = 77;
  const SwapLink link = Plausible(odd);
  EXPECT_FALSE(link.usable());
  EXPECT_EQ(link.out_share, 1);
  EXPECT_GT(link.in_share, 0);
  EXPECT_EQ(link.latency_us, 0);
  EXPECT_EQ(link.capacity_bytes, 77);
}

TEST_F(LinkFileTest, WritersAtTheSameTimeLoseNothing) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 4; ++i) {
        // On a slow disk one may wait longer for the others than it is ready to; then it is told so, and asks again.
        std::string problem = "has held it";
        while (problem.find("has held it") != std::string::npos) {
          problem = StoreLink(path_, "CPU x", "0.1.0", {"disk", std::to_string(4 * t + i)}, {Link(1, 2), kNow});
        }
        EXPECT_EQ(problem, "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(Find({"disk", std::to_string(i)})) << i;
}

TEST_F(LinkFileTest, ProblemsAreWords) {
  EXPECT_NE(StoreLink("", "CPU x", "0.1.0", disk_, {Link(1, 2), kNow}), "");
  fs::create_directories(directory_);
  ASSERT_EQ(WriteTextFile((directory_ / "file").string(), ""), "");
  EXPECT_NE(StoreLink((directory_ / "file" / "l").string(), "CPU x", "0.1.0", disk_, {Link(1, 2), kNow}), "");
  fs::create_directories(path_);
  EXPECT_FALSE(Find(disk_));
  EXPECT_NE(why_, "");
}

}  // namespace
}  // namespace lms
