#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/graph_check.h"
#include "cc/tf/loops/check_loops.h"
#include "cc/tf/loops/kept_lists.h"
#include "cc/tf/loops/list_chains.h"
#include "cc/tf/loops/recompute_in_loops.h"
#include "tests/cc/tf/loops/gradient_loop_test.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using testing::CopyOf;
using testing::Fault;
using testing::FindNode;
using testing::HasInput;
using testing::Node;

class LoopsTest : public testing::GradientLoopTest {
 protected:
  std::vector<GradientLoop> Found() {
    GraphIndex index;
    EXPECT_TRUE(index.Build(b_.item()).ok());
    return FindGradientLoops(b_.item().graph, index, Loops(b_.item().graph, index));
  }

  std::vector<ListCut> Cuts() {
    ReadGraph();
    return FindListCuts(b_.item(), index_, *sizes_, types_, testing::kCpu);
  }

  // With the cut that saves most.
  GraphDef Recomputed() {
    const std::vector<ListCut> cuts = Cuts();
    EXPECT_FALSE(cuts.empty());
    GraphDef graph = b_.item().graph;
    if (cuts.empty()) return graph;
    const absl::Status status = RecomputeInLoops(cuts.back(), index_, &graph);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(CheckGraph(graph).ok()) << CheckGraph(graph);
    return graph;
  }

  absl::Status Check(const GraphDef& graph) { return CheckBy(CheckLoops, graph); }
};

TEST_F(LoopsTest, FindsTheListsOfAGradient) {
  const std::vector<GradientLoop> loops = Found();
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(loops[0].chains.size(), 3U);
  EXPECT_NE(loops[0].forward, loops[0].backward);
}

TEST_F(LoopsTest, AListWithAnotherReaderIsNone) {
  b_.Add("length", "TensorListLength", {"product_list_exit"});
  b_.Fetch("length");
  ASSERT_EQ(Found().size(), 1U);
  EXPECT_EQ(Found()[0].chains.size(), 2U);
}

TEST_F(LoopsTest, AListThatIsPushedTwiceIsNone) {
  b_.Add("again", "TensorListPushBack", {"product_push", "product"},
         {testing::Type("element_dtype", tensorflow::DT_FLOAT)});
  *Node(&b_.item().graph, "product_list_next")->mutable_input(0) = "again";
  ASSERT_EQ(Found().size(), 1U);
  EXPECT_EQ(Found()[0].chains.size(), 2U);
}

TEST_F(LoopsTest, AListThatIsReturnedIsNone) {
  b_.Fetch("squashed_list_exit");
  ASSERT_EQ(Found().size(), 1U);
  EXPECT_EQ(Found()[0].chains.size(), 2U);
}

TEST_F(LoopsTest, KeepsTheStateAloneAndComputesTheRestAgain) {
  const std::vector<ListCut> cuts = Cuts();
  ASSERT_FALSE(cuts.empty());
  EXPECT_EQ(cuts.back().loops.size(), 1U);
  EXPECT_EQ(cuts.back().loops[0].new_elements.size(), 0U);
  // Of product and squashed, each 64 KiB; what is squashed in one iteration is the state of the next.
  EXPECT_EQ(cuts.back().bytes, 2 * testing::kRounds * testing::kTile);
  EXPECT_GT(cuts.back().cost_us, 0);
  for (size_t i = 1; i < cuts.size(); ++i) {
    EXPECT_GT(cuts[i].bytes, cuts[i - 1].bytes);
    EXPECT_GT(cuts[i].cost_us, cuts[i - 1].cost_us);
  }
}

TEST_F(LoopsTest, CopiesReadWhatListsBringAndWhatDoesNotChange) {
  const GraphDef graph = Recomputed();
  const std::string product = CopyOf(graph, "product");
  const std::string squashed = CopyOf(graph, "squashed");
  ASSERT_FALSE(product.empty());
  ASSERT_FALSE(squashed.empty());
  EXPECT_TRUE(HasInput(graph, "slope", squashed));
  EXPECT_TRUE(HasInput(graph, "bent", product));
  EXPECT_TRUE(HasInput(graph, product, "y_pop:1"));
  EXPECT_TRUE(HasInput(graph, "dw_part", "y_pop:1"));
  const std::string w = CopyOf(graph, "w_in");
  EXPECT_TRUE(HasInput(graph, product, w));
  EXPECT_EQ(FindNode(graph, w)->attr().at("frame_name").s(), "gradient");
  EXPECT_TRUE(FindNode(graph, w)->attr().at("is_constant").b());
  for (const std::string gone : {"product_push", "product_pop", "squashed_push", "squashed_pop"}) {
    EXPECT_EQ(FindNode(graph, gone)->op(), "NoOp") << gone;
  }
  EXPECT_TRUE(HasInput(graph, "product_list_next", "product_list_switch:1"));
  EXPECT_TRUE(HasInput(graph, "product_back_next", "product_back_switch:1"));
  EXPECT_TRUE(Check(graph).ok()) << Check(graph);
}

TEST_F(LoopsTest, AListHandsOnWhatCopiesNeedThatNothingElseBrings) {
  // A read of a variable is not done again: its value is handed on.
  b_.Variable("v", {64});
  b_.Add("v_in", "Enter", {"v"},
         {testing::Type("T", tensorflow::DT_RESOURCE), testing::Text("frame_name", "loop"),
          testing::Bool("is_constant", true), testing::Int("parallel_iterations", testing::kParallel)});
  b_.Read("bias", "v_in", {"^i_add"});
  b_.Float("biased", "BiasAdd", {"product", "bias"});
  *Node(&b_.item().graph, "squashed")->mutable_input(0) = "biased";
  const GraphDef graph = Recomputed();
  const std::string biased = CopyOf(graph, "biased");
  ASSERT_FALSE(biased.empty());
  EXPECT_TRUE(CopyOf(graph, "bias").empty());
  const bool by_product = HasInput(graph, "product_push", "bias");
  EXPECT_TRUE(by_product || HasInput(graph, "squashed_push", "bias"));
  EXPECT_TRUE(HasInput(graph, biased, by_product ? "product_pop:1" : "squashed_pop:1"));
  EXPECT_TRUE(Check(graph).ok()) << Check(graph);
}

TEST_F(LoopsTest, MoreThanIsDroppedGoesByNewLists) {
  // Three reads of variables for two lists that are dropped.
  std::string sum = "product";
  for (const std::string v : {"v0", "v1", "v2"}) {
    b_.Variable(v, {64});
    b_.Add(v + "_in", "Enter", {v},
           {testing::Type("T", tensorflow::DT_RESOURCE), testing::Text("frame_name", "loop"),
            testing::Bool("is_constant", true), testing::Int("parallel_iterations", testing::kParallel)});
    b_.Read(v + "_read", v + "_in", {"^i_add"});
    b_.Float(v + "_biased", "BiasAdd", {sum, v + "_read"});
    sum = v + "_biased";
  }
  *Node(&b_.item().graph, "squashed")->mutable_input(0) = sum;
  const std::vector<ListCut> cuts = Cuts();
  ASSERT_FALSE(cuts.empty());
  EXPECT_EQ(cuts.back().loops[0].new_elements.size(), 3U);
  const GraphDef graph = Recomputed();
  EXPECT_TRUE(Check(graph).ok()) << Check(graph);
  const std::string pop = CopyOf(graph, CopyOf(graph, "product_pop").empty() ? "y_pop" : "product_pop");
  ASSERT_FALSE(pop.empty());
  EXPECT_EQ(FindNode(graph, pop)->op(), "TensorListPopBack");
  // A new list that brings something else is noticed, too.
  for (const NodeDef& node : graph.node()) {
    if (!IsLoopName(node.name()) || node.op() != "TensorListPushBack") continue;
    GraphDef other = graph;
    Node(&other, node.name())->set_input(1, "squashed");
    EXPECT_FALSE(Check(other).ok());
  }
}

TEST_F(LoopsTest, WhatMayNotRunTwiceIsKept) {
  b_.Float("noise", "RandomUniform", {"axes"}, {});
  NodeDef* noise = Node(&b_.item().graph, "noise");
  noise->mutable_attr()->clear();
  (*noise->mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  (*noise->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  noise->set_input(0, "shape");
  b_.ShapeConstant("shape", {256, 64});
  noise->add_input("^i_add");
  b_.Float("noisy", "AddV2", {"product", "noise"});
  *Node(&b_.item().graph, "squashed")->mutable_input(0) = "noisy";
  const std::vector<ListCut> cuts = Cuts();
  for (const ListCut& cut : cuts) {
    EXPECT_FALSE(cut.loops[0].runs_again[index_.Find("noise")]);
    GraphDef graph = b_.item().graph;
    ASSERT_TRUE(RecomputeInLoops(cut, index_, &graph).ok());
    EXPECT_TRUE(Check(graph).ok()) << Check(graph);
  }
}

TEST_F(LoopsTest, NothingWhereASumInTheBodyDependsOnWhoHoldsItsTerms) {
  b_.Float("three", "AddN", {"product", "product", "y_switch:1"}, {testing::Int("N", 3)});
  *Node(&b_.item().graph, "squashed")->mutable_input(0) = "three";
  EXPECT_TRUE(Cuts().empty());
}

TEST_F(LoopsTest, WhereNoListHoldsTheTermsOfASumOtherListsMayGo) {
  for (const std::string term : {"a", "b", "c"}) b_.Float(term, "Neg", {"product"});
  b_.Float("three", "AddN", {"a", "b", "c"}, {testing::Int("N", 3)});
  *Node(&b_.item().graph, "squashed")->mutable_input(0) = "three";
  const GraphDef graph = Recomputed();
  const std::string product = CopyOf(graph, "product");
  ASSERT_FALSE(product.empty());
  EXPECT_TRUE(HasInput(graph, product, "y_pop:1"));
  EXPECT_TRUE(HasInput(graph, "slope", "squashed_pop:1"));
  EXPECT_TRUE(CopyOf(graph, "three").empty());
  EXPECT_TRUE(Check(graph).ok()) << Check(graph);
}

TEST_F(LoopsTest, NothingWhereASumIsInALoopWithin) {
  b_.Add("within_in", "Enter", {"product"},
         {testing::Type("T", tensorflow::DT_FLOAT), testing::Text("frame_name", "within")});
  b_.Float("within_sum", "AddN", {"within_in", "within_in", "within_in"}, {testing::Int("N", 3)});
  b_.Add("within_exit", "Exit", {"within_sum"}, {testing::Type("T", tensorflow::DT_FLOAT)});
  *Node(&b_.item().graph, "squashed")->mutable_input(0) = "within_exit";
  EXPECT_TRUE(Cuts().empty());
}

TEST_F(LoopsTest, NothingWhereSuchASumTakesWhatLeavesTheLoop) {
  // The last state is in no list, or in one: that decides whether the sum may take it over.
  b_.Float("view", "Identity", {"y_exit"});
  b_.Float("outside", "AddN", {"use_dy_exit", "use_dw_exit", "view"}, {testing::Int("N", 3)});
  b_.Fetch("outside");
  EXPECT_TRUE(Cuts().empty());
}

TEST_F(LoopsTest, NothingWhereSuchASumTakesWhatEntersTheLoop) {
  b_.Float("outside", "AddN", {"use_dy_exit", "use_dw_exit", "w"}, {testing::Int("N", 3)});
  b_.Fetch("outside");
  EXPECT_TRUE(Cuts().empty());
}

TEST_F(LoopsTest, SumsOfTwoDependOnNobody) {
  b_.Float("outside", "AddN", {"use_dy_exit", "y_exit"}, {testing::Int("N", 2)});
  b_.Fetch("outside");
  EXPECT_FALSE(Cuts().empty());
}

class LoopFaults : public LoopsTest, public ::testing::WithParamInterface<int> {};

// Each of these makes another computation of the graph, and is noticed.
const std::vector<Fault>& CutFaults() {
  static const auto* const faults = new std::vector<Fault>{
      {"another op", [](GraphDef* g) { Node(g, CopyOf(*g, "squashed"))->set_op("Sigmoid"); }},
      {"another input", [](GraphDef* g) { Node(g, CopyOf(*g, "squashed"))->set_input(0, "y_pop:1"); }},
      {"another attribute",
       [](GraphDef* g) { (*Node(g, CopyOf(*g, "product"))->mutable_attr())["transpose_b"].set_b(true); }},
      {"another constant of the loop",
       [](GraphDef* g) {
         Node(g, CopyOf(*g, "product"))->set_input(1, "back_other_in");
         NodeDef other = *FindNode(*g, CopyOf(*g, "w_in"));
         other.set_name("back_other_in");
         other.set_input(0, "x");
         *g->add_node() = std::move(other);
       }},
      {"an element of another list", [](GraphDef* g) { Node(g, "slope")->set_input(0, CopyOf(*g, "product")); }},
      {"a push of something else", [](GraphDef* g) { Node(g, "y_push")->set_input(1, "squashed"); }},
      {"a reader elsewhere", [](GraphDef* g) { Node(g, "dw_sum")->set_input(1, CopyOf(*g, "w_in")); }},
      {"a push that is missing", [](GraphDef* g) { Node(g, "y_list_next")->set_input(0, "y_list_switch:1"); }},
      {"an original that was changed", [](GraphDef* g) { Node(g, "squashed")->set_op("Sigmoid"); }},
      {"a wait that is missing", [](GraphDef* g) { Node(g, "squashed_any")->clear_input(); }},
      {"a foreign node",
       [](GraphDef* g) {
         NodeDef node = *FindNode(*g, CopyOf(*g, "squashed"));
         node.set_name("somebody/else");
         *g->add_node() = std::move(node);
       }},
  };
  return *faults;
}

TEST_P(LoopFaults, AreNoticed) {
  const Fault& fault = CutFaults()[GetParam()];
  GraphDef graph = Recomputed();
  ASSERT_TRUE(Check(graph).ok()) << Check(graph);
  fault.make(&graph);
  EXPECT_FALSE(Check(graph).ok()) << fault.name;
}

INSTANTIATE_TEST_SUITE_P(All, LoopFaults, ::testing::Range(0, static_cast<int>(CutFaults().size())));

}  // namespace
}  // namespace lms
