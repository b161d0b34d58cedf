#include "cc/core/spill/spill_queue.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <utility>

#include "cc/core/spill/spill_file.h"

namespace lms {
namespace {

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Blocks SIGXFSZ in this thread and in those that it starts.
class FileSizeSignalBlocked {
 public:
  FileSizeSignalBlocked() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~FileSizeSignalBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  FileSizeSignalBlocked(const FileSizeSignalBlocked&) = delete;
  FileSizeSignalBlocked& operator=(const FileSizeSignalBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct SpillQueue::Running {
  SpillJob job;
  Key key;
  bool begun = false;
  int chunks = 0;
  int next = 0;     // the chunk to claim
  int in_work = 0;  // threads that have a part of it in hand
  SpillStatus status;
};

SpillQueue::SpillQueue(int threads, int64_t buffer_bytes) : wanted_threads_(threads), buffer_bytes_(buffer_bytes) {}

SpillQueue::~SpillQueue() {
  std::map<Key, std::shared_ptr<Running>> dropped;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    for (auto& [key, running] : ready_) {
      if (running->status.ok()) running->status = SpillStatus::Cancelled();
      if (running->in_work == 0) dropped.insert({key, running});  // else the last thread that has it ends it
    }
    ready_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (auto& [key, running] : dropped) End(running.get());
}

bool SpillQueue::Start() {
  const FileSizeSignalBlocked blocked;
  while (static_cast<int>(threads_.size()) < wanted_threads_) {
    try {
      threads_.emplace_back([this] { Run(); });
    } catch (const std::exception&) {
      break;  // a limit of the process: those that run do the work
    }
  }
  return !threads_.empty();
}

void SpillQueue::Submit(SpillJob job) {
  auto running = std::make_shared<Running>();
  running->job = std::move(job);
  bool accepted = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    accepted = !stop_ && Start();
    if (accepted) {
      running->key = {running->job.deadline, next_number_++};
      ready_.emplace(running->key, running);
    }
  }
  if (accepted) {
    wake_.notify_one();
  } else {
    running->job.done({SpillCode::kFailed, "no thread could be started for the transfer"});
  }
}

SpillQueue::Times SpillQueue::times() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Times times = times_;
  if (active_ > 0) times.busy_seconds += Seconds(CLOCK_MONOTONIC) - active_since_;
  return times;
}

// Begins the job (chunk -1) or works on one chunk of it.
SpillStatus SpillQueue::Step(Running* running, int chunk, char* buffer) const {
  try {
    if (running->job.cancelled && running->job.cancelled()) return SpillStatus::Cancelled();
    if (chunk < 0) return running->job.begin(&running->chunks);
    if (buffer == nullptr) return {SpillCode::kFailed, "no memory for the buffer of a transfer"};
    return running->job.work(chunk, buffer);
  } catch (const std::exception& error) {
    return {SpillCode::kFailed, std::string("the transfer failed: ") + error.what()};
  }
}

// What the job's functions hold goes first, so that it is free when `done` is called.
void SpillQueue::End(Running* running) {
  const std::function<void(const SpillStatus&)> done = std::move(running->job.done);
  running->job = {};
  done(running->status);
}

void SpillQueue::Run() {
  const std::unique_ptr<char, decltype(&std::free)> buffer(
      static_cast<char*>(std::aligned_alloc(kSpillAlignment, static_cast<size_t>(buffer_bytes_))), &std::free);
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !ready_.empty(); });
    if (ready_.empty()) return;
    std::shared_ptr<Running> running = ready_.begin()->second;
    const int chunk = running->begun ? running->next++ : -1;
    if (chunk < 0 || running->next == running->chunks) ready_.erase(running->key);
    ++running->in_work;
    if (active_++ == 0) active_since_ = Seconds(CLOCK_MONOTONIC);
    lock.unlock();

    const double before = Seconds(CLOCK_THREAD_CPUTIME_ID);
    SpillStatus status = Step(running.get(), chunk, buffer.get());
    const double spent = Seconds(CLOCK_THREAD_CPUTIME_ID) - before;

    lock.lock();
    times_.processor_seconds += spent;
    if (--active_ == 0) times_.busy_seconds += Seconds(CLOCK_MONOTONIC) - active_since_;
    --running->in_work;
    if (!status.ok() && running->status.ok()) running->status = std::move(status);
    if (stop_ && running->status.ok() && running->next < running->chunks) running->status = SpillStatus::Cancelled();
    if (!running->status.ok()) {
      ready_.erase(running->key);
    } else if (chunk < 0) {
      running->begun = true;
      if (running->chunks > 0) {
        ready_.emplace(running->key, running);
        wake_.notify_all();
      }
    }
    const bool left = running->status.ok() && running->next < running->chunks;
    if (!left && running->in_work == 0) {
      lock.unlock();
      End(running.get());
      running.reset();
      lock.lock();
    }
  }
}

}  // namespace lms
