#include "cc/tf/import/import_constants.h"

#include <gtest/gtest.h>

#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using testing::Imported;
using testing::kTile;

TEST(ImportConstants, WhateverTheOpWaitsFor) {
  GraphBuilder b;
  b.Constant("c", {256, 64});
  b.Parse("x[256, 64]; late = Relu(x); y = Neg(c, ^late); last = AddV2(late, y); fetch last");
  const Imported step(b.item());
  EXPECT_TRUE(step.Buffer("y").resident);
  EXPECT_EQ(step.Buffer("y").bytes, kTile);
  EXPECT_EQ(step.Buffer("c").bytes, 0);
}

TEST(ImportConstants, InALoopToo) {
  testing::LoopBuilder b;
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Add("goes_on", "Identity", {"i_switch:1"}, {testing::OfType(tensorflow::DT_INT32)});
  b.Constant("c", {256, 64});
  b.item().graph.mutable_node(b.item().graph.node_size() - 1)->add_input("^goes_on");
  b.Parse("made = Neg(c); body = AddV2(y_switch:1, made); fetch y_exit");
  const Imported step(b.item());
  EXPECT_TRUE(step.Buffer("made").resident);
  EXPECT_EQ(step.Buffer("made").bytes, kTile);
  EXPECT_EQ(step.Buffer("c").bytes, 0);
}

}  // namespace
}  // namespace lms
