#include "cc/tf/pass/swap_choice.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>

#include "cc/core/base/text_file.h"
#include "cc/core/base/waited.h"
#include "lms_build_facts.h"
#include "tensorflow/core/grappler/clusters/virtual_cluster.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

namespace fs = std::filesystem;

constexpr char kGpu[] = "/job:localhost/replica:0/task:0/device:GPU:0";
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kNow = 1795257000;  // 2026-11-21

// Each test has a place of its own for what is kept, and a file system of its own.
class SwapChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / (std::string("lms_swap_") + test->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    for (const char* name : {"LMS_PROFILE_DIR", "TF_GPU_HOST_MEM_LIMIT_IN_MB", "LMS_SPILL_DIR"}) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? "" : value;
      ::unsetenv(name);
    }
    ::setenv("LMS_PROFILE_DIR", (directory_ / "profiles").c_str(), 1);
    facts_.free_bytes = 50 * kGiB;
    facts_.file_system = test->name();
    measured_.out_bytes_per_us = 3400;
    measured_.in_bytes_per_us = 1700;
    measured_.out_share = 0.6;
    measured_.in_share = 0.4;
    measured_.latency_us = 100;
    measured_.compute_us_per_byte = 0.0002;
    probes_.look = [this](const std::string& directory) {
      looked_at_ = directory;
      return facts_;
    };
    probes_.measure_disk = [this](const std::string&, int64_t bytes, std::string* problem) {
      ++measurements_;
      EXPECT_GT(bytes, 0);
      EXPECT_LE(bytes, facts_.free_bytes / 2);
      *problem = problem_;
      return problem_.empty() ? measured_ : SwapLink();
    };
    probes_.memory_bytes = [] { return 200 * kGiB; };
    probes_.spilled_bytes = [] { return int64_t{0}; };
    probes_.now = [this] { return now_; };
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value.empty()) {
        ::unsetenv(name.c_str());
      } else {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
    }
    fs::remove_all(directory_);
  }

  ChosenSwap Choose(const OptionMap& map, const std::string& device = testing::kCpu,
                    const tensorflow::grappler::Cluster* cluster = nullptr) {
    Options options;
    for (const std::string& problem : ParseOptions(map, &options)) ADD_FAILURE() << problem;
    const SwapProbes probes = probes_;  // a test may give others meanwhile
    return ChooseSwap(options, device, cluster, probes);
  }
  ChosenSwap ToDisk() { return Choose({{"swap_to", std::string("/spill")}}); }

  fs::path directory_;
  std::unordered_map<std::string, std::string> before_;
  DirectoryFacts facts_;
  SwapLink measured_;
  std::string problem_;
  SwapProbes probes_;
  std::string looked_at_;
  int measurements_ = 0;
  int64_t now_ = kNow;
};

TEST_F(SwapChoiceTest, ACpusMemoryIsTheHosts) {
  const ChosenSwap chosen = Choose({});
  EXPECT_EQ(chosen.tier, "");
  EXPECT_FALSE(chosen.link.usable());
  EXPECT_EQ(chosen.problem, "");
  EXPECT_EQ(chosen.note,
            "nothing is swapped: a CPU's memory is the host's; swap_to=\"disk\" (or a directory) swaps to a file");
  Report report;
  NoteSwap(chosen, &report);
  EXPECT_EQ(report.swap_note, chosen.note);
  EXPECT_TRUE(report.warnings.empty());  // that is no fault
  EXPECT_EQ(measurements_, 0);
}

TEST_F(SwapChoiceTest, OffIsOff) {
  const ChosenSwap chosen = Choose({{"swap", false}, {"swap_to", std::string("disk")}});
  EXPECT_EQ(chosen.tier, "");
  EXPECT_EQ(chosen.note, "nothing is swapped: swap=False");
  EXPECT_EQ(looked_at_, "");
}

TEST_F(SwapChoiceTest, OtherDevicesSwapNothing) {
  const ChosenSwap chosen = Choose({{"swap_to", std::string("disk")}}, "/job:localhost/replica:0/task:0/device:TPU:0");
  EXPECT_EQ(chosen.tier, "");
  EXPECT_NE(chosen.note.find("TPU:0"), std::string::npos);
}

TEST_F(SwapChoiceTest, TheDiskIsMeasuredOnceAndKept) {
  const ChosenSwap first = ToDisk();
  EXPECT_EQ(first.problem, "");
  EXPECT_EQ(first.tier, "disk");
  EXPECT_EQ(first.directory, "/spill");
  EXPECT_EQ(first.link.out_bytes_per_us, 3400);
  EXPECT_EQ(first.limit_bytes, 45 * kGiB);  // a tenth of 50 stays free
  EXPECT_EQ(first.link.capacity_bytes, first.limit_bytes);
  EXPECT_EQ(first.link_text, "3.4 GB/s out, 1.7 GB/s in, one at a time (measured now)");
  EXPECT_TRUE(first.warnings.empty());
  const ChosenSwap second = ToDisk();
  EXPECT_EQ(measurements_, 1);
  EXPECT_EQ(second.link_text, "3.4 GB/s out, 1.7 GB/s in, one at a time (measured on 2026-11-21)");
  EXPECT_EQ(second.link.compute_us_per_byte, 0.0002);
  facts_.file_system += " another";
  ToDisk();
  EXPECT_EQ(measurements_, 2);
}

TEST_F(SwapChoiceTest, AnOldOrDamagedFigureIsMeasuredAgain) {
  ToDisk();
  const std::string path = DefaultLinkPath(LinkPlace("", nullptr));
  ASSERT_TRUE(fs::exists(path));
  ASSERT_EQ(WriteTextFile(path, "lms-link 1\nnonsense\n"), "");
  // This process still knows; a file that is damaged is replaced when something is measured next.
  EXPECT_EQ(ToDisk().link.out_bytes_per_us, 3400);
  EXPECT_EQ(measurements_, 1);
  facts_.file_system += " another";
  const ChosenSwap chosen = ToDisk();
  EXPECT_EQ(measurements_, 2);
  EXPECT_NE(chosen.link_text.find("measured now, as " + path + ":2: there is no statement"), std::string::npos)
      << chosen.link_text;
  std::string text;
  ASSERT_EQ(ReadTextFile(path, &text), "");
  EXPECT_NE(text.find("another"), std::string::npos);
  now_ += kMostLinkAgeSeconds + 1;
  EXPECT_NE(ToDisk().link_text.find("more than a day ago"), std::string::npos);
  EXPECT_EQ(measurements_, 3);
}

TEST_F(SwapChoiceTest, AFigureThatCannotBeKeptIsGoodForTheProcess) {
  ASSERT_EQ(WriteTextFile((directory_ / "profiles").string(), ""), "");  // a file where the directory should be
  const ChosenSwap chosen = ToDisk();
  EXPECT_EQ(chosen.tier, "disk");
  ASSERT_EQ(chosen.warnings.size(), 1U);
  EXPECT_NE(chosen.warnings[0].find("cannot be kept"), std::string::npos);
  EXPECT_TRUE(ToDisk().warnings.empty());
  EXPECT_EQ(measurements_, 1);
}

TEST_F(SwapChoiceTest, BandwidthsThatAreGivenAreNotMeasured) {
  const ChosenSwap both = Choose({{"swap_to", std::string("disk")},
                                  {"swap_out_bandwidth", std::string("2GB")},
                                  {"swap_in_bandwidth", std::string("1GB")}});
  EXPECT_EQ(measurements_, 0);
  EXPECT_EQ(both.link.out_bytes_per_us, 2000);
  EXPECT_EQ(both.link.in_bytes_per_us, 1000);
  EXPECT_TRUE(both.link.one_lane());
  EXPECT_NE(both.link_text.find("(as given)"), std::string::npos);
  const ChosenSwap one = Choose({{"swap_to", std::string("disk")}, {"swap_in_bandwidth", 5e8}});
  EXPECT_EQ(measurements_, 1);
  EXPECT_EQ(one.link.out_bytes_per_us, 3400);
  EXPECT_EQ(one.link.in_bytes_per_us, 500);
  EXPECT_NE(one.link_text.find("(in as given, else measured now)"), std::string::npos) << one.link_text;
}

TEST_F(SwapChoiceTest, WhatIsWrongWithADirectoryIsSaid) {
  facts_.problem = "/spill: no file can be made there: Permission denied";
  const ChosenSwap chosen = ToDisk();
  EXPECT_EQ(chosen.tier, "");
  EXPECT_FALSE(chosen.link.usable());
  EXPECT_NE(chosen.problem.find("Permission denied: set swap_to"), std::string::npos);
  Report report;
  NoteSwap(chosen, &report);
  EXPECT_EQ(report.swap_note, chosen.problem);
  EXPECT_EQ(report.warnings, std::vector<std::string>{chosen.problem});
}

TEST_F(SwapChoiceTest, AMeasurementThatFails) {
  problem_ = "/spill: disk full";
  const ChosenSwap chosen = ToDisk();
  EXPECT_EQ(chosen.tier, "");
  EXPECT_EQ(chosen.problem, "nothing is swapped: /spill: disk full");
  problem_.clear();
  EXPECT_EQ(ToDisk().tier, "disk");  // nothing of it was kept
  measured_.in_bytes_per_us = 0;
  facts_.file_system += " another";
  EXPECT_NE(ToDisk().problem.find("could not be measured"), std::string::npos);
}

TEST_F(SwapChoiceTest, AFullDiskIsToldBeforeAnythingIsMeasured) {
  facts_.free_bytes = 4096;
  const ChosenSwap chosen = ToDisk();
  EXPECT_EQ(measurements_, 0);
  EXPECT_EQ(chosen.tier, "");
  EXPECT_NE(chosen.problem.find("/spill has 3.60 KiB to give"), std::string::npos) << chosen.problem;
}

TEST_F(SwapChoiceTest, ADiskThatIsNearlyFullIsMeasuredWithLess) {
  facts_.free_bytes = int64_t{16} << 20;
  EXPECT_EQ(ToDisk().tier, "disk");
  EXPECT_EQ(measurements_, 1);
}

TEST_F(SwapChoiceTest, ADirectoryInMemoryIsWarnedOf) {
  facts_.in_memory = true;
  const ChosenSwap chosen = ToDisk();
  EXPECT_EQ(chosen.tier, "disk");
  ASSERT_EQ(chosen.warnings.size(), 1U);
  EXPECT_NE(chosen.warnings[0].find("saves none"), std::string::npos);
}

TEST_F(SwapChoiceTest, TheDirectoryOfDisk) {
  ::setenv("LMS_SPILL_DIR", "/elsewhere", 1);
  EXPECT_EQ(Choose({{"swap_to", std::string("disk")}}).directory, "/elsewhere");
  EXPECT_EQ(Choose({{"swap_to", std::string("./here/../there")}}).directory, (fs::current_path() / "there").string());
}

TEST_F(SwapChoiceTest, LimitsOfTheUsers) {
  const ChosenSwap chosen = Choose({{"swap_to", std::string("disk")}, {"swap_disk_limit", std::string("8GiB")}});
  EXPECT_EQ(chosen.link.capacity_bytes, 8 * kGiB);
  EXPECT_NE(SwapLimitWarning(9 * kGiB, chosen.limits).find("swap_disk_limit"), std::string::npos);
}

// A disk that answers when it is told to.
class SlowDisk {
 public:
  explicit SlowDisk(SwapProbes* probes) {
    probes->measure_disk = [state = state_, measure = probes->measure_disk](const std::string& directory, int64_t bytes,
                                                                            std::string* problem) {
      state->asked.set_value();
      state->answers.get_future().wait();
      return measure(directory, bytes, problem);
    };
  }
  void WaitUntilAsked() { state_->asked.get_future().wait(); }
  void Answer() { state_->answers.set_value(); }

 private:
  struct State {
    std::promise<void> asked;
    std::promise<void> answers;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST_F(SwapChoiceTest, WhoNeedsNoMeasurementWaitsForNone) {
  ToDisk();  // known from now on
  const std::string known = facts_.file_system;
  const SwapProbes others = probes_;
  probes_.most_seconds = 1e3;
  SlowDisk disk(&probes_);
  facts_.file_system += " slow";
  auto slow = std::async(std::launch::async, [this] { return ToDisk(); });
  disk.WaitUntilAsked();
  facts_.file_system = known;
  probes_ = others;
  auto quick = std::async(std::launch::async, [this] { return ToDisk(); });
  const bool waited = quick.wait_for(std::chrono::seconds(30)) != std::future_status::ready;
  disk.Answer();
  EXPECT_FALSE(waited);
  EXPECT_EQ(quick.get().tier, "disk");
  EXPECT_EQ(slow.get().tier, "disk");
  EXPECT_EQ(measurements_, 2);
}

TEST_F(SwapChoiceTest, ADiskThatDoesNotAnswerIsNotWaitedForForEver) {
  const SwapProbes others = probes_;
  probes_.most_seconds = 0.01;
  SlowDisk disk(&probes_);
  const double before = Waited();
  const ChosenSwap nowhere = ToDisk();
  EXPECT_EQ(nowhere.tier, "");
  EXPECT_EQ(nowhere.problem, "nothing is swapped: /spill: what the way there carries could not be measured in 0.01 s");
  EXPECT_GE(Waited() - before, 0.01);  // which deadlines see
  // Who comes meanwhile waits for that one, and no longer.
  EXPECT_EQ(ToDisk().problem, nowhere.problem);
  EXPECT_EQ(measurements_, 0);
  disk.Answer();
  probes_ = others;
  EXPECT_EQ(ToDisk().tier, "disk");
  EXPECT_EQ(measurements_, 2);  // the late one came to nothing
}

TEST_F(SwapChoiceTest, AGpuSwapsToTheHostAndIsTakenToBeSlowUntilItIsMeasured) {
  const ChosenSwap assumed = Choose({}, kGpu);
  EXPECT_EQ(assumed.problem, "");
  EXPECT_EQ(assumed.tier, "host");
  EXPECT_EQ(assumed.directory, "");
  EXPECT_EQ(assumed.link.out_bytes_per_us, 6000);
  EXPECT_EQ(assumed.link.in_bytes_per_us, 6000);
  EXPECT_TRUE(assumed.link.one_lane());
  EXPECT_NE(assumed.link_text.find("(assumed, not measured)"), std::string::npos);
  EXPECT_EQ(assumed.limit_bytes, 64 * kGiB);
  EXPECT_TRUE(NeedsHostLink(kGpu));
  SwapLink link;
  EXPECT_NE(StoreHostLink(kGpu, link), "");
  link.out_bytes_per_us = 12000;
  link.in_bytes_per_us = 13000;
  link.out_share = link.in_share = 0.9;
  EXPECT_EQ(StoreHostLink(kGpu, link), "");
  EXPECT_FALSE(NeedsHostLink(kGpu));
  now_ = std::time(nullptr);
  const ChosenSwap measured = Choose({}, kGpu);
  EXPECT_EQ(measured.link.out_bytes_per_us, 12000);
  EXPECT_FALSE(measured.link.one_lane());
  EXPECT_EQ(measured.link_text.rfind("12 GB/s out, 13 GB/s in (measured on ", 0), 0U) << measured.link_text;
  // To the disk it goes by way of the host: at the speed of the slower one.
  const ChosenSwap through = Choose({{"swap_to", std::string("disk")}}, kGpu);
  EXPECT_EQ(through.link.out_bytes_per_us, 3400);
  EXPECT_EQ(through.link.compute_us_per_byte, 0);
}

TEST_F(SwapChoiceTest, ThePinnedPoolIsALimit) {
  ::setenv("TF_GPU_HOST_MEM_LIMIT_IN_MB", "2048", 1);
  EXPECT_EQ(Choose({}, kGpu).limit_bytes, 2 * kGiB);
  EXPECT_EQ(Choose({{"swap_host_limit", kGiB}}, kGpu).limit_bytes, kGiB);
  probes_.memory_bytes = [] { return int64_t{1} << 20; };
  EXPECT_EQ(Choose({}, kGpu).tier, "");
}

TEST_F(SwapChoiceTest, ADescribedHostHasWhatTheDescriptionSays) {
  tensorflow::DeviceProperties gpu;
  gpu.set_type("GPU");
  tensorflow::DeviceProperties host;
  host.set_type("CPU");
  host.set_memory_size(40 * kGiB);
  const tensorflow::grappler::VirtualCluster cluster({{kGpu, gpu}, {testing::kCpu, host}});
  probes_.memory_bytes = [] { return 8 * kGiB; };
  EXPECT_EQ(Choose({}, kGpu, &cluster).limit_bytes, 36 * kGiB);  // less a tenth
  const tensorflow::grappler::VirtualCluster alone({{kGpu, gpu}});
  EXPECT_EQ(Choose({}, kGpu, &alone).limit_bytes, Choose({}, kGpu).limit_bytes);
  EXPECT_LE(Choose({}, kGpu).limit_bytes, 8 * kGiB);
}

TEST_F(SwapChoiceTest, AGpuIsKnownByItsTypeAndModel) {
  tensorflow::DeviceProperties properties;
  properties.set_type("GPU");
  properties.set_vendor("NVIDIA");
  properties.set_model("Fake 1");
  const tensorflow::grappler::VirtualCluster cluster({{kGpu, properties}});
  EXPECT_EQ(LinkPlace(kGpu, &cluster), "GPU NVIDIA Fake 1");
  EXPECT_EQ(LinkPlace(kGpu, nullptr).rfind("GPU", 0), 0U);
  EXPECT_EQ(LinkPlace(testing::kCpu, &cluster).rfind("CPU", 0), 0U);
}

}  // namespace
}  // namespace lms
