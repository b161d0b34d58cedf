#include "cc/tf/graph/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "cc/tf/sizes/tensor_lists.h"
#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::Imported;
using testing::kRounds;
using testing::kTile;
using testing::LoopBuilder;
using testing::OfType;

TEST(Loops, WhatChangesFromOneIterationToTheNext) {
  LoopBuilder b;
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Carry("same", "x", "same_switch:1", tensorflow::DT_FLOAT);
  b.Parse("body = AddV2(y_switch:1, same_switch:1); fetch y_exit");
  const Imported step(b.item());
  const Loops loops(step.item().graph, step.index());
  for (const char* name : {"y_enter", "y_merge", "y_exit", "i_merge"}) {
    EXPECT_TRUE(loops.Changes(step.index().Find(name))) << name;
  }
  for (const char* name : {"same_enter", "same_merge", "same_exit", "one_in", "body"}) {
    EXPECT_FALSE(loops.Changes(step.index().Find(name))) << name;
  }
  EXPECT_EQ(loops.Gates(step.index()[step.index().Find("i_merge")].frame),
            std::vector<int>{step.index().Find("i_next")});
}

TEST(Loops, WhatTheCounterDoesNotWaitForStraggles) {
  LoopBuilder b;
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Parse("body = Tanh(y_switch:1); fetch y_exit");
  const Imported step(b.item());
  Loops loops(step.item().graph, step.index());
  const int body = step.index().Find("body");
  EXPECT_TRUE(loops.Straggles(body));
  EXPECT_TRUE(loops.MayBeHeld(body));
  EXPECT_FALSE(loops.Straggles(step.index().Find("i_add")));
  EXPECT_TRUE(loops.MayBePlanned(step.index()[body].region));
  EXPECT_FALSE(loops.MayBePlanned(step.index()[step.index().Find("i_less")].region));  // runs once more
  loops.HoldIterations(step.index()[body].frame);
  ASSERT_EQ(loops.Holds().size(), 1u);
  EXPECT_EQ(loops.Holds()[0].node, body);
  EXPECT_EQ(loops.Holds()[0].gate, step.index().Find("i_next"));
  EXPECT_FALSE(loops.Straggles(body));
}

// The gradient of what a branch reads is computed late, or not before the next iteration, where another branch is
// taken.
TEST(Loops, WhatOnlyABranchReadsStraggles) {
  LoopBuilder b;
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT, {"^merged"});
  b.Parse("made = Tanh(y_switch:1); in_both = Sin(y_switch:1)");
  b.Add("is_one", "Equal", {"i_switch:1", "one_in"}, {OfType(tensorflow::DT_INT32)});
  b.Parse("given = Switch(made, is_one); also = Switch(in_both, is_one)");
  b.Parse("yes = Add(given:1, also:1); no = Neg(also); merged = Merge(no, yes); body = Exp(merged); fetch y_exit");
  for (auto& node : *b.item().graph.mutable_node()) {
    if (node.name() == "i_next") node.add_input("^body");
  }
  const Imported step(b.item());
  Loops loops(step.item().graph, step.index());
  EXPECT_TRUE(loops.Straggles(step.index().Find("made")));
  for (const char* name : {"in_both", "is_one", "merged", "body", "i_add"}) {
    EXPECT_FALSE(loops.Straggles(step.index().Find(name))) << name;
  }
  loops.HoldIterations(step.index()[step.index().Find("body")].frame);
  ASSERT_EQ(loops.Holds().size(), 1u);
  EXPECT_EQ(loops.Holds()[0].node, step.index().Find("made"));
  EXPECT_FALSE(loops.Straggles(step.index().Find("made")));
}

// Draws in iterations that nothing orders come in the executor's order, which must stay what it is.
TEST(Loops, WhereSeededDrawsComeInAnyOrderNothingIsPlannedOrHeld) {
  const auto loop_with_seed = [](int seed, bool ordered) {
    LoopBuilder b;
    b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
    b.Add("shape", "Shape", {"y_switch:1"}, {OfType(tensorflow::DT_FLOAT)});
    b.Add("draw", "RandomUniform", {"shape"},
          {OfType(tensorflow::DT_INT32), testing::Type("dtype", tensorflow::DT_FLOAT), testing::Int("seed", seed)});
    b.Parse("body = AddV2(y_switch:1, draw); fetch y_exit");
    tensorflow::grappler::GrapplerItem item = b.item();
    for (auto& node : *item.graph.mutable_node()) {
      if (ordered && node.name() == "i_next") node.add_input("^draw");
    }
    return item;
  };
  for (const auto& [seed, ordered, drawn] : {std::tuple(5, false, true), {0, false, false}, {5, true, false}}) {
    const Imported step(loop_with_seed(seed, ordered));
    Loops loops(step.item().graph, step.index());
    const NodeIndex& body = step.index()[step.index().Find("body")];
    EXPECT_EQ(loops.DependsOnOverlap(body.frame), drawn) << seed << ordered;
    EXPECT_EQ(loops.MayBePlanned(body.region), !drawn) << seed << ordered;
    loops.HoldIterations(body.frame);
    EXPECT_EQ(loops.Straggles(step.index().Find("draw")), drawn) << seed << ordered;
  }
}

// Who holds a term of a sum decides in which order it adds up, and the next iteration is one of them.
TEST(Loops, WhereASumMindsTheNextIterationNothingIsPlannedOrHeld) {
  const auto minds = [](const std::string& terms, const std::string& next) {
    LoopBuilder b;
    b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
    b.Carry("z", "x", next, tensorflow::DT_FLOAT);
    b.Parse("made = Tanh(y_switch:1); other = Tanh(made); body = AddN(" + terms + "); fetch y_exit, z_exit");
    const Imported step(b.item());
    Loops loops(step.item().graph, step.index());
    const int frame = step.index()[step.index().Find("body")].frame;
    loops.HoldIterations(frame);
    EXPECT_EQ(loops.Holds().empty(), loops.DependsOnOverlap(frame));
    return loops.DependsOnOverlap(frame);
  };
  EXPECT_TRUE(minds("z_switch:1, made, y_switch:1", "z_switch:1"));  // handed through
  EXPECT_TRUE(minds("made, made, other", "other"));                  // handed on
  EXPECT_FALSE(minds("other, z_switch:1, made", "z_switch:1"));      // taken over in any case
  EXPECT_FALSE(minds("z_switch:1, made", "z_switch:1"));             // one order is like the other
  EXPECT_FALSE(minds("y_switch:1, made, made", "other"));
}

// One outside minds whether the loop still holds what has entered it.
TEST(Loops, WhereASumMindsWhetherTheLoopHoldsItsTermsNothingIsPlannedOrHeld) {
  const auto minds = [](const std::string& terms) {
    LoopBuilder b;
    b.Parse("a = Tanh(x); other = Tanh(a); last = Tanh(other); sum = AddN(" + terms + ")");
    b.Carry("y", "a", "body", tensorflow::DT_FLOAT);
    b.Parse("late = Tanh(y_switch:1); body = Tanh(y_switch:1); fetch y_exit, sum, last");
    const Imported step(b.item());
    const Loops loops(step.item().graph, step.index());
    return loops.DependsOnOverlap(step.index()[step.index().Find("body")].frame);
  };
  EXPECT_TRUE(minds("other, other, a"));
  EXPECT_FALSE(minds("other, other, x"));
  EXPECT_FALSE(minds("a, other"));
}

// Of one maker, l and l2, which a loop fills by push and push2, beside y, which becomes body.
LoopBuilder WithTwoLists() {
  LoopBuilder b;
  b.ShapeConstant("shape", {256, 64});
  b.Add("list", "EmptyTensorList", {"shape", "rounds"}, {testing::Element(), testing::ShapeType()});
  b.Carry("l", "list", "push", tensorflow::DT_VARIANT);
  b.Carry("l2", "list", "push2", tensorflow::DT_VARIANT);
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  return b;
}

TEST(TensorLists, AListTakesItsElementsTimesTheRoundsOfItsLoop) {
  LoopBuilder b = WithTwoLists();
  b.Float("body", "Tanh", {"y_switch:1"});
  const testing::Attr type = testing::Element();
  b.Add("push", "TensorListPushBack", {"l_switch:1", "body"}, {type});
  b.Add("push2", "TensorListPushBack", {"l2_switch:1", "y_switch:1"}, {type});  // what the round before has made
  b.Add("stack", "TensorListStack", {"l_exit", "shape"}, {type});
  b.Parse("fetch stack, l2_exit");
  const Imported step(b.item());
  const Loops loops(step.item().graph, step.index());
  const TensorLists lists(step.item().graph, step.index(), step.sizes(), loops);
  EXPECT_EQ(lists.Trips(step.index()[step.index().Find("body")].frame), kRounds);
  const int group = lists.GroupOf(step.index().Find("push"));
  ASSERT_GE(group, 0);
  EXPECT_TRUE(lists.group(group).known);
  // The same tensors are pushed twice, and held once.
  EXPECT_EQ(lists.GroupOf(step.index().Find("push2")), group);
  EXPECT_EQ(lists.group(group).bytes, kRounds * kTile);
  EXPECT_EQ(step.BufferIdOf("push"), step.BufferIdOf("l_exit"));
  EXPECT_EQ(step.Buffer("push").bytes, kRounds * kTile);
  EXPECT_EQ(step.Buffer("list").bytes, 0);
  EXPECT_EQ(step.imported().hidden_ops, 0);
}

TEST(TensorLists, ListsThatBeginAlikeAreSeveral) {
  LoopBuilder b = WithTwoLists();
  b.Parse("body = Tanh(y_switch:1); other = Sigmoid(y_switch:1)");
  const testing::Attr type = testing::Element();
  b.Add("push", "TensorListPushBack", {"l_switch:1", "body"}, {type});
  b.Add("push2", "TensorListPushBack", {"l2_switch:1", "other"}, {type});
  b.Parse("fetch l_exit, l2_exit");
  const Imported step(b.item());
  const TensorLists lists(step.item().graph, step.index(), step.sizes(), Loops(step.item().graph, step.index()));
  for (const char* push : {"push", "push2"}) {
    EXPECT_EQ(lists.group(lists.GroupOf(step.index().Find(push))).bytes, kRounds * kTile) << push;
    EXPECT_EQ(step.Buffer(push).bytes, kRounds * kTile) << push;
  }
  EXPECT_NE(step.BufferIdOf("push"), step.BufferIdOf("push2"));
}

TEST(TensorLists, ALoopMayGoRoundAsOftenAsAnotherOneInAnyOrderOfTheGraph) {
  LoopBuilder b;
  const auto enter = [&b](const std::string& name, const std::string& value, bool constant) {
    b.Add(name, "Enter", {value},
          {OfType(tensorflow::DT_INT32), testing::Text("frame_name", "second"), testing::Bool("is_constant", constant),
           testing::Int("parallel_iterations", testing::kParallel)});
  };
  enter("j_enter", "zero", false);
  enter("one_in2", "one", true);
  enter("bound", "i_exit", true);
  b.Add("j_merge", "Merge", {"j_enter", "j_next"}, {OfType(tensorflow::DT_INT32), testing::Int("N", 2)});
  b.Add("j_less", "Less", {"j_merge", "bound"}, {OfType(tensorflow::DT_INT32)});
  b.Add("cond2", "LoopCond", {"j_less"});
  b.Add("j_switch", "Switch", {"j_merge", "cond2"}, {OfType(tensorflow::DT_INT32)});
  b.Add("j_add", "AddV2", {"j_switch:1", "one_in2"}, {OfType(tensorflow::DT_INT32)});
  b.Add("j_next", "NextIteration", {"j_add"}, {OfType(tensorflow::DT_INT32)});
  b.Add("j_exit", "Exit", {"j_switch"}, {OfType(tensorflow::DT_INT32)});
  b.Fetch("j_exit");
  tensorflow::grappler::GrapplerItem item = b.item();
  for (const bool second_first : {false, true}) {
    std::stable_partition(item.graph.mutable_node()->begin(), item.graph.mutable_node()->end(), [&](const auto& node) {
      return second_first && (node.name() == "zero" || node.name() == "j_enter");
    });
    const Imported step(item);
    const Loops loops(step.item().graph, step.index());
    const TensorLists lists(step.item().graph, step.index(), step.sizes(), loops);
    for (const char* node : {"i_add", "j_add"}) {
      EXPECT_EQ(lists.Trips(step.index()[step.index().Find(node)].frame), kRounds) << node << second_first;
    }
  }
}

TEST(TensorLists, WithoutABoundNothingIsKnown) {
  LoopBuilder b;
  b.Parse("any[]; shape{256, 64}");
  b.Add("bound", "Cast", {"any"},
        {testing::Type("SrcT", tensorflow::DT_FLOAT), testing::Type("DstT", tensorflow::DT_INT32)});
  b.Add("list", "TensorListReserve", {"shape", "bound"}, {testing::Element(), testing::ShapeType()});
  b.Carry("l", "list", "set", tensorflow::DT_VARIANT);
  b.Enter("x_in", "x", tensorflow::DT_FLOAT, true);
  b.Float("body", "Tanh", {"x_in", "^i_switch"});
  b.Add("set", "TensorListSetItem", {"l_switch:1", "i_switch:1", "body"}, {testing::Element()});
  b.Fetch("l_exit");
  for (auto& node : *b.item().graph.mutable_node()) {
    if (node.name() == "rounds_in") node.set_input(0, "bound");
  }
  const Imported step(b.item());
  EXPECT_GT(step.imported().hidden_ops, 0);
}

}  // namespace
}  // namespace lms
