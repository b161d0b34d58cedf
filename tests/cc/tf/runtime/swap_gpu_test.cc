#include "cc/tf/runtime/swap_gpu.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/spill/spill_store.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/runtime/swap_handle.h"
#include "cc/tf/runtime/swap_ops.h"
#include "tests/cc/tf/fake_gpu.h"

namespace lms {
namespace {

using ::tensorflow::DT_FLOAT;
using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// A disk that writes nothing until it is let: all threads that write have something more urgent to do.
class HeldDisk {
 public:
  explicit HeldDisk(SpillStore* store) {
    for (int i = 0; i < kSpillThreads; ++i) {
      SpillRequest request;
      request.deadline = std::numeric_limits<int64_t>::min();
      request.cancelled = [this] {
        std::unique_lock<std::mutex> lock(mutex_);
        ++held_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !hold_; });
        return true;
      };
      store->Write("", 0, request, [this](const SpillStatus&, const SpillHandle&) {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++ended_;
        changed_.notify_all();
      });
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return held_ == kSpillThreads; });
  }
  ~HeldDisk() {
    Go();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return ended_ == kSpillThreads; });
  }
  HeldDisk(const HeldDisk&) = delete;
  HeldDisk& operator=(const HeldDisk&) = delete;

  void Go() {
    const std::lock_guard<std::mutex> lock(mutex_);
    hold_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hold_ = true;
  int held_ = 0;
  int ended_ = 0;
};

// Waits for what other threads still do; false where it does not come about (a minute and more: something hangs).
bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 100000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return holds();
}

class SwapDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { directory_ = std::filesystem::temp_directory_path().string(); }
  void TearDown() override {
    stream_->Unref();
    // Nothing is left behind, whatever happened: what nobody wants any more may be in the hands of a writing thread.
    EXPECT_TRUE(Eventually([] { return HostBytes::InUse() == 0 && SharedSpillStatistics().stored_bytes == 0; }));
    EXPECT_EQ(SharedSpillStatistics().stored_bytes, 0);
    EXPECT_EQ(device_.pinned.in_use(), 0);
    EXPECT_EQ(device_.memory.in_use(), 0);
    EXPECT_EQ(HostBytes::InUse(), 0);
  }

  NodeDef Out(const std::string& tier, int64_t limit = 0, int64_t host_limit = 0) const {
    NodeDef def;
    def.set_name("the_swap_out");
    def.set_op(kSwapOutOp);
    def.add_input("x");
    (*def.mutable_attr())["T"].set_type(DT_FLOAT);
    (*def.mutable_attr())["tier"].set_s(tier);
    (*def.mutable_attr())["directory"].set_s(directory_);
    (*def.mutable_attr())["limit"].set_i(limit);
    (*def.mutable_attr())["host_limit"].set_i(host_limit);
    return def;
  }
  static NodeDef In(tensorflow::DataType dtype = DT_FLOAT, int64_t host_limit = 0) {
    NodeDef def;
    def.set_name("the_swap_in");
    def.set_op(kSwapInOp);
    def.add_input("h");
    (*def.mutable_attr())["T"].set_type(dtype);
    (*def.mutable_attr())["shape"].mutable_shape()->set_unknown_rank(true);
    (*def.mutable_attr())["host_limit"].set_i(host_limit);
    return def;
  }
  SpillStore* Store() const { return &SharedSpillStore(directory_); }
  // All that was swapped to the disk has arrived there.
  static bool Written() {
    return Eventually([] { return HostBytes::InUse() == 0; });
  }
  Tensor OnDevice(int64_t rows) {
    Tensor tensor(&device_.memory, DT_FLOAT, TensorShape({rows, 10}));
    for (int64_t i = 0; i < tensor.NumElements(); ++i) tensor.flat<float>()(i) = 0.5f * static_cast<float>(i);
    return tensor;
  }

  FakeGpu device_;
  FakeStream* stream_ = new FakeStream;
  std::string directory_;
};

TEST_F(SwapDeviceTest, BytesGoOutAndComeBackOnBothTiers) {
  for (const char* tier : {"host", "disk"}) {
    for (const int64_t rows : {0, 1, 70000}) {
      Tensor handle;
      {
        OpRun out(&device_, stream_, Out(tier), {OnDevice(rows)});
        ASSERT_TRUE(out.Run(&handle).ok());
      }
      const int64_t bytes = rows * 40;
      EXPECT_EQ(device_.memory.in_use(), 0) << tier;
      EXPECT_TRUE(tier == std::string("host") || Written());
      EXPECT_EQ(device_.pinned.in_use(), tier == std::string("host") ? bytes : 0) << tier;
      EXPECT_EQ(HostBytes::InUse(), tier == std::string("host") ? bytes : 0) << tier;
      for (int time = 0; time < 2; ++time) {
        OpRun in(&device_, stream_, In(), {handle});
        Tensor back;
        ASSERT_TRUE(in.Run(&back).ok());
        EXPECT_EQ(back.shape(), TensorShape({rows, 10}));
        EXPECT_EQ(device_.memory.in_use(), bytes);
        const Tensor expected = OnDevice(rows);
        EXPECT_EQ(back.tensor_data(), expected.tensor_data()) << tier << rows;
      }
      EXPECT_TRUE(rows == 0 || stream_->ordered()) << "the output's memory may still be in use by earlier kernels";
    }
  }
}

TEST_F(SwapDeviceTest, TheHandleExistsOnlyWhenTheCopyHasEnded) {
  for (const char* tier : {"host", "disk"}) {
    stream_->Hold();
    OpRun out(&device_, stream_, Out(tier), {OnDevice(100)});
    out.Begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(out.Ended());
    EXPECT_EQ(device_.memory.in_use(), 4000);  // the input stays
    stream_->Go();
    Tensor handle;
    ASSERT_TRUE(out.End(&handle).ok());
    EXPECT_TRUE(tier == std::string("host") || Written());
    stream_->Hold();
    OpRun in(&device_, stream_, In(), {handle});
    handle = Tensor();
    in.Begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(in.Ended());
    // From the host the output is held from the start; from a disk when the bytes have been read.
    EXPECT_TRUE(tier == std::string("host") || Eventually([this] { return device_.memory.in_use() > 0; }));
    EXPECT_EQ(device_.memory.in_use(), 4000);
    stream_->Go();
    Tensor back;
    ASSERT_TRUE(in.End(&back).ok());
    EXPECT_EQ(back.tensor_data(), OnDevice(100).tensor_data());
  }
}

TEST_F(SwapDeviceTest, AFailedCopyFailsTheStepAndHoldsNothing) {
  for (const char* tier : {"host", "disk"}) {
    stream_->FailWith(absl::InternalError("the copy broke"));
    OpRun out(&device_, stream_, Out(tier), {OnDevice(100)});
    EXPECT_EQ(out.Run(nullptr).message(), "the copy broke");
    EXPECT_EQ(device_.pinned.in_use(), 0);
    stream_->FailWith(absl::OkStatus());
    OpRun again(&device_, stream_, Out(tier), {OnDevice(100)});
    Tensor handle;
    ASSERT_TRUE(again.Run(&handle).ok());
    stream_->FailWith(absl::InternalError("the other copy broke"));
    OpRun in(&device_, stream_, In(), {handle});
    EXPECT_EQ(in.Run(nullptr).message(), "the other copy broke");
    stream_->FailWith(absl::OkStatus());
  }
}

TEST_F(SwapDeviceTest, ACancelledStepEndsItsTransfers) {
  for (const char* tier : {"host", "disk"}) {
    stream_->Hold();
    OpRun out(&device_, stream_, Out(tier), {OnDevice(100)});
    out.Begin();
    out.cancellation()->StartCancel();
    stream_->Go();
    const absl::Status status = out.End(nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_NE(status.message().find("the_swap_out"), std::string::npos);
    EXPECT_EQ(device_.pinned.in_use(), 0);
  }
  Tensor handle;
  OpRun out(&device_, stream_, Out("disk"), {OnDevice(100)});
  ASSERT_TRUE(out.Run(&handle).ok());
  OpRun in(&device_, stream_, In(), {handle});
  in.cancellation()->StartCancel();
  EXPECT_EQ(in.Run(nullptr).code(), absl::StatusCode::kCancelled);
}

TEST_F(SwapDeviceTest, PinnedMemoryIsBoundedByTheLimit) {
  Tensor first;
  OpRun fits(&device_, stream_, Out("host", 6000), {OnDevice(100)});
  ASSERT_TRUE(fits.Run(&first).ok());
  OpRun too_much(&device_, stream_, Out("host", 6000), {OnDevice(100)});
  const absl::Status status = too_much.Run(nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"the_swap_out", "swap_host_limit", "3.91 KiB"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << ": " << status.message();
  }
  first = Tensor();
  OpRun fits_now(&device_, stream_, Out("host", 6000), {OnDevice(100)});
  EXPECT_TRUE(fits_now.Run(nullptr).ok());
  EXPECT_GE(HostBytes::Peak(), 4000);
}

TEST_F(SwapDeviceTest, NoPinnedMemoryAndNoDeviceMemoryAreErrors) {
  device_.pinned.most = 1000;
  OpRun out(&device_, stream_, Out("host"), {OnDevice(100)});
  EXPECT_EQ(out.Run(nullptr).code(), absl::StatusCode::kResourceExhausted);
  device_.pinned.most = 1 << 20;
  for (const char* tier : {"host", "disk"}) {
    OpRun again(&device_, stream_, Out(tier), {OnDevice(100)});
    Tensor handle;
    ASSERT_TRUE(again.Run(&handle).ok());
    device_.memory.most = 1000;
    OpRun in(&device_, stream_, In(), {handle});
    EXPECT_EQ(in.Run(nullptr).code(), absl::StatusCode::kResourceExhausted);
    device_.memory.most = 1 << 20;
  }
}

TEST_F(SwapDeviceTest, AFullDiskIsNamedAndTheStagingGoes) {
  Tensor handle;
  OpRun out(&device_, stream_, Out("disk", 4096), {OnDevice(1000)});
  ASSERT_TRUE(out.Run(&handle).ok());
  ASSERT_TRUE(Written());  // or not, but nothing is held
  EXPECT_EQ(device_.pinned.in_use(), 0);
  for (int time = 0; time < 2; ++time) {
    OpRun in(&device_, stream_, In(), {handle});
    const absl::Status status = in.Run(nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    for (const char* part : {"the_swap_in", "the_swap_out", "swap_disk_limit"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << part << ": " << status.message();
    }
    EXPECT_EQ(device_.memory.in_use(), 0);
  }
}

TEST_F(SwapDeviceTest, ASwapOutEndsBeforeTheDiskHasWritten) {
  HeldDisk disk(Store());
  Tensor handle;
  OpRun out(&device_, stream_, Out("disk"), {OnDevice(100)});
  out.Begin();
  ASSERT_TRUE(Eventually([&] { return out.Ended(); })) << "it waits for the disk";
  ASSERT_TRUE(out.End(&handle).ok());
  EXPECT_EQ(device_.memory.in_use(), 0);  // the tensor's memory is the device's again
  EXPECT_EQ(device_.pinned.in_use(), 4000);
  EXPECT_EQ(HostBytes::InUse(), 4000);
  // What is not yet on the disk comes from where it is.
  OpRun in(&device_, stream_, In(), {handle});
  Tensor back;
  ASSERT_TRUE(in.Run(&back).ok());
  EXPECT_EQ(back.tensor_data(), OnDevice(100).tensor_data());
  EXPECT_EQ(SharedSpillStatistics().stored_bytes, 0);
  disk.Go();
  ASSERT_TRUE(Written());
  EXPECT_EQ(device_.pinned.in_use(), 0);
  OpRun again(&device_, stream_, In(), {handle});
  ASSERT_TRUE(again.Run(&back).ok());
  EXPECT_EQ(back.tensor_data(), OnDevice(100).tensor_data());
}

TEST_F(SwapDeviceTest, WhatNobodyWantsIsNotWritten) {
  HeldDisk disk(Store());
  const int64_t written = SharedSpillStatistics().written_bytes;
  {
    Tensor handle;
    OpRun out(&device_, stream_, Out("disk"), {OnDevice(100)});
    ASSERT_TRUE(out.Run(&handle).ok());
    EXPECT_EQ(HostBytes::InUse(), 4000);
  }
  EXPECT_EQ(HostBytes::InUse(), 0);  // at once, though the disk still does other things
  EXPECT_EQ(device_.pinned.in_use(), 0);
  disk.Go();
  EXPECT_EQ(SharedSpillStatistics().written_bytes, written);
}

TEST_F(SwapDeviceTest, TheOutputComesAfterTheDiskHasRead) {
  Tensor handle;
  OpRun out(&device_, stream_, Out("disk"), {OnDevice(100)});
  ASSERT_TRUE(out.Run(&handle).ok());
  ASSERT_TRUE(Written());
  // All threads that read have something more urgent to do.
  SpillHandle other;
  std::promise<void> there;
  Store()->Write("other", 5, SpillRequest(), [&](const SpillStatus&, SpillHandle entry) {
    other = std::move(entry);
    there.set_value();
  });
  there.get_future().wait();
  std::promise<void> go;
  const std::shared_future<void> let = go.get_future().share();
  std::atomic<int> held{0};
  std::atomic<int> ended{0};
  for (int i = 0; i < kSpillThreads; ++i) {
    SpillRequest request;
    request.deadline = std::numeric_limits<int64_t>::min();
    request.cancelled = [&held, let] {
      ++held;
      let.wait();
      return true;
    };
    Store()->Read(other, nullptr, request, [&ended](const SpillStatus&) { ++ended; });
  }
  ASSERT_TRUE(Eventually([&] { return held == kSpillThreads; }));
  OpRun in(&device_, stream_, In(), {handle});
  in.Begin();
  EXPECT_EQ(device_.memory.in_use(), 0);
  EXPECT_EQ(HostBytes::InUse(), 4000);
  go.set_value();
  Tensor back;
  ASSERT_TRUE(in.End(&back).ok());
  EXPECT_EQ(back.tensor_data(), OnDevice(100).tensor_data());
  ASSERT_TRUE(Eventually([&] { return ended == kSpillThreads; }));
  other.reset();
}

TEST_F(SwapDeviceTest, StagingCountsTowardsTheLimitAndIsWaitedFor) {
  HeldDisk disk(Store());
  Tensor first;
  Tensor second;
  OpRun fits(&device_, stream_, Out("disk", 0, 6000), {OnDevice(100)});
  ASSERT_TRUE(fits.Run(&first).ok());
  OpRun waits(&device_, stream_, Out("disk", 0, 6000), {OnDevice(100)});
  waits.Begin();
  EXPECT_FALSE(waits.Ended());
  EXPECT_EQ(device_.memory.in_use(), 4000);
  EXPECT_EQ(HostBytes::InUse(), 4000);
  disk.Go();
  ASSERT_TRUE(waits.End(&second).ok());
  ASSERT_TRUE(Written());
  for (const Tensor& handle : {first, second}) {
    OpRun in(&device_, stream_, In(DT_FLOAT, 6000), {handle});
    Tensor back;
    ASSERT_TRUE(in.Run(&back).ok());
    EXPECT_EQ(back.tensor_data(), OnDevice(100).tensor_data());
  }
  // Nothing will ever be given back for what is larger than all of it.
  OpRun too_large(&device_, stream_, Out("disk", 0, 3000), {OnDevice(100)});
  OpRun too_large_in(&device_, stream_, In(DT_FLOAT, 3000), {first});
  for (OpRun* run : {&too_large, &too_large_in}) {
    const absl::Status status = run->Run(nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("exceed swap_host_limit, 2.93 KiB"), std::string::npos) << status.message();
  }
}

TEST_F(SwapDeviceTest, ManySwapsShareRoomForOne) {
  std::vector<Tensor> handles(8);
  {
    std::vector<std::unique_ptr<OpRun>> runs;
    for (size_t i = 0; i < handles.size(); ++i) {
      runs.push_back(std::make_unique<OpRun>(&device_, stream_, Out("disk", 0, 4000), std::vector{OnDevice(100)}));
      runs.back()->Begin();
    }
    for (size_t i = 0; i < handles.size(); ++i) ASSERT_TRUE(runs[i]->End(&handles[i]).ok());
  }
  // Ways out and in at once.
  std::vector<std::unique_ptr<OpRun>> runs;
  for (const Tensor& handle : handles) {
    runs.push_back(std::make_unique<OpRun>(&device_, stream_, In(DT_FLOAT, 4000), std::vector{handle}));
    runs.push_back(std::make_unique<OpRun>(&device_, stream_, Out("disk", 0, 4000), std::vector{OnDevice(100)}));
  }
  for (const auto& run : runs) run->Begin();
  for (size_t i = 0; i < runs.size(); ++i) {
    Tensor result;
    ASSERT_TRUE(runs[i]->End(&result).ok());
    if (i % 2 == 0) {
      EXPECT_EQ(result.tensor_data(), OnDevice(100).tensor_data());
    }
  }
}

TEST_F(SwapDeviceTest, NobodyWaitsForTheDeviceWithStagingInHand) {
  Tensor first;
  Tensor second;
  OpRun out(&device_, stream_, Out("disk", 0, 4000), {OnDevice(100)});
  ASSERT_TRUE(out.Run(&first).ok());
  ASSERT_TRUE(Written());
  // The device is full: the memory that the swap-in needs is that of a tensor on its way out, which needs staging.
  Tensor full = OnDevice(100);
  device_.memory.most = 4000;
  OpRun in(&device_, stream_, In(DT_FLOAT, 4000), {first});
  device_.memory.refused = [&] {
    if (HostBytes::InUse() > 0) return;  // the first attempt: with the bytes in pinned memory
    device_.memory.refused = nullptr;
    OpRun frees(&device_, stream_, Out("disk", 0, 4000), {full});
    full = Tensor();
    ASSERT_TRUE(frees.Run(&second).ok());
  };
  Tensor back;
  ASSERT_TRUE(in.Run(&back).ok());
  EXPECT_TRUE(device_.memory.refused == nullptr);
  device_.memory.most = 1 << 20;
  EXPECT_EQ(back.tensor_data(), OnDevice(100).tensor_data());
}

TEST_F(SwapDeviceTest, AStepThatIsCancelledWhileItWaitsEnds) {
  HeldDisk disk(Store());
  Tensor first;
  OpRun fits(&device_, stream_, Out("disk", 0, 4000), {OnDevice(100)});
  ASSERT_TRUE(fits.Run(&first).ok());
  OpRun waits(&device_, stream_, Out("disk", 0, 4000), {OnDevice(100)});
  waits.Begin();
  waits.cancellation()->StartCancel();
  OpRun in(&device_, stream_, In(), {first});
  in.cancellation()->StartCancel();
  EXPECT_EQ(in.Run(nullptr).code(), absl::StatusCode::kCancelled);
  first = Tensor();  // with the step its handles go
  EXPECT_EQ(waits.End(nullptr).code(), absl::StatusCode::kCancelled);
}

TEST_F(SwapDeviceTest, OtherHandlesAreRefused) {
  Tensor handle;
  OpRun out(&device_, stream_, Out("host"), {OnDevice(1)});
  ASSERT_TRUE(out.Run(&handle).ok());
  OpRun other_type(&device_, stream_, In(tensorflow::DT_INT32), {handle});
  EXPECT_NE(other_type.Run(nullptr).message().find("a tensor of float was swapped out, not int32"), std::string::npos);
  OpRun nothing(&device_, stream_, In(), {Tensor(tensorflow::DT_VARIANT, TensorShape())});
  EXPECT_NE(nothing.Run(nullptr).message().find("not the output of a LmsSwapOut"), std::string::npos);
}

TEST_F(SwapDeviceTest, TheLinkIsMeasured) {
  NodeDef def;
  def.set_name("measure");
  def.set_op(kMeasureLinkOp);
  (*def.mutable_attr())["bytes"].set_i(1 << 20);
  {
    OpRun run(&device_, stream_, def, {});
    Tensor figures;
    ASSERT_TRUE(run.Run(&figures).ok());
    ASSERT_EQ(figures.NumElements(), 5);
    for (int i = 0; i < 5; ++i) EXPECT_GT(figures.flat<double>()(i), 0) << i;
  }
  stream_->FailWith(absl::InternalError("no link"));
  OpRun fails(&device_, stream_, def, {});
  EXPECT_EQ(fails.Run(nullptr).message(), "no link");
  device_.pinned.most = 100;
  OpRun no_memory(&device_, stream_, def, {});
  EXPECT_EQ(no_memory.Run(nullptr).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SwapDeviceTest, TheLinkOfAFullDeviceIsMeasuredWithWhatIsThere) {
  NodeDef def;
  def.set_name("measure");
  def.set_op(kMeasureLinkOp);
  (*def.mutable_attr())["bytes"].set_i(64 << 20);
  device_.memory.most = device_.memory.in_use() + (700 << 10);
  OpRun run(&device_, stream_, def, {});
  Tensor figures;
  ASSERT_TRUE(run.Run(&figures).ok());
  for (int i = 0; i < 5; ++i) EXPECT_GT(figures.flat<double>()(i), 0) << i;
}

TEST(SwapOpsTest, ASecondRegistrationIsRefused) { EXPECT_FALSE(RegisterSwapOps()); }

}  // namespace
}  // namespace lms
