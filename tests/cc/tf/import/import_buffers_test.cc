#include "cc/tf/import/import_buffers.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using tensorflow::DT_FLOAT;
using testing::Attr;
using testing::GraphBuilder;
using testing::Imported;
using testing::LoopBuilder;
using testing::Type;
using testing::Types;

// A branch returns what it has computed as an Optional, for which the gradient of its gradient asks zeros.
TEST(ImportBuffers, ZerosLikeAnOptionalTakeWhatItHolds) {
  const Attr variant = Type("T", tensorflow::DT_VARIANT);
  Attr shapes{"output_shapes", {}};
  *shapes.second.mutable_list()->add_shape() = testing::Shape("", {64, 64}).second.shape();
  GraphBuilder b;
  b.Parse("x[64, 64]; a = Relu(x)");
  b.Add("some", "OptionalFromValue", {"a"}, {Types("Toutput_types", {DT_FLOAT})});
  b.Add("none", "OptionalNone", {});
  b.Add("merged", "Merge", {"none", "some"}, {variant, testing::Int("N", 2)});
  b.Add("zeros", "ZerosLike", {"merged"}, {variant});
  b.Add("value", "OptionalGetValue", {"zeros"}, {Types("output_types", {DT_FLOAT}), shapes});
  b.Parse("sum = AddV2(value, a); fetch sum");
  const Imported step(b.item());
  EXPECT_EQ(step.Buffer("zeros").bytes, 64 * 64 * 4);
  EXPECT_NE(step.BufferIdOf("zeros"), step.BufferIdOf("a"));
  EXPECT_EQ(step.BufferIdOf("value"), step.BufferIdOf("zeros"));
}

// Each part is kept in a list of its own, and these have names of their own.
TEST(ImportBuffers, OneNodeFillsTwoLists) {
  LoopBuilder b;
  b.ShapeConstant("shape", {128, 64});
  for (const std::string list : {"l", "l2"}) {
    b.Add("begin_" + list, "EmptyTensorList", {"shape", "rounds"},
          {Type("element_dtype", DT_FLOAT), Type("shape_type", tensorflow::DT_INT32)});
    b.Carry(list, "begin_" + list, "push_" + list, tensorflow::DT_VARIANT);
  }
  b.Carry("y", "x", "body", DT_FLOAT);
  b.Enter("axis", "zero", tensorflow::DT_INT32, true);
  b.Parse("body = Tanh(y_switch:1)");
  b.Add("parts", "Split", {"axis", "body"}, {Type("T", DT_FLOAT), testing::Int("num_split", 2)});
  b.Add("push_l", "TensorListPushBack", {"l_switch:1", "parts:0"}, {Type("element_dtype", DT_FLOAT)});
  b.Add("push_l2", "TensorListPushBack", {"l2_switch:1", "parts:1"}, {Type("element_dtype", DT_FLOAT)});
  b.Parse("fetch l_exit, l2_exit");
  const Imported step(b.item());
  EXPECT_EQ(step.Buffer("push_l").name, "parts:lists");
  EXPECT_EQ(step.Buffer("push_l2").name, "parts:lists2");
  EXPECT_EQ(step.Buffer("push_l2").bytes, testing::kRounds * testing::kTile / 2);
}

}  // namespace
}  // namespace lms
