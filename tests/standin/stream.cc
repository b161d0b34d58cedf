#include "tests/standin/stream.h"

#include <random>
#include <utility>

#include "tests/standin/settings.h"
#include "tests/standin/trace.h"

namespace standin {

void Jitter() {
  if (Get().jitter_us <= 0) return;
  thread_local std::mt19937 random(std::random_device{}());
  constexpr uint32_t kOneIn = 8;
  if (random() % kOneIn != 0) return;
  std::uniform_real_distribution<double> late(0, Get().jitter_us);
  std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(late(random)));
}

void Mark::Reach() {
  const std::lock_guard<std::mutex> lock(mutex_);
  reached_ = true;
  changed_.notify_all();
}

void Mark::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

bool Mark::Reached() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return reached_;
}

}  // namespace standin

SP_Stream_st::SP_Stream_st() : thread_([this] { Loop(); }) {}

SP_Stream_st::~SP_Stream_st() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void SP_Stream_st::Add(std::function<void()> work, std::string name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back({std::move(work), std::move(name)});
  changed_.notify_one();
}

std::shared_ptr<standin::Mark> SP_Stream_st::Record() {
  auto mark = std::make_shared<standin::Mark>();
  Add([mark] { mark->Reach(); });
  return mark;
}

void SP_Stream_st::WaitFor(std::shared_ptr<standin::Mark> mark) {
  Add([mark = std::move(mark)] { mark->Wait(); }, "wait");
}

void SP_Stream_st::BlockUntilDone() { Record()->Wait(); }

void SP_Stream_st::Loop() {
  for (;;) {
    Work work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    standin::Jitter();
    const standin::Clock::time_point begin = standin::Clock::now();
    work.run();
    if (standin::Tracing() && !work.name.empty()) standin::Trace(this, work.name, begin, standin::Clock::now());
  }
}

void SP_Event_st::Set(std::shared_ptr<standin::Mark> mark) {
  const std::lock_guard<std::mutex> lock(mutex_);
  mark_ = std::move(mark);
}

std::shared_ptr<standin::Mark> SP_Event_st::Get() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return mark_;
}
