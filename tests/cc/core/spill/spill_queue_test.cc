#include "cc/core/spill/spill_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "cc/core/spill/spill_file.h"

namespace lms {
namespace {

SpillStatus RunJob(SpillQueue* queue, SpillJob job) {
  std::promise<SpillStatus> promise;
  job.done = [&promise](const SpillStatus& status) { promise.set_value(status); };
  queue->Submit(std::move(job));
  return promise.get_future().get();
}

TEST(SpillQueueTest, RunsEachChunkOnceWithABufferOfItsOwn) {
  SpillQueue queue(3, 2 * kSpillAlignment);
  std::atomic<int64_t> seen{0};
  SpillJob job;
  job.begin = [](int* chunks) {
    *chunks = 40;
    return SpillStatus{};
  };
  job.work = [&seen](int chunk, char* buffer) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % kSpillAlignment, 0u);
    for (int64_t i = 0; i < 2 * kSpillAlignment; ++i) buffer[i] = static_cast<char>(chunk);
    for (int64_t i = 0; i < 2 * kSpillAlignment; ++i) EXPECT_EQ(buffer[i], static_cast<char>(chunk));
    seen += int64_t{1} << chunk;
    return SpillStatus{};
  };
  EXPECT_TRUE(RunJob(&queue, job).ok());
  EXPECT_EQ(seen, (int64_t{1} << 40) - 1);
  EXPECT_GT(queue.times().busy_seconds, 0);
}

TEST(SpillQueueTest, AnErrorEndsTheJobAndOnlyThat) {
  SpillQueue queue(2, kSpillAlignment);
  std::atomic<int> worked{0};
  SpillJob job;
  job.begin = [](int* chunks) {
    *chunks = 1000000;
    return SpillStatus{};
  };
  job.work = [&worked](int chunk, char*) {
    ++worked;
    return chunk == 5 ? SpillStatus{SpillCode::kFailed, "five"} : SpillStatus{};
  };
  EXPECT_EQ(RunJob(&queue, job).message, "five");
  EXPECT_LT(worked, 1000);
  job.work = [](int, char*) -> SpillStatus { throw std::runtime_error("thrown"); };
  EXPECT_NE(RunJob(&queue, job).message.find("thrown"), std::string::npos);
  job.begin = [](int*) { return SpillStatus{SpillCode::kFull, "no room"}; };
  EXPECT_EQ(RunJob(&queue, job).code, SpillCode::kFull);
  job.begin = [](int* chunks) {
    *chunks = 0;
    return SpillStatus{};
  };
  EXPECT_TRUE(RunJob(&queue, job).ok());
}

TEST(SpillQueueTest, TheSignalOfLargeFilesIsBlockedThereAndNotHere) {
  SpillQueue queue(1, kSpillAlignment);
  bool blocked = false;
  SpillJob job;
  job.begin = [&blocked](int*) {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, nullptr, &set);
    blocked = sigismember(&set, SIGXFSZ) == 1;
    return SpillStatus{};
  };
  EXPECT_TRUE(RunJob(&queue, job).ok());
  EXPECT_TRUE(blocked);
  sigset_t set;
  pthread_sigmask(SIG_BLOCK, nullptr, &set);
  EXPECT_EQ(sigismember(&set, SIGXFSZ), 0);
}

TEST(SpillQueueTest, WhatAJobHoldsGoesWhenItHasEnded) {
  SpillQueue queue(2, kSpillAlignment);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  std::promise<void> promise;
  SpillJob job;
  job.begin = [held](int* chunks) {
    *chunks = 3;
    return SpillStatus{};
  };
  job.work = [held](int, char*) { return SpillStatus{}; };
  job.done = [held, &promise](const SpillStatus&) { promise.set_value(); };
  held.reset();
  queue.Submit(std::move(job));
  promise.get_future().wait();
  while (!watch.expired()) std::this_thread::yield();  // hangs where something keeps it
}

}  // namespace
}  // namespace lms
