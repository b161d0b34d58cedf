#include "cc/tf/runtime/swap_gpu.h"

#include <gtest/gtest.h>

#include <filesystem>
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

class SwapDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { directory_ = std::filesystem::temp_directory_path().string(); }
  void TearDown() override {
    stream_->Unref();
    // Nothing is left behind, whatever happened.
    EXPECT_EQ(SharedSpillStatistics().stored_bytes, 0);
    EXPECT_EQ(device_.pinned.in_use(), 0);
    EXPECT_EQ(device_.memory.in_use(), 0);
    EXPECT_EQ(HostBytes::InUse(), 0);
  }

  NodeDef Out(const std::string& tier, int64_t limit = 0) const {
    NodeDef def;
    def.set_name("the_swap_out");
    def.set_op(kSwapOutOp);
    def.add_input("x");
    (*def.mutable_attr())["T"].set_type(DT_FLOAT);
    (*def.mutable_attr())["tier"].set_s(tier);
    (*def.mutable_attr())["directory"].set_s(directory_);
    (*def.mutable_attr())["limit"].set_i(limit);
    return def;
  }
  static NodeDef In(tensorflow::DataType dtype = DT_FLOAT) {
    NodeDef def;
    def.set_name("the_swap_in");
    def.set_op(kSwapInOp);
    def.add_input("h");
    (*def.mutable_attr())["T"].set_type(dtype);
    (*def.mutable_attr())["shape"].mutable_shape()->set_unknown_rank(true);
    return def;
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
    stream_->Hold();
    OpRun in(&device_, stream_, In(), {handle});
    handle = Tensor();
    in.Begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(in.Ended());
    EXPECT_EQ(device_.memory.in_use(), 4000);  // the output is held from the start
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
  OpRun out(&device_, stream_, Out("disk", 4096), {OnDevice(1000)});
  const absl::Status status = out.Run(nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("swap_disk_limit"), std::string::npos) << status.message();
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
