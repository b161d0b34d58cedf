#include "cc/tf/import/import_buffers.h"

#include <gtest/gtest.h>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DT_FLOAT;
using testing::Attr;
using testing::GraphBuilder;
using testing::Imported;
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

}  // namespace
}  // namespace lms
