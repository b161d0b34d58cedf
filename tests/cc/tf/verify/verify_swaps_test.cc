#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "cc/core/graph/node_names.h"
#include "cc/tf/verify/verify.h"
#include "tests/cc/tf/swap_plan.h"

namespace lms {
namespace {

using tensorflow::NodeDef;
using testing::Imported;
using testing::kTile;
using testing::Swapped;
using testing::SwapPlan;

// A sound rewrite of a chain of three layers: tanh_0 and tanh_1 are swapped.
class VerifySwaps : public ::testing::Test {
 protected:
  VerifySwaps()
      : step_(testing::TrainChain(3)),
        out_(step_, SwapPlan(step_, {{"tanh_0", "tanh_1"}, {"tanh_1", "tanh_2"}},
                             {{"tanh_1", "weight_grad_2"}, {"tanh_0", "weight_grad_1"}})) {
    EXPECT_TRUE(out_.status.ok()) << out_.status.message();
    link_.out_bytes_per_us = 1000;
    link_.in_bytes_per_us = 1000;
  }

  NodeDef* Node(const std::string& name) {
    for (NodeDef& node : *out_.item.graph.mutable_node()) {
      if (node.name() == name) return &node;
    }
    return nullptr;
  }

  absl::Status Verify() {
    return VerifyRewrite(step_.item(), step_.index(), out_.item, step_.sizes(), 1, link_, &profile_);
  }

  void ExpectRefused(const std::string& reason) {
    const absl::Status status = Verify();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  }

  const std::string out_0_ = SwapOutName(0, "tanh_0");
  const std::string out_1_ = SwapOutName(1, "tanh_1");
  const std::string in_1_ = SwapInName(0, "tanh_1");
  const std::string in_0_ = SwapInName(1, "tanh_0");
  Imported step_;
  Swapped out_;
  SwapLink link_;
  MemoryProfile profile_;
};

TEST_F(VerifySwaps, ASoundGraphPassesAndIsImported) {
  const absl::Status status = Verify();
  ASSERT_TRUE(status.ok()) << status.message();
  const Imported after(out_.item);
  // A handle takes nothing; what comes back is a buffer of its own, of the size of the original.
  EXPECT_EQ(after.Buffer(out_1_).bytes, 0);
  EXPECT_FALSE(after.Buffer(out_1_).swappable);
  EXPECT_EQ(after.Buffer(in_1_).bytes, kTile);
  EXPECT_EQ(after.Buffer(in_1_).name, in_1_ + ":0");
  EXPECT_FALSE(after.Op(in_1_).recomputable);
  EXPECT_FALSE(after.Buffer(in_1_).evictable);
  EXPECT_TRUE(after.Reads(out_1_, "tanh_1"));
  EXPECT_TRUE(after.Reads("weight_grad_2", in_1_));
  EXPECT_EQ(after.Op(in_1_).workspace_bytes, 0);
}

TEST_F(VerifySwaps, TransfersTakeWhatTheLinkTakes) {
  GraphIndex index;
  ASSERT_TRUE(index.Build(out_.item).ok());
  ImportedGraph imported;
  ASSERT_TRUE(ImportGraph(out_.item, index, step_.sizes(), &imported).ok());
  link_.in_bytes_per_us = 500;
  link_.latency_us = 7;
  link_.out_share = link_.in_share = 0.5;
  ImportCosts(out_.item, step_.sizes(), link_, &imported);
  EXPECT_TRUE(imported.one_lane);
  const auto cost = [&](const std::string& name) {
    return imported.graph.ops[imported.op_of_node[index.Find(name)]].cost_us;
  };
  EXPECT_DOUBLE_EQ(cost(out_1_), 7 + kTile / 1000.0);
  EXPECT_DOUBLE_EQ(cost(in_1_), 7 + kTile / 500.0);
}

TEST_F(VerifySwaps, AHandleOfAnotherTensor) {
  Node(in_1_)->set_input(0, out_0_);
  ExpectRefused(in_1_ + " brings back what " + out_0_ + " has swapped out");
}

TEST_F(VerifySwaps, AnotherTensorIsSwappedOut) {
  Node(out_1_)->set_input(0, "tanh_0");
  ExpectRefused(out_1_ + " does not swap a tensor of tanh_1");
}

TEST_F(VerifySwaps, AnotherSwapInIsRead) {
  Node("tanh_grad_1")->set_input(0, in_0_);
  ExpectRefused("node tanh_grad_1 has other inputs than before");
}

TEST_F(VerifySwaps, AHandleIsReadForATensor) {
  Node("tanh_grad_1")->set_input(0, out_1_);
  ExpectRefused("node tanh_grad_1 has other inputs than before");
}

TEST_F(VerifySwaps, ASwapInOfAnotherType) {
  (*Node(in_1_)->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  ExpectRefused(in_1_ + " has another type than " + out_1_);
}

TEST_F(VerifySwaps, BothOfAnotherType) {
  (*Node(in_1_)->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  (*Node(out_1_)->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  ExpectRefused(" has another type than what it swaps");
}

TEST_F(VerifySwaps, ASwapInThatKnowsAShape) {
  (*Node(in_1_)->mutable_attr())["shape"].mutable_shape()->set_unknown_rank(false);
  ExpectRefused(in_1_ + " claims to know a shape");
}

TEST_F(VerifySwaps, ASwapInWithoutASwapOut) {
  Node(in_1_)->set_input(0, "tanh_1");
  ExpectRefused(in_1_ + " has no swap-out");
}

TEST_F(VerifySwaps, AnUnknownTier) {
  (*Node(out_1_)->mutable_attr())["tier"].set_s("tape");
  ExpectRefused("tape");
}

TEST_F(VerifySwaps, AnotherDevice) {
  Node(out_1_)->set_device(testing::kOtherCpu);
  ExpectRefused(out_1_ + " is on another device than tanh_1");
}

TEST_F(VerifySwaps, ASwapUnderTheNameOfARecomputation) {
  NodeDef* node = Node(out_1_);
  node->set_name(RecomputeName(0, "tanh_1"));
  Node(in_1_)->set_input(0, node->name());
  ExpectRefused("is a swap under another name");
}

TEST_F(VerifySwaps, ACycle) {
  Node(out_1_)->add_input("^" + in_1_);
  ExpectRefused("cycle");
}

TEST_F(VerifySwaps, ATensorThatIsPresentAllAlong) {
  NodeDef swap = *Node(out_1_);
  swap.set_name(SwapOutName(2, "x"));
  swap.set_input(0, "x");
  *out_.item.graph.add_node() = std::move(swap);
  ExpectRefused("must not be swapped");
}

TEST(VerifySwapsInPlaces, ATensorOfAnotherRegion) {
  testing::GraphBuilder b;
  b.Parse(
      "x[256, 64]; p = Placeholder; y = Relu(x); switch = Switch(x, p); pivot = Relu(switch:1); "
      "yes = AddV2(y, pivot); merge = Merge(switch, yes); middle = Tanh(y); last = AddV2(middle, merge); "
      "more = AddV2(middle, last); fetch more");
  const Imported step(b.item());
  ASSERT_TRUE(step.Buffer("middle").swappable);
  EXPECT_FALSE(step.Buffer("y").swappable);      // used in the branch
  EXPECT_FALSE(step.Buffer("pivot").swappable);  // made there
  Swapped out(step, SwapPlan(step, {{"middle", "merge"}}, {{"middle", "more"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  MemoryProfile profile;
  const auto verify = [&] {
    return VerifyRewrite(step.item(), step.index(), out.item, step.sizes(), 1, SwapLink(), &profile);
  };
  ASSERT_TRUE(verify().ok()) << verify().message();
  for (NodeDef& node : *out.item.graph.mutable_node()) {
    if (node.name() == SwapInName(0, "middle")) node.add_input("^pivot");
  }
  EXPECT_NE(verify().message().find("loop or branch"), std::string::npos) << verify().message();
  for (NodeDef& node : *out.item.graph.mutable_node()) {
    if (node.op() == "LmsSwapOut") node.set_input(0, "pivot");
  }
  EXPECT_FALSE(verify().ok());
}

}  // namespace
}  // namespace lms
