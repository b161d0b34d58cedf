#include "cc/core/spill/spill_measure.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/spill/spill_store.h"
#include "cc/core/system/directory_facts.h"

namespace lms {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 3;
constexpr double kRunUs = 50e3;    // of each run
constexpr double kPieceUs = 10e3;  // of one transfer: several of them make a run
constexpr int64_t kLeastPiece = int64_t{256} << 10;
constexpr int64_t kMostPiece = int64_t{16} << 20;
constexpr int kSlots = 2;            // pieces in turn, so that they do not come from the nearest caches
constexpr double kMostShares = 1.4;  // of both directions at once: below what SwapLink takes for two lanes
constexpr int kSmall = 8;            // small transfers each way

// Of a few runs: whatever disturbs one makes it slower.
double Highest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more than a cpu_set_t has room for
}

// Keeps all processors busy, each with a memory of its own, as long as it lives.
class BusyProcessors {
 public:
  BusyProcessors() {
    for (int i = Processors(); i > 0 && Start(); --i) {
    }
  }
  ~BusyProcessors() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  BusyProcessors(const BusyProcessors&) = delete;
  BusyProcessors& operator=(const BusyProcessors&) = delete;

 private:
  // False where the process may have no more threads: fewer are busy, then.
  bool Start() {
    try {
      threads_.emplace_back([this] { Run(); });
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void Run() const {
    std::vector<float> values(size_t{1} << 18, 1);
    while (!stop_) {
      for (float& value : values) value = value * 0.5f + 1;
    }
  }

  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// A transfer, waited for.
class Waiter {
 public:
  void Set(const SpillStatus& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    set_ = true;
    changed_.notify_all();  // under the lock: afterwards the one who waits may destroy this
  }
  SpillStatus Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
  SpillStatus status_;
};

// One direction: transfers of `piece` bytes, one after the other, two places in turn.
struct Way {
  std::function<SpillStatus(int slot)> transfer;
  double bytes_per_us = 0;
  SpillStatus status;

  // For at least `microseconds`, and one transfer.
  void Run(int64_t piece, double microseconds) {
    const Clock::time_point begin = Clock::now();
    double elapsed = 0;
    int64_t moved = 0;
    for (int i = 0; status.ok() && (moved == 0 || elapsed < microseconds); ++i) {
      status = transfer(i % kSlots);
      moved += piece;
      elapsed = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }
    bytes_per_us = static_cast<double>(moved) / std::max(elapsed, 1e-3);
  }
};

class Meter {
 public:
  Meter(SpillFiles* files, const std::string& directory)
      : writers_(kSpillThreads, kSpillChunkBytes),
        readers_(kSpillThreads, kSpillChunkBytes),
        store_(directory, files, &writers_, &readers_, &counters_) {
    out_.transfer = [this](int slot) { return Write(kSlots + slot); };
    in_.transfer = [this](int slot) { return Read(slot); };
  }

  SwapLink Measure(int64_t bytes, std::string* problem) {
    const BusyProcessors busy;
    SwapLink link;
    // The file grows and the disk wakes up; then a guess of the speed.
    Prepare(kLeastPiece);
    Run(true, false, 0);
    const int64_t most = std::clamp(bytes / (2 * kSlots), kLeastPiece, kMostPiece);
    const auto guess = static_cast<int64_t>(std::min(out_.bytes_per_us * kPieceUs, static_cast<double>(most)));
    Prepare(std::max(guess, kLeastPiece) / kSpillAlignment * kSpillAlignment);
    Run(true, false, 0);
    std::vector<double> out;
    std::vector<double> in;
    std::vector<double> both_out;
    std::vector<double> both_in;
    const double processor_before = ProcessorSeconds();
    const int64_t moved_before = counters_.written_bytes + counters_.read_bytes;
    for (int round = 0; round < kRounds; ++round) {
      Run(true, false, kRunUs);
      out.push_back(out_.bytes_per_us);
      Run(false, true, kRunUs);
      in.push_back(in_.bytes_per_us);
      Run(true, true, kRunUs);
      both_out.push_back(out_.bytes_per_us);
      both_in.push_back(in_.bytes_per_us);
    }
    const double processor_us = 1e6 * (ProcessorSeconds() - processor_before);
    const int64_t moved = counters_.written_bytes + counters_.read_bytes - moved_before;
    Prepare(kSpillAlignment);
    std::vector<double> small;
    for (int i = 0; i < kSmall; ++i) {
      Run(true, false, 0);
      Run(false, true, 0);
      small.push_back(static_cast<double>(kSpillAlignment) / out_.bytes_per_us);
      small.push_back(static_cast<double>(kSpillAlignment) / in_.bytes_per_us);
    }
    for (const SpillStatus* status : {&prepared_, &out_.status, &in_.status}) {
      if (status->ok()) continue;
      *problem = status->message;
      return link;
    }
    link.out_bytes_per_us = Highest(out);
    link.in_bytes_per_us = Highest(in);
    // Both directions share a disk, and the processors that copy: figures that say otherwise are luck.
    const double out_share = Highest(both_out) / link.out_bytes_per_us;
    const double in_share = Highest(both_in) / link.in_bytes_per_us;
    const double scale = std::min(1.0, kMostShares / (out_share + in_share));
    link.out_share = std::min(1.0, scale * out_share);
    link.in_share = std::min(1.0, scale * in_share);
    link.latency_us = Median(small);
    link.compute_us_per_byte = processor_us / static_cast<double>(std::max<int64_t>(moved, 1));
    return link;
  }

 private:
  double ProcessorSeconds() const { return writers_.times().processor_seconds + readers_.times().processor_seconds; }

  // Transfers are of `piece` bytes from now on; the first slots hold what is read.
  void Prepare(int64_t piece) {
    piece_ = piece;
    source_.assign(static_cast<size_t>(kSlots * piece), 'l');
    target_.assign(static_cast<size_t>(kSlots * piece), 'm');
    for (int slot = 0; slot < kSlots && prepared_.ok(); ++slot) prepared_ = Write(slot);
  }

  void Run(bool out, bool in, double microseconds) {
    if (!prepared_.ok()) return;
    std::thread beside;
    if (out && in) {
      beside = std::thread([this, microseconds] { in_.Run(piece_, microseconds); });
    } else if (in) {
      in_.Run(piece_, microseconds);
    }
    if (out) out_.Run(piece_, microseconds);
    if (beside.joinable()) beside.join();
  }

  SpillStatus Write(int slot) {
    Waiter waiter;
    stored_[slot] = nullptr;
    store_.Write(source_.data() + slot % kSlots * piece_, piece_, {},
                 [this, slot, &waiter](const SpillStatus& status, SpillHandle entry) {
                   stored_[slot] = std::move(entry);
                   waiter.Set(status);
                 });
    return waiter.Wait();
  }

  SpillStatus Read(int slot) {
    Waiter waiter;
    store_.Read(stored_[slot], target_.data() + slot * piece_, {},
                [&waiter](const SpillStatus& status) { waiter.Set(status); });
    return waiter.Wait();
  }

  SpillCounters counters_;
  SpillQueue writers_;
  SpillQueue readers_;
  SpillStore store_;
  int64_t piece_ = 0;
  std::vector<char> source_;
  std::vector<char> target_;
  std::array<SpillHandle, 2 * kSlots> stored_;  // to read, and as they were written last
  SpillStatus prepared_;
  Way out_;
  Way in_;
};

}  // namespace

SwapLink MeasureSpill(SpillFiles* files, const std::string& directory, int64_t bytes, std::string* problem) {
  const std::string place = directory.empty() ? DirectoryForSpilling() : directory;
  try {
    SwapLink link = Meter(files, place).Measure(bytes, problem);
    const int64_t free_bytes = files->FreeBytes(place);
    if (free_bytes >= 0) link.capacity_bytes = free_bytes;
    return link;
  } catch (const std::exception& error) {
    *problem = std::string("what ") + place + " can take could not be measured: " + error.what();
    return {};
  }
}

SwapLink MeasureSpill(const std::string& directory, int64_t bytes, std::string* problem) {
  return MeasureSpill(SystemSpillFiles(), directory, bytes, problem);
}

}  // namespace lms
