#include "cc/tf/import/loop_overlap.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::Imported;
using testing::kParallel;
using testing::kTile;
using testing::LoopBuilder;
using testing::OfType;

constexpr int kLong = 60;  // nodes, so that the counter is iterations ahead

int64_t OverlapOn(const std::string& device, LoopBuilder builder) {
  for (auto& node : *builder.item().graph.mutable_node()) {
    node.set_device("/job:localhost/replica:0/task:0/device:" + device);
  }
  const Imported step(builder.item());
  int64_t bytes = 0;
  for (const BufferId overlap : step.imported().overlaps) bytes += step.graph().buffers[overlap].bytes;
  return bytes;
}

// A chain of kLong ops, from the tensor on, the first of which is read at the end again.
LoopBuilder Chain(const std::string& from) {
  LoopBuilder b;
  b.Enter("x_in", "x", tensorflow::DT_FLOAT, true);
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Add("first", "Tanh", {from}, {OfType(tensorflow::DT_FLOAT)});
  std::string last = "first";
  for (int i = 0; i < kLong; ++i) {
    const std::string name = "link_" + std::to_string(i);
    b.Add(name, "Tanh", {last}, {OfType(tensorflow::DT_FLOAT)});
    last = name;
  }
  b.Add("kept", "AddV2", {"first", last}, {OfType(tensorflow::DT_FLOAT)});
  b.Parse("body = AddV2(y_switch:1, kept); fetch y_exit");
  return b;
}

TEST(LoopOverlap, IterationsThatOnlyAddUpAreAllUnderWay) {
  // Each holds the first of its chain, and the last; one by one there is the sum beside these.
  EXPECT_EQ(OverlapOn("GPU:0", Chain("x_in")), (2 * kParallel - 3) * kTile);
}

TEST(LoopOverlap, IterationsThatReadTheOneBeforeFollowIt) { EXPECT_EQ(OverlapOn("GPU:0", Chain("y_switch:1")), 0); }

// There it is the terms that are left behind (tensor_lists.h).
TEST(LoopOverlap, OnACpuTheSumsTermsWait) { EXPECT_EQ(OverlapOn("CPU:0", Chain("x_in")), (kParallel - 1) * kTile); }

}  // namespace
}  // namespace lms
