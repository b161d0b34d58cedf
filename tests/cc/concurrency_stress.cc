// Everything that the process shares, from many threads at once: lms_concurrency_stress [ROUNDS]
//
// Threads optimise graphs through optimizers of their own, while others read and clear reports, count memory, write and
// read what is spilled, merge profile files, switch failures on and off. Checked: each graph is rewritten whole
// or not at all; what is spilled comes back; no profile entry is lost; it ends. For
// races, ./run sanitize thread runs it under ThreadSanitizer. Without TensorFlow the parts of the core alone.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/profile/profile_file.h"
#include "cc/core/report/report_store.h"
#include "cc/core/spill/spill_store.h"

#ifdef LMS_STRESS_TENSORFLOW
#include "cc/core/base/fault_injection.h"
#include "cc/tf/pass/optimizer.h"
#include "cc/tf/runtime/memory_counter.h"
#include "tensorflow/core/framework/allocator.h"
#include "tests/cc/tf/graph_builder.h"
#endif

namespace lms {
namespace {

std::atomic<int> failures{0};

void Check(bool good, const char* what) {
  if (good) return;
  ++failures;
  std::printf("%s\n", what);
}

class Stress {
 public:
  explicit Stress(int rounds)
      : rounds_(rounds), directory_(std::filesystem::temp_directory_path() / ("lms_stress_" + std::to_string(rounds))) {
    std::filesystem::create_directories(directory_);
  }
  ~Stress() { std::filesystem::remove_all(directory_); }
  Stress(const Stress&) = delete;
  Stress& operator=(const Stress&) = delete;

  void Run() {
    std::vector<std::thread> works;
    std::vector<std::thread> meanwhile;
    for (int t = 0; t < 3; ++t) works.emplace_back([this, t] { Spill(t); });
    for (int t = 0; t < 2; ++t) works.emplace_back([this, t] { AddProfiles(t); });
    for (int t = 0; t < 2; ++t) works.emplace_back([this, t] { AddReports(t); });
    meanwhile.emplace_back([this] { ReadReports(); });
    meanwhile.emplace_back([this] { ReadSpilling(); });
#ifdef LMS_STRESS_TENSORFLOW
    for (int t = 0; t < 4; ++t) works.emplace_back([this] { Optimize(); });
    works.emplace_back([this] { Allocate(); });
    meanwhile.emplace_back([this] { Count(); });
    meanwhile.emplace_back([this] { Fail(); });
#endif
    for (std::thread& thread : works) thread.join();
    done_ = true;
    for (std::thread& thread : meanwhile) thread.join();
    CheckProfile();
  }

 private:
  void Spill(int seed) {
    SpillStore& store = SharedSpillStore(directory_.string());
    for (int round = 0; round < rounds_; ++round) {
      std::vector<char> data(100000 + 1000 * round + seed, static_cast<char>(round * 7 + seed));
      std::promise<SpillHandle> written;
      store.Write(data.data(), static_cast<int64_t>(data.size()), {},
                  [&written](const SpillStatus& status, SpillHandle entry) {
                    Check(status.ok(), "a write failed");
                    written.set_value(std::move(entry));
                  });
      SpillHandle entry = written.get_future().get();
      if (entry == nullptr) continue;
      std::vector<char> back(data.size());
      std::promise<void> read;
      store.Read(entry, back.data(), {}, [&read](const SpillStatus& status) {
        Check(status.ok(), "a read failed");
        read.set_value();
      });
      read.get_future().get();
      Check(back == data, "other bytes came back");
    }
  }

  void ReadSpilling() {
    while (!done_) {
      Check(SharedSpillStatistics().stored_bytes >= 0, "less than nothing is stored");
      ResetSharedSpillStatistics();
      TrimSharedSpillStores();
      std::this_thread::yield();
    }
  }

  std::string ProfilePath() const { return (directory_ / "stress.profile").string(); }

  void AddProfiles(int t) {
    for (int round = 0; round < rounds_; ++round) {
      const std::string key = "Op" + std::to_string(t) + "_" + std::to_string(round) + "()";
      Check(AddToProfile(ProfilePath(), Place(), {{key, {1.0, 1.0, 1}}}).problem.empty(), "a profile was not written");
    }
  }

  static ProfilePlace Place() {
    ProfilePlace place;
    place.device = "stress";
    place.tensorflow = "2";
    return place;
  }

  void CheckProfile() {
    std::string problem;
    const std::shared_ptr<const Profile> profile = LoadProfile(ProfilePath(), &problem);
    const size_t entries = profile == nullptr ? 0 : profile->entries.size();
    Check(entries == 2 * static_cast<size_t>(rounds_), "an entry of the profile was lost");
  }

  void AddReports(int t) {
    for (int round = 0; round < 20 * rounds_; ++round) {
      Report report;
      report.function = "f" + std::to_string(t);
      report.reason = "stress";
      report.sequence = round % 2 == 0 ? ReportStore::Global().NextSequence() : 0;
      ReportStore::Global().Add(std::move(report));
    }
  }

  void ReadReports() {
    while (!done_) {
      int64_t last = 0;
      for (const Report& report : ReportStore::Global().All()) last = std::max(last, report.sequence);
      ReportStore::Global().SetMeasured(last, 1, 1, "");
      ReportStore::Global().Latest("f1");
      if (last % 5 == 0) ReportStore::Global().Clear();
      std::this_thread::yield();
    }
  }

#ifdef LMS_STRESS_TENSORFLOW
  // Plans may differ where the clock ends the search; what is handed out must be whole.
  void Optimize() {
    const tensorflow::grappler::GrapplerItem step = lms::testing::TrainChain(8);
    tensorflow::RewriterConfig_CustomGraphOptimizer config;
    (*config.mutable_parameter_map())["memory_budget"].set_s("60%");
    (*config.mutable_parameter_map())["planner_seconds"].set_f(0.01F);
    (*config.mutable_parameter_map())["profile"].set_s(ProfilePath());
    tensorflow::ConfigProto proto;
    proto.mutable_graph_options()->mutable_rewrite_options()->set_meta_optimizer_iterations(
        tensorflow::RewriterConfig::ONE);
    for (int round = 0; round < rounds_; ++round) {
      LmsOptimizer optimizer;
      Check(optimizer.InitWithConfig(proto, &config).ok(), "Init fails");
      tensorflow::GraphDef output;
      const absl::Status status = optimizer.Optimize(nullptr, step, &output);
      Check(status.ok() || absl::IsAborted(status), "Optimize fails");
      // A plan may do without new nodes.
      const int least = status.ok() ? step.graph.node_size() : 0;
      Check(output.node_size() >= least && (status.ok() || output.node_size() == 0), "half a rewrite");
    }
  }

  // As TensorFlow does, which reads the allocator's virtual table without a lock while counting begins and puts another
  // in its place: a word that is written at once. ThreadSanitizer does not look at TensorFlow, nor here.
  __attribute__((no_sanitize("thread"))) void Allocate() {
    for (int round = 0; round < 200 * rounds_; ++round) {
      void* const memory = tensorflow::cpu_allocator()->AllocateRaw(64, 4096);
      tensorflow::cpu_allocator()->DeallocateRaw(memory);
    }
  }

  void Count() {
    while (!done_) {
      Check(StartCounting().empty(), "memory is not counted");
      ResetPeak();
      Check(PeakBytes() >= 0, "a peak below zero");
      if (BeginPeakScope()) Check(EndPeakScope() >= 0, "a rise below zero");
      std::this_thread::yield();
    }
  }

  void Fail() {
    while (!done_) {
      for (const char* stage : {"plan", "", "sums", "", "verify", "", "options", ""}) {
        InjectFailure(stage);
        std::this_thread::yield();
      }
    }
    InjectFailure("");
  }
#endif

  const int rounds_;
  const std::filesystem::path directory_;
  std::atomic<bool> done_{false};
};

}  // namespace
}  // namespace lms

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 20;
  lms::Stress(rounds).Run();
  std::printf("%d rounds: %d failures\n", rounds, lms::failures.load());
  return lms::failures == 0 ? 0 : 1;
}
