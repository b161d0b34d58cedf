#include "cc/tf/verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "cc/core/graph/node_names.h"
#include "cc/tf/predict/execution.h"
#include "cc/tf/rewrite/rewrite.h"
#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using testing::Imported;
using testing::kTile;

// A sound rewrite of a chain of three layers: layer 1 is computed again, from tanh_0.
class VerifyRewriteTest : public ::testing::Test {
 protected:
  VerifyRewriteTest() : VerifyRewriteTest(testing::TrainChain(3)) {}
  explicit VerifyRewriteTest(tensorflow::grappler::GrapplerItem chain)
      : step_(std::move(chain)), rewritten_(step_.item()) {
    const OpId before = step_.OpOf("weight_grad_2");
    Plan plan;
    plan.steps.push_back({before, step_.OpOf("matmul_1"), {step_.BufferIdOf("matmul_1")}, false});
    plan.steps.push_back({before, step_.OpOf("tanh_1"), {step_.BufferIdOf("tanh_1")}, false});
    RewriteResult result;
    const absl::Status status =
        RewriteGraph(step_.imported(), step_.index(), plan, RewriteOptions(), &rewritten_.graph, &result);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  NodeDef* Node(const std::string& name) {
    for (NodeDef& node : *rewritten_.graph.mutable_node()) {
      if (node.name() == name) return &node;
    }
    return nullptr;
  }

  absl::Status Verify() {
    return VerifyRewrite(step_.item(), step_.index(), rewritten_, step_.sizes(), 1, SwapLink(), &profile_);
  }

  void ExpectRefused(const std::string& reason) {
    const absl::Status status = Verify();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  }

  const std::string matmul_ = RecomputeName(0, "matmul_1");
  const std::string tanh_ = RecomputeName(1, "tanh_1");
  Imported step_;
  tensorflow::grappler::GrapplerItem rewritten_;
  MemoryProfile profile_;
};

TEST_F(VerifyRewriteTest, ASoundGraphPassesAndIsMeasured) {
  const absl::Status status = Verify();
  ASSERT_TRUE(status.ok()) << status.message();
  // Resident: x (a tile), three weights of a quarter tile, the axes of the sum. At tanh_grad_2, before: the three
  // activations, the gradient, whose storage it takes over, and the loss (4 bytes). After: tanh_1 is not among them.
  EXPECT_EQ(profile_.resident_bytes, kTile + 3 * kTile / 4 + 8);
  const MemoryProfile before = Simulate(step_.graph(), Plan());
  EXPECT_EQ(before.op_bytes[step_.OpOf("tanh_grad_2")] - before.resident_bytes, 4 * kTile + 4);
  const Imported after(rewritten_);
  // The executor, with one thread, has the loss computed later.
  EXPECT_EQ(profile_.op_bytes[after.OpOf("tanh_grad_2")] - profile_.resident_bytes, 3 * kTile);
}

TEST_F(VerifyRewriteTest, TheGraphItselfPasses) {
  rewritten_ = step_.item();
  EXPECT_TRUE(Verify().ok());
  const MemoryProfile alone = PredictMemory(step_.item().graph, step_.index(), step_.imported(), 1);
  EXPECT_EQ(profile_.Timeline(), alone.Timeline());
}

TEST_F(VerifyRewriteTest, AMissingNode) {
  rewritten_ = step_.item();
  rewritten_.graph.mutable_node()->RemoveLast();
  ExpectRefused("nodes are missing");
}

TEST_F(VerifyRewriteTest, ANodeUnderAnotherName) {
  Node("update_0")->set_name("lms/recompute/7/update_0");
  ExpectRefused("node update_0 is missing");
}

TEST_F(VerifyRewriteTest, AChangedAttribute) {
  (*Node("weight_grad_0")->mutable_attr())["transpose_a"].set_b(false);
  ExpectRefused("node weight_grad_0 was changed");
}

TEST_F(VerifyRewriteTest, AMovedNode) {
  Node("tanh_0")->set_device(testing::kOtherCpu);
  ExpectRefused("node tanh_0 was changed");
}

TEST_F(VerifyRewriteTest, AnInputThatIsNotThere) {
  Node("tanh_0")->set_input(0, "nowhere");
  ExpectRefused("nowhere, which does not exist");
}

TEST_F(VerifyRewriteTest, AnInputMore) {
  Node("tanh_0")->add_input("x");
  ExpectRefused("node tanh_0 has other inputs than before");
}

TEST_F(VerifyRewriteTest, AnotherTensorOfTheSameShape) {
  Node("tanh_grad_1")->set_input(0, "matmul_1");
  ExpectRefused("node tanh_grad_1 has other inputs than before");
}

TEST_F(VerifyRewriteTest, TheCopyOfAnotherTensor) {
  Node("tanh_grad_0")->set_input(0, tanh_);
  ExpectRefused("node tanh_grad_0 has other inputs than before");
}

TEST_F(VerifyRewriteTest, ACopyThatReadsSomethingElse) {
  Node(tanh_)->set_input(0, "matmul_0");
  ExpectRefused(tanh_ + " is no copy of tanh_1");
}

TEST_F(VerifyRewriteTest, ACopyOfAnotherKind) {
  Node(tanh_)->set_op("Sigmoid");
  ExpectRefused(tanh_ + " is no copy of tanh_1");
}

TEST_F(VerifyRewriteTest, ALostControlInput) {
  testing::GraphBuilder b;
  b.Parse("x[4]; y = Relu(x); z = Tanh(x, ^y); fetch z");
  const Imported step(b.item());
  tensorflow::grappler::GrapplerItem rewritten = step.item();
  rewritten.graph.mutable_node(2)->mutable_input()->RemoveLast();
  EXPECT_EQ(VerifyRewrite(step.item(), step.index(), rewritten, step.sizes(), 1, SwapLink(), &profile_).message(),
            "node z no longer waits for y");
}

TEST_F(VerifyRewriteTest, ACycle) {
  Node(tanh_)->add_input("^update_1");  // which waits for the copy of matmul_1, and for tanh_grad_1
  ExpectRefused("cycle");
}

TEST_F(VerifyRewriteTest, ACopyThatMayReadAVariableTooLate) {
  NodeDef* update = Node("update_1");
  ASSERT_EQ(update->input(2), "^" + matmul_);
  update->mutable_input()->RemoveLast();
  ExpectRefused(matmul_ + " may read a variable after update_1");
}

// Weights of 64 KiB: an import takes their updates to wait for whoever reads them, whether or not there are edges.
class VerifyLargeWeights : public VerifyRewriteTest {
 protected:
  VerifyLargeWeights() : VerifyRewriteTest(testing::TrainChain(3, 128)) {}
};

TEST_F(VerifyLargeWeights, AWaitThatOnlyTheImportAssumesIsNone) {
  EXPECT_TRUE(Verify().ok());
  auto* inputs = Node("update_1")->mutable_input();
  const auto edge = std::find(inputs->begin(), inputs->end(), "^" + matmul_);
  ASSERT_NE(edge, inputs->end());
  inputs->erase(edge);
  ExpectRefused(matmul_ + " may read a variable after update_1");
}

TEST_F(VerifyRewriteTest, ACopyThatNeverRuns) {
  NodeDef copy = *Node(tanh_);
  copy.set_name(RecomputeName(2, "tanh_1"));
  *rewritten_.graph.add_node() = std::move(copy);
  ExpectRefused("the added node lms/recompute/2/tanh_1 never runs");
}

TEST_F(VerifyRewriteTest, ACopyThatOnlyAFirstRunReadsIsLeftOutWithIt) {
  // All that read tanh_1 read its copy, at once: the first run is left out, and with it a copy that is made for it.
  for (const std::string& name : {matmul_, tanh_}) {
    NodeDef* node = Node(name);
    while (node->input(node->input_size() - 1)[0] == '^') node->mutable_input()->RemoveLast();
  }
  Node("matmul_2")->set_input(0, tanh_);
  NodeDef copy = *Node(matmul_);
  copy.set_name(RecomputeName(2, "matmul_1"));
  Node("tanh_1")->set_input(0, copy.name());
  *rewritten_.graph.add_node() = std::move(copy);
  const absl::Status status = Verify();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(VerifyRewriteTest, AForeignNode) {
  NodeDef foreign = *Node(tanh_);
  foreign.set_name("foreign");
  *rewritten_.graph.add_node() = std::move(foreign);
  ExpectRefused("a node of a foreign name was added: foreign");
}

TEST_F(VerifyRewriteTest, ACopyOfNothing) {
  NodeDef copy = *Node(tanh_);
  copy.set_name(RecomputeName(2, "nothing"));
  *rewritten_.graph.add_node() = copy;
  Node("tanh_grad_1")->add_input("^" + copy.name());
  ExpectRefused("copies no node");
}

// ---- Graphs with results, branches and loops ----

class VerifyPlaces : public ::testing::Test {
 protected:
  VerifyPlaces() { b_.Parse("x[256, 64]; p = Placeholder; y = Relu(x)"); }

  void ExpectRefused(const std::string& reason, const std::function<void(GraphDef*)>& change) {
    const Imported step(b_.item());
    tensorflow::grappler::GrapplerItem rewritten = step.item();
    MemoryProfile profile;
    ASSERT_TRUE(VerifyRewrite(step.item(), step.index(), rewritten, step.sizes(), 1, SwapLink(), &profile).ok());
    change(&rewritten.graph);
    const absl::Status status =
        VerifyRewrite(step.item(), step.index(), rewritten, step.sizes(), 1, SwapLink(), &profile);
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  }

  // Adds a copy of y that waits for `control`, and gives it to the node `reader` as input 0.
  static void CopyY(const std::string& control, const std::string& reader, GraphDef* graph) {
    NodeDef copy = *testing::FindNode(*graph, "y");
    copy.set_name(RecomputeName(0, "y"));
    copy.add_input("^" + control);
    *graph->add_node() = copy;
    for (NodeDef& node : *graph->mutable_node()) {
      if (node.name() == reader) node.set_input(0, copy.name());
    }
  }

  testing::GraphBuilder b_;
};

TEST_F(VerifyPlaces, AReroutedResult) {
  b_.Float("result", "_Retval", {"y"}, {testing::Int("index", 0)});
  b_.item().keep_ops.push_back("result");
  ExpectRefused("the result result was rerouted", [](GraphDef* graph) { CopyY("x", "result", graph); });
}

TEST_F(VerifyPlaces, ACopyInABranch) {
  b_.Parse(
      "switch = Switch(x, p); pivot = Relu(switch:1); yes = AddV2(y, pivot); merge = Merge(switch, yes); "
      "last = AddV2(y, merge); fetch last");
  ExpectRefused("node last was moved into or out of a loop or branch",
                [](GraphDef* graph) { CopyY("yes", "last", graph); });
  ExpectRefused("lms/recompute/0/y is in another loop or branch than y",
                [](GraphDef* graph) { CopyY("pivot", "yes", graph); });
}

TEST_F(VerifyPlaces, AnEdgeIntoALoop) {
  const testing::Attr frame = testing::Text("frame_name", "loop");
  b_.Float("enter", "Enter", {"y"}, {frame});
  b_.Add("enter_p", "Enter", {"p"},
         {frame, testing::Type("T", tensorflow::DT_BOOL), testing::Bool("is_constant", true)});
  b_.Float("merge", "Merge", {"enter", "next"}, {testing::Int("N", 2)});
  b_.Add("cond", "LoopCond", {"enter_p"});
  b_.Parse(
      "switch = Switch(merge, cond); body = Relu(switch:1); next = NextIteration(body); exit = Exit(switch); "
      "last = AddV2(y, exit); fetch last");
  ExpectRefused("node body was moved into or out of a loop or branch", [](GraphDef* graph) {
    for (NodeDef& node : *graph->mutable_node()) {
      if (node.name() == "body") node.add_input("^y");
    }
  });
  ExpectRefused("switch decides what runs and has other inputs than before", [](GraphDef* graph) {
    for (NodeDef& node : *graph->mutable_node()) {
      if (node.name() == "switch") node.add_input("^merge");
    }
  });
  ExpectRefused("node last was moved into or out of a loop or branch",
                [](GraphDef* graph) { CopyY("body", "last", graph); });
}

TEST_F(VerifyPlaces, LoopsAndBranchesMayBeginLater) {
  b_.Parse("z = Tanh(x); switch = Switch(y, p); yes = Relu(switch:1); merge = Merge(switch, yes)");
  const testing::Attr frame = testing::Text("frame_name", "loop");
  b_.Float("enter", "Enter", {"y"}, {frame, testing::Bool("is_constant", true)});
  b_.Add("enter_p", "Enter", {"p"},
         {frame, testing::Type("T", tensorflow::DT_BOOL), testing::Bool("is_constant", true)});
  b_.Float("loop_merge", "Merge", {"enter_y", "next"}, {testing::Int("N", 2)});
  b_.Float("enter_y", "Enter", {"y"}, {frame});
  b_.Add("cond", "LoopCond", {"enter_p"});
  b_.Parse(
      "loop_switch = Switch(loop_merge, cond); body = Mul(loop_switch:1, enter); next = NextIteration(body); "
      "exit = Exit(loop_switch); last = AddV2(merge, exit); fetch last, z");
  const Imported step(b_.item());
  for (const std::string name : {"switch", "enter", "enter_y"}) {
    const auto waits_for = [&](const std::string& other) {
      tensorflow::grappler::GrapplerItem rewritten = step.item();
      for (NodeDef& node : *rewritten.graph.mutable_node()) {
        if (node.name() == name) node.add_input("^" + other);
      }
      MemoryProfile profile;
      return VerifyRewrite(step.item(), step.index(), rewritten, step.sizes(), 1, SwapLink(), &profile);
    };
    EXPECT_TRUE(waits_for("z").ok()) << name << waits_for("z").message();
    EXPECT_FALSE(waits_for("yes").ok()) << name;   // it might never run
    EXPECT_FALSE(waits_for("last").ok()) << name;  // it comes after
  }
}

// TensorFlow ends an iteration when all that enters the loop has come, though nobody reads it: with iterations one by
// one, what waits for the loop's end would never run, and the step would end without its results.
TEST(VerifyLoops, WhatEntersALoopWaitsForNothingThatLeavesIt) {
  testing::LoopBuilder b;
  b.Parse("late = Tanh(x); other = Tanh(x)");
  b.Carry("y", "late", "other_switch:1", tensorflow::DT_FLOAT);  // its first value is read by none
  b.Carry("other", "other", "other_switch:1", tensorflow::DT_FLOAT);
  b.Add("ended", "Identity", {"i_exit"}, {testing::OfType(tensorflow::DT_INT32)});
  b.Parse("fetch y_exit, ended");
  const Imported step(b.item());
  tensorflow::grappler::GrapplerItem rewritten = step.item();
  const auto verify = [&] {
    MemoryProfile profile;
    return VerifyRewrite(step.item(), step.index(), rewritten, step.sizes(), 1, SwapLink(), &profile);
  };
  EXPECT_TRUE(verify().ok()) << verify().message();
  for (NodeDef& node : *rewritten.graph.mutable_node()) {
    if (node.name() == "late") node.add_input("^ended");
  }
  EXPECT_NE(verify().message().find("cycle"), std::string::npos) << verify().message();
}

}  // namespace
}  // namespace lms
