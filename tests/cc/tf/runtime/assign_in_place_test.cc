#include "cc/tf/runtime/assign_in_place.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/tf/graph/own_ops.h"
#include "cc/tf/graph/variable_assigns.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session.h"
#include "tensorflow/core/public/version.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::Tensor;
using testing::Float32;
using testing::GraphBuilder;

constexpr int64_t kRows = 4096;

Tensor Filled(float value, int64_t rows = kRows) {
  Tensor tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({rows}));
  tensor.flat<float>().setConstant(value);
  return tensor;
}

// A variable, "v", which "plain" gives what "x" is fed with by TensorFlow's op, and "in_place" the double of that by
// ours.
class AssignInPlaceTest : public ::testing::Test {
 protected:
  AssignInPlaceTest() {
    GraphBuilder b;
    b.Add("x", "Placeholder", {}, {Float32("dtype")});
    b.Variable("v", {kRows});
    b.Add("plain", "AssignVariableOp", {"v", "x"}, {Float32("dtype")});
    b.Float("twice", "Add", {"x", "x"});
    b.Add("in_place", "AssignVariableOp", {"v", "twice"}, {Float32("dtype")});
    tensorflow::GraphDef graph = b.item().graph;
    for (tensorflow::NodeDef& node : *graph.mutable_node()) {
      if (node.name() != "in_place") continue;
      EXPECT_TRUE(MayAssignInPlace(node));
      node.set_op(kAssignOp);
    }
    graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
    tensorflow::SessionOptions options;
    options.config.mutable_graph_options()->mutable_rewrite_options()->set_disable_meta_optimizer(true);
    session_.reset(tensorflow::NewSession(options));
    const absl::Status status = session_->Create(graph);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  absl::Status Run(const std::string& target, const Tensor& x) {
    return session_->Run({{"x", x}}, {}, {target}, nullptr);
  }

  tensorflow::core::RefCountPtr<tensorflow::Var> Variable() {
    const tensorflow::DeviceMgr* devices = nullptr;
    tensorflow::core::RefCountPtr<tensorflow::Var> variable;
    EXPECT_TRUE(session_->LocalDeviceManager(&devices).ok());
    tensorflow::ResourceMgr* const resources = devices->ListDevices()[0]->resource_manager();
    tensorflow::Var* found = nullptr;
    EXPECT_TRUE(resources->Lookup(resources->default_container(), "v", &found).ok());
    variable.reset(found);
    return variable;
  }

  void ExpectValue(float value, int64_t rows = kRows) {
    const auto variable = Variable();
    ASSERT_EQ(variable->tensor()->NumElements(), rows);
    for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(variable->tensor()->flat<float>()(i), value);
  }

  std::unique_ptr<tensorflow::Session> session_;
};

TEST_F(AssignInPlaceTest, TheVariableKeepsItsMemory) {
  ASSERT_TRUE(Run("in_place", Filled(1)).ok());  // without a value yet
  ExpectValue(2);
  const void* const there = Variable()->tensor()->data();
  ASSERT_TRUE(Run("in_place", Filled(2)).ok());
  EXPECT_EQ(Variable()->tensor()->data(), there);
  ExpectValue(4);
}

TEST_F(AssignInPlaceTest, WhatIsBeingReadStaysAsItIs) {
  ASSERT_TRUE(Run("in_place", Filled(1)).ok());
  const Tensor held = *Variable()->tensor();
  ASSERT_TRUE(Run("in_place", Filled(2)).ok());
  ExpectValue(4);
  EXPECT_NE(Variable()->tensor()->data(), held.data());
  for (int64_t i = 0; i < kRows; ++i) ASSERT_EQ(held.flat<float>()(i), 2);
}

TEST_F(AssignInPlaceTest, AnotherShapeIsAssignedAsTensorFlowDoesIt) {
  ASSERT_TRUE(Run("in_place", Filled(1)).ok());
  ASSERT_TRUE(Run("in_place", Filled(3, 2 * kRows)).ok());
  ExpectValue(6, 2 * kRows);
}

TEST_F(AssignInPlaceTest, ASliceLetsGoOfTheWhole) {
  ASSERT_TRUE(Run("in_place", Filled(1)).ok());
  {
    const auto variable = Variable();
    const tensorflow::mutex_lock writing(*variable->mu());
    *variable->tensor() = Filled(1, 4 * kRows).Slice(kRows, 2 * kRows);
  }
  const void* const there = Variable()->tensor()->data();
  ASSERT_TRUE(Run("in_place", Filled(2)).ok());
  EXPECT_NE(Variable()->tensor()->data(), there);
  ExpectValue(4);
}

TEST_F(AssignInPlaceTest, WhatIsReadByCopiesIsAssignedAsTensorFlowDoesIt) {
  ASSERT_TRUE(Run("in_place", Filled(1)).ok());
  Variable()->copy_on_read_mode.store(true);
  ASSERT_TRUE(Run("in_place", Filled(2)).ok());
  ExpectValue(4);
}

TEST_F(AssignInPlaceTest, ErrorsAreTensorFlowsOwn) {
  ASSERT_TRUE(Run("plain", Filled(1)).ok());
  {
    const auto variable = Variable();
    const tensorflow::mutex_lock writing(*variable->mu());
    *variable->tensor() = Tensor(tensorflow::DT_INT32, tensorflow::TensorShape({kRows}));
  }
  const absl::Status plain = Run("plain", Filled(1));
  const absl::Status in_place = Run("in_place", Filled(1));
  EXPECT_FALSE(plain.ok());
  EXPECT_EQ(in_place.code(), plain.code());
}

TEST(AssignsTest, ThoseOnTheDeviceAreDoneInPlace) {
  GraphBuilder b;
  b.Feed("x", {64});
  b.Variable("v", {64});
  b.Add("mine", "AssignVariableOp", {"v", "x"}, {Float32("dtype")});
  b.Add("added", "AssignAddVariableOp", {"v", "x"}, {Float32("dtype")});
  b.Add("numbers", "AssignVariableOp", {"v", "x"}, {testing::Type("dtype", tensorflow::DT_INT32)});
  b.Add("elsewhere", "AssignVariableOp", {"v", "x"}, {Float32("dtype")});
  tensorflow::GraphDef graph = b.item().graph;
  std::string device;
  for (tensorflow::NodeDef& node : *graph.mutable_node()) {
    if (node.name() == "mine") device = node.device();
    if (node.name() == "elsewhere") node.set_device("/job:localhost/replica:0/task:0/device:CPU:7");
  }
  AssignInPlace(device, &graph);
  std::vector<std::string> changed;
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (node.op() == kAssignOp) changed.push_back(node.name());
  }
  EXPECT_EQ(changed, (std::vector<std::string>{"mine"}));
}

}  // namespace
}  // namespace lms
