#include "cc/tf/rewrite/split_swaps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/graph_check.h"
#include "lms_build_facts.h"
#include "tests/cc/tf/swap_plan.h"

namespace lms {
namespace {

using testing::kGpu;

// A step with a swap, as it was rewritten; on a GPU.
class SplitSwapsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (LMS_TF_VERSION_NUMBER < 2021) GTEST_SKIP() << "this TensorFlow has no streams that could wait";
  }
  void Rewrite(const std::string& tier, const std::string& device) { item_ = testing::SwappedStep(device, tier); }
  void Split() { ASSERT_TRUE(SplitSwaps(Deadline(), &item_).ok()); }

  std::vector<const tensorflow::NodeDef*> OfType(const std::string& op) const {
    std::vector<const tensorflow::NodeDef*> found;
    for (const tensorflow::NodeDef& node : item_.graph.node()) {
      if (node.op() == op) found.push_back(&node);
    }
    return found;
  }
  std::vector<std::string> Inputs(const std::string& name) const {
    for (const tensorflow::NodeDef& node : item_.graph.node()) {
      if (node.name() == name) return {node.input().begin(), node.input().end()};
    }
    return {};
  }
  static bool Has(const std::vector<std::string>& inputs, const std::string& input) {
    return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
  }

  const std::string out_ = SwapOutName(0, "tanh_1");
  const std::string in_ = SwapInName(0, "tanh_1");
  tensorflow::grappler::GrapplerItem item_;
};

TEST_F(SplitSwapsTest, EachReaderHasItsOwnWaitBehindAllElseThatItNeeds) {
  Rewrite("host", kGpu);
  Split();
  ASSERT_EQ(OfType("LmsSwapFetch").size(), 1U);
  EXPECT_EQ(OfType("LmsSwapFetch")[0]->name(), in_);
  EXPECT_TRUE(OfType("LmsSwapIn").empty());
  EXPECT_TRUE(OfType("LmsSwapOut")[0]->attr().at("behind").b());
  const auto fetched = OfType("LmsSwapFetched");
  ASSERT_EQ(fetched.size(), 2U);  // for weight_grad_2 and tanh_grad_1
  for (const tensorflow::NodeDef* node : fetched) {
    EXPECT_EQ(node->input(0), in_);
    EXPECT_EQ(node->device(), kGpu);
  }
  for (const char* reader : {"weight_grad_2", "tanh_grad_1"}) {
    const std::vector<std::string> inputs = Inputs(reader);
    EXPECT_FALSE(Has(inputs, in_)) << reader;
    const tensorflow::NodeDef* own = nullptr;
    for (const tensorflow::NodeDef* node : fetched) {
      if (Has(inputs, node->name())) own = node;
    }
    ASSERT_NE(own, nullptr) << reader;
    const std::vector<std::string> waits(own->input().begin(), own->input().end());
    for (const std::string& input : inputs) {
      if (input == own->name() || input[0] == '^') continue;
      EXPECT_TRUE(Has(waits, "^" + input)) << reader << " " << input;
    }
  }
}

// Each waits for what the reader needs besides, and not for each other.
TEST_F(SplitSwapsTest, TwoViewsOfOneReaderDoNotWaitForEachOther) {
  Rewrite("host", kGpu);
  for (tensorflow::NodeDef& node : *item_.graph.mutable_node()) {
    if (node.name() != "weight_grad_2") continue;
    node.set_input(0, "view_a");
    node.set_input(1, "view_b");
  }
  for (const char* name : {"view_a", "view_b"}) {
    tensorflow::NodeDef* const view = item_.graph.add_node();
    view->set_name(name);
    view->set_op("Identity");
    view->set_device(kGpu);
    view->add_input(in_);
    (*view->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  }
  ASSERT_TRUE(CheckGraph(item_.graph).ok());
  Split();
  EXPECT_EQ(OfType("LmsSwapFetched").size(), 3U);  // for the two, and for tanh_grad_1
  EXPECT_TRUE(CheckGraph(item_.graph).ok()) << CheckGraph(item_.graph).message();
}

TEST_F(SplitSwapsTest, WhatWaitsForASwapOutWaitsForItsCopyRightBefore) {
  Rewrite("host", kGpu);
  std::vector<std::string> waited;
  for (const tensorflow::NodeDef& node : item_.graph.node()) {
    if (Has(Inputs(node.name()), "^" + out_)) waited.push_back(node.name());
  }
  ASSERT_FALSE(waited.empty());
  Split();
  ASSERT_EQ(OfType("LmsSwapWait").size(), waited.size());
  for (size_t i = 0; i < waited.size(); ++i) {
    const tensorflow::NodeDef& wait = *OfType("LmsSwapWait")[i];
    EXPECT_EQ(wait.input(0), out_);
    EXPECT_EQ(wait.attr().at("N").i(), 1);
    EXPECT_FALSE(Has(Inputs(waited[i]), "^" + out_));
    EXPECT_TRUE(Has(Inputs(waited[i]), "^" + wait.name()));
  }
}

TEST_F(SplitSwapsTest, AReaderElsewhereHasAWaitThatNeedsNothingElse) {
  Rewrite("host", kGpu);
  for (tensorflow::NodeDef& node : *item_.graph.mutable_node()) {
    if (node.name() == "weight_grad_2") node.set_device("/job:localhost/replica:0/task:0/device:CPU:0");
  }
  Split();
  int alone = 0;
  for (const tensorflow::NodeDef* node : OfType("LmsSwapFetched")) {
    if (!Has(Inputs("weight_grad_2"), node->name())) continue;
    EXPECT_EQ(node->input_size(), 1);
    EXPECT_EQ(node->device(), kGpu);
    ++alone;
  }
  EXPECT_EQ(alone, 1);
}

TEST_F(SplitSwapsTest, JoinedAgainTheyAreWhatTheyWere) {
  Rewrite("host", kGpu);
  const tensorflow::GraphDef before = item_.graph;
  Split();
  EXPECT_TRUE(IsSplitOf(item_.graph, before));
  tensorflow::GraphDef joined = item_.graph;
  JoinSwaps(&joined);
  ASSERT_EQ(joined.node_size(), before.node_size());
  EXPECT_TRUE(IsSplitOf(joined, before));
  for (const tensorflow::NodeDef& node : joined.node()) {
    if (node.op() != "LmsSwapOut") continue;
    EXPECT_FALSE(node.attr().at("behind").b());
  }
}

TEST_F(SplitSwapsTest, AnyOtherChangeIsSeen) {
  Rewrite("host", kGpu);
  const tensorflow::GraphDef before = item_.graph;
  Split();
  const tensorflow::GraphDef split = item_.graph;
  const auto seen = [&](const std::string& name, const auto& change) {
    tensorflow::GraphDef changed = split;
    for (tensorflow::NodeDef& node : *changed.mutable_node()) {
      if (node.name() == name) change(&node);
    }
    return !IsSplitOf(changed, before);
  };
  const std::string fetched = OfType("LmsSwapFetched")[0]->name();
  const std::string wait = OfType("LmsSwapWait")[0]->name();
  EXPECT_TRUE(seen(fetched, [](tensorflow::NodeDef* node) { node->set_input(0, "tanh_1"); }));
  EXPECT_TRUE(seen(wait, [](tensorflow::NodeDef* node) { node->set_input(0, "tanh_1"); }));
  EXPECT_TRUE(seen("weight_grad_2", [](tensorflow::NodeDef* node) { node->set_input(1, node->input(0)); }));
  EXPECT_TRUE(seen("tanh_grad_2", [](tensorflow::NodeDef* node) { node->add_input("^tanh_1"); }));
  EXPECT_TRUE(seen(in_, [](tensorflow::NodeDef* node) { node->set_device(testing::kCpu); }));
}

TEST_F(SplitSwapsTest, SwapsToADiskAndOfACpuStayAsTheyAre) {
  for (const auto& [tier, device] : {std::pair<std::string, std::string>{"disk", kGpu}, {"host", testing::kCpu}}) {
    Rewrite(tier, device);
    const std::string before = item_.graph.SerializeAsString();
    Split();
    EXPECT_EQ(item_.graph.SerializeAsString(), before) << tier << " " << device;
  }
}

}  // namespace
}  // namespace lms
