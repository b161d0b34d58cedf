// The threads that move the bytes: one queue per direction, of jobs that are worked in chunks.
//
// The most urgent job goes first (the smallest deadline; among equals the one that came first), chunk by chunk, so a
// more urgent one that comes later waits for a chunk, not for a job. Several threads work on the chunks of one job:
// one copies while another waits for the disk. A job whose `cancelled` says so is dropped at its next chunk.
//
// Threads start with the first job and sleep when there is none. SIGXFSZ is blocked in them (spill_file.h). The
// destructor ends what is under way, gives up the rest as cancelled, and joins the threads.
//
// Thread-safety: Submit from any thread, also from a job's own functions.

#ifndef LMS_CC_CORE_SPILL_SPILL_QUEUE_H_
#define LMS_CC_CORE_SPILL_SPILL_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/spill/spill_status.h"

namespace lms {

struct SpillJob {
  int64_t deadline = 0;
  std::function<bool()> cancelled;                           // may be empty; any thread
  std::function<SpillStatus(int* chunks)> begin;             // once, before any chunk
  std::function<SpillStatus(int chunk, char* buffer)> work;  // side by side for different chunks
  std::function<void(const SpillStatus& status)> done;       // once, when nothing of the job runs or exists any more
};

class SpillQueue {
 public:
  // What the threads have spent so far; both only grow.
  struct Times {
    double busy_seconds = 0;       // during which at least one of them had a chunk in hand
    double processor_seconds = 0;  // of all of them
  };

  // Each thread has a buffer of `buffer_bytes`, aligned to kSpillAlignment.
  SpillQueue(int threads, int64_t buffer_bytes);
  ~SpillQueue();
  SpillQueue(const SpillQueue&) = delete;
  SpillQueue& operator=(const SpillQueue&) = delete;

  void Submit(SpillJob job);
  Times times() const;
  int64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  struct Running;
  using Key = std::pair<int64_t, uint64_t>;  // deadline, number

  bool Start();  // with the mutex held: at least one thread runs
  void Run();
  SpillStatus Step(Running* running, int chunk, char* buffer) const;
  static void End(Running* running);

  const int wanted_threads_;
  const int64_t buffer_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<Key, std::shared_ptr<Running>> ready_;  // jobs with something left to claim
  std::vector<std::thread> threads_;
  uint64_t next_number_ = 0;
  bool stop_ = false;
  int active_ = 0;
  double active_since_ = 0;
  Times times_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_QUEUE_H_
