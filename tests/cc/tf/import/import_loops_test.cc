#include "cc/tf/import/import_loops.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/tf/import/import.h"
#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::Element;
using testing::Imported;
using testing::kParallel;
using testing::kTile;
using testing::LoopBuilder;
using testing::ShapeType;

// The terms of y wait for z, which is there only when all of a chain has run.
LoopBuilder SumOfWhatComesLate() {
  LoopBuilder b;
  b.Parse("late = Tanh(x); later = Tanh(late); latest = Tanh(later)");
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Carry("z", "latest", "turn", tensorflow::DT_FLOAT);
  b.Parse("turn = Tanh(z_switch:1); term = Sigmoid(z_switch:1); body = AddV2(y_switch:1, term); fetch y_exit");
  for (auto& node : *b.item().graph.mutable_node()) node.set_device("/job:localhost/replica:0/task:0/device:CPU:0");
  return b;
}

TEST(ImportLoops, IterationsRunAheadOnceTheyHaveWhatTheyLeaveBehind) {
  LoopBuilder b = SumOfWhatComesLate();
  const Imported step(b.item());
  ASSERT_EQ(step.imported().overlaps.size(), 1U);
  const MemBuffer& overlap = step.graph().buffers[step.imported().overlaps[0]];
  EXPECT_EQ(overlap.bytes, (kParallel - 1) * kTile);
  EXPECT_EQ(overlap.producer, step.OpOf("z_switch"));
  EXPECT_LT(step.OpOf("y_switch"), step.OpOf("z_switch"));
}

// The next iteration waits for what is made, and not for who reads that last.
TEST(ImportLoops, WhatIsReadLateIsLeftBehindToo) {
  LoopBuilder b;
  b.Carry("y", "x", "late", tensorflow::DT_FLOAT);
  b.Parse("made = Tanh(x_in); late = Sigmoid(made); fetch y_exit");
  b.Enter("x_in", "x", tensorflow::DT_FLOAT, true);
  for (tensorflow::NodeDef& node : *b.item().graph.mutable_node()) {
    if (node.name() == "i_add") node.add_input("^made");
  }
  const Imported step(b.item());
  ASSERT_EQ(step.imported().ahead.size(), 1U);
  EXPECT_EQ(step.imported().ahead[0].bytes, (kParallel - 1) * 2 * kTile);
}

// The iteration that stands for all of them has all that enters the loop, though the first may begin without.
TEST(ImportLoops, WhatEntersIsThereBeforeTheIteration) {
  const Imported step(SumOfWhatComesLate().item());
  EXPECT_LT(step.OpOf("latest"), step.OpOf("cond"));
  EXPECT_LT(step.OpOf("z_enter"), step.OpOf("cond"));
}

// A list that a loop fills with elements of another list, which is made late.
LoopBuilder FilledFromAnother() {
  LoopBuilder b;
  b.ShapeConstant("row", {64});
  b.Parse("late = Tanh(x); later = Tanh(late)");
  b.Add("full", "TensorListFromTensor", {"later", "row"}, {Element(), ShapeType()});
  b.Add("list", "EmptyTensorList", {"row", "rounds"}, {Element(), ShapeType()});
  b.Enter("full_in", "full", tensorflow::DT_VARIANT, true);
  b.Enter("row_in", "row", tensorflow::DT_INT32, true);
  b.Carry("l", "list", "push", tensorflow::DT_VARIANT);
  b.Add("get", "TensorListGetItem", {"full_in", "i_switch:1", "row_in"}, {Element()});
  b.Add("push", "TensorListPushBack", {"l_switch:1", "get"}, {Element()});
  b.Parse("fetch l_exit");
  return b;
}

TEST(ImportLoops, AListTakesNothingBeforeAnyElementIsMade) {
  LoopBuilder b = FilledFromAnother();
  const Imported step(b.item());
  ASSERT_LT(step.OpOf("l_enter"), step.OpOf("full"));
  EXPECT_EQ(step.Buffer("l_enter").bytes, 0);
  // They share the elements.
  EXPECT_EQ(step.BufferIdOf("push"), step.BufferIdOf("full"));
  EXPECT_EQ(step.Buffer("full").producer, step.OpOf("full"));
  EXPECT_EQ(step.Buffer("full").bytes, kTile);
}

// A list made of a tensor, in which the loop replaces each row by one of its own.
LoopBuilder Replaced() {
  LoopBuilder b;
  b.ShapeConstant("row", {64});
  b.Parse("late = Tanh(x)");
  b.Add("full", "TensorListFromTensor", {"late", "row"}, {Element(), ShapeType()});
  b.Enter("row_in", "row", tensorflow::DT_INT32, true);
  b.Carry("l", "full", "set", tensorflow::DT_VARIANT);
  b.Add("get", "TensorListGetItem", {"l_switch:1", "i_switch:1", "row_in"}, {Element()});
  b.Parse("made = Tanh(get)");
  b.Add("set", "TensorListSetItem", {"l_switch:1", "i_switch:1", "made"}, {Element()});
  b.Parse("fetch l_exit");
  return b;
}

TEST(ImportLoops, WhatIsReplacedIsHeldWhereAnotherListHasIt) {
  const int64_t row = 64 * sizeof(float);
  LoopBuilder b = Replaced();
  EXPECT_EQ(Imported(b.item()).Buffer("full").bytes, kTile);
  b.Add("list", "EmptyTensorList", {"row", "rounds"}, {Element(), ShapeType()});
  b.Carry("k", "list", "push", tensorflow::DT_VARIANT);
  b.Add("push", "TensorListPushBack", {"k_switch:1", "get"}, {Element()});
  b.Parse("fetch k_exit");
  const Imported both(b.item());
  EXPECT_EQ(both.Buffer("full").bytes, kTile + testing::kRounds * row);
  EXPECT_EQ(both.BufferIdOf("push"), both.BufferIdOf("full"));
}

TEST(ImportLoops, ZerosLikeAListHaveStorageForAllElementsWhoeverHasTheirs) {
  LoopBuilder b = FilledFromAnother();
  b.Add("zeros", "ZerosLike", {"l_exit"}, {testing::Type("T", tensorflow::DT_VARIANT)});
  b.Add("stack", "TensorListStack", {"zeros", "row"}, {Element()});
  b.Parse("fetch stack");
  const Imported step(b.item());
  const int64_t row = 64 * sizeof(float);
  EXPECT_EQ(step.Buffer("zeros").bytes, testing::kRounds * row);
}

}  // namespace
}  // namespace lms
