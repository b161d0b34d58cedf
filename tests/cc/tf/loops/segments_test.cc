#include "cc/tf/loops/segments.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/graph_check.h"
#include "cc/tf/loops/check_segments.h"
#include "cc/tf/loops/recompute_segments.h"
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

constexpr int kManyRounds = 50;

class SegmentsTest : public testing::GradientLoopTest {
 protected:
  SegmentsTest() {
    tensorflow::TensorProto* rounds = (*Node(&b_.item().graph, "rounds")->mutable_attr())["value"].mutable_tensor();
    rounds->set_int_val(0, kManyRounds);
  }

  std::vector<LoopSegments> Segments() {
    ReadGraph();
    return FindLoopSegments(b_.item().graph, index_, *sizes_, types_, testing::kCpu);
  }

  GraphDef Recomputed() {
    const std::vector<LoopSegments> segments = Segments();
    EXPECT_EQ(segments.size(), 1U);
    GraphDef graph = b_.item().graph;
    const absl::Status status = RecomputeSegments(segments, index_, &graph);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(CheckGraph(graph).ok()) << CheckGraph(graph);
    return graph;
  }

  absl::Status Check(const GraphDef& graph) { return CheckBy(CheckSegments, graph); }

  // A read of a variable in each iteration, which is not done again.
  void ReadABias() {
    b_.Variable("v", {64});
    b_.Add("v_in", "Enter", {"v"},
           {testing::Type("T", tensorflow::DT_RESOURCE), testing::Text("frame_name", "loop"),
            testing::Bool("is_constant", true), testing::Int("parallel_iterations", testing::kParallel)});
    b_.Read("bias", "v_in", {"^i_add"});
    b_.Float("biased", "BiasAdd", {"product", "bias"});
    Node(&b_.item().graph, "squashed")->set_input(0, "biased");
  }
};

// The added node of that op which has the input; "" where there is none.
std::string Added(const GraphDef& graph, const std::string& op, const std::string& input) {
  for (const NodeDef& node : graph.node()) {
    if (IsLoopName(node.name()) && node.op() == op && HasInput(graph, node.name(), input)) return node.name();
  }
  return "";
}

// The value of the constant that is handed in as that input.
tensorflow::TensorProto* ConstantOf(GraphDef* graph, const std::string& node, int input) {
  std::string name = FindNode(*graph, node)->input(input);
  while (FindNode(*graph, name)->op() == "Enter") name = FindNode(*graph, name)->input(0);
  return (*Node(graph, name)->mutable_attr())["value"].mutable_tensor();
}

TEST_F(SegmentsTest, KeepsEveryFewStatesAndTheListsOfOneSegment) {
  const std::vector<LoopSegments> segments = Segments();
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].loop.chains.size(), 3U);
  ASSERT_EQ(segments[0].states.size(), 1U);
  EXPECT_EQ(segments[0].states[0].variable.fork, index_.Find("y_switch"));
  EXPECT_TRUE(segments[0].indexed.empty());
  // 50 iterations of two tensors (what is squashed is the next state): sqrt(50 / 2) = 5 in a segment.
  EXPECT_EQ(segments[0].length, 5);
  EXPECT_EQ(segments[0].states_kept, 11);
  EXPECT_EQ(segments[0].bytes, (kManyRounds * 2 - 11 - 5 * 2) * testing::kTile);
  EXPECT_GT(segments[0].cost_us, 0);
}

TEST_F(SegmentsTest, NoneWhereNobodyKnowsHowOftenTheLoopGoesRound) {
  Node(&b_.item().graph, "rounds")->set_op("Placeholder");
  auto& attrs = *Node(&b_.item().graph, "rounds")->mutable_attr();
  attrs.erase("value");
  EXPECT_TRUE(Segments().empty());
}

TEST_F(SegmentsTest, PopsReadWhatALoopWithinHasPushed) {
  const GraphDef graph = Recomputed();
  for (const std::string list : {"y", "product", "squashed"}) {
    EXPECT_EQ(FindNode(graph, list + "_push")->op(), "NoOp");
    EXPECT_TRUE(HasInput(graph, list + "_list_next", list + "_list_switch:1"));
    const std::string push = CopyOf(graph, list + "_push", "TensorListPushBack");
    EXPECT_EQ(FindNode(graph, push)->input(0), CopyOf(graph, list + "_back_switch") + ":1");
    EXPECT_EQ(FindNode(graph, FindNode(graph, list + "_pop")->input(0))->input(0),
              CopyOf(graph, list + "_back_switch"));
    EXPECT_TRUE(HasInput(graph, list + "_back_next", list + "_pop"));
  }
  EXPECT_TRUE(HasInput(graph, CopyOf(graph, "squashed"), CopyOf(graph, "product")));
  EXPECT_EQ(FindNode(graph, CopyOf(graph, "product"))->input(0), CopyOf(graph, "y_switch") + ":1");
  EXPECT_TRUE(Check(graph).ok()) << Check(graph);
}

TEST_F(SegmentsTest, WhatMayNotRunTwiceIsBroughtByTheNumberOfItsIteration) {
  ReadABias();
  const std::vector<LoopSegments> segments = Segments();
  ASSERT_EQ(segments.size(), 1U);
  ASSERT_EQ(segments[0].indexed.size(), 1U);
  EXPECT_EQ(segments[0].indexed[0].tensor.node, index_.Find("bias"));
  GraphDef graph = Recomputed();
  EXPECT_TRUE(Check(graph).ok()) << Check(graph);
  const std::string push = Added(graph, "TensorListPushBack", "bias");
  ASSERT_FALSE(push.empty());
  Node(&graph, push)->set_input(1, "biased");
  EXPECT_FALSE(Check(graph).ok());
}

TEST_F(SegmentsTest, ACounterNeedsNoList) {
  b_.Add("as_float", "Cast", {"i_switch:1"},
         {testing::Type("SrcT", tensorflow::DT_INT32), testing::Type("DstT", tensorflow::DT_FLOAT)});
  b_.Float("counted", "Mul", {"product", "as_float"});
  Node(&b_.item().graph, "squashed")->set_input(0, "counted");
  const std::vector<LoopSegments> segments = Segments();
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].counters.size(), 1U);
  EXPECT_EQ(segments[0].states.size(), 1U);
  const GraphDef graph = Recomputed();
  EXPECT_TRUE(Check(graph).ok()) << Check(graph);
}

std::string Index(const GraphDef& graph) {
  return FindNode(graph, CopyOf(graph, "y_push", "TensorListSetItem"))->input(1);
}

std::string Start(const GraphDef& graph) { return CopyOf(graph, "y_enter", "TensorListGetItem"); }

// Each of these makes another computation of the graph, and is noticed.
const std::vector<Fault>& SegmentFaultList() {
  static const auto* const faults = new std::vector<Fault>{
      {"another op", [](GraphDef* g) { Node(g, CopyOf(*g, "squashed"))->set_op("Sigmoid"); }},
      {"another input",
       [](GraphDef* g) { Node(g, CopyOf(*g, "squashed"))->set_input(0, CopyOf(*g, "y_switch") + ":1"); }},
      {"another attribute",
       [](GraphDef* g) { (*Node(g, CopyOf(*g, "product"))->mutable_attr())["transpose_b"].set_b(true); }},
      {"another constant",
       [](GraphDef* g) {
         const std::string within = FindNode(*g, CopyOf(*g, "product"))->input(1);
         Node(g, FindNode(*g, within)->input(0))->set_input(0, "x");
       }},
      {"another next state", [](GraphDef* g) { Node(g, CopyOf(*g, "y_next"))->set_input(0, CopyOf(*g, "product")); }},
      {"another state is stored",
       [](GraphDef* g) { Node(g, CopyOf(*g, "y_push", "TensorListSetItem"))->set_input(2, "squashed"); }},
      {"a state of another place",
       [](GraphDef* g) { Node(g, Start(*g))->set_input(1, CopyOf(*g, "b_switch", "Sub")); }},
      {"stored at another place", [](GraphDef* g) { ConstantOf(g, Index(*g), 1)->set_int_val(0, 4); }},
      {"stored later", [](GraphDef* g) { ConstantOf(g, FindNode(*g, Index(*g))->input(0), 1)->set_int_val(0, 0); }},
      {"segments of another length",
       [](GraphDef* g) { ConstantOf(g, FindNode(*g, Start(*g))->input(1), 1)->set_int_val(0, 6); }},
      {"an element is pushed that belongs to another list",
       [](GraphDef* g) {
         Node(g, CopyOf(*g, "product_push", "TensorListPushBack"))->set_input(1, CopyOf(*g, "squashed"));
       }},
      {"the pop of another list",
       [](GraphDef* g) { Node(g, "product_pop")->set_input(0, CopyOf(*g, "squashed_list_exit", "Exit")); }},
      {"a list that is not filled", [](GraphDef* g) { Node(g, "product_pop")->set_input(0, "product_back_switch:1"); }},
      {"a push that is left", [](GraphDef* g) { Node(g, "product_list_next")->set_input(0, "y_list_switch:1"); }},
      {"one iteration less",
       [](GraphDef* g) {
         const std::string cond = FindNode(*g, CopyOf(*g, "b_switch", "LoopCond"))->input(0);
         const std::string end = FindNode(*g, cond)->input(1);
         Node(g, end)->set_input(0, CopyOf(*g, "b_switch", "Sub"));
       }},
      {"the length of something else",
       [](GraphDef* g) { Node(g, CopyOf(*g, "b_switch", "TensorListLength"))->set_input(0, "y_list_exit"); }},
      {"an original that was changed", [](GraphDef* g) { Node(g, "squashed")->set_op("Sigmoid"); }},
      {"a reader elsewhere", [](GraphDef* g) { Node(g, "dw_sum")->set_input(1, "slope"); }},
      {"a list that does not get longer",
       [](GraphDef* g) {
         (*Node(g, CopyOf(*g, "y_push", "TensorListSetItem"))->mutable_attr())["resize_if_index_out_of_bounds"].set_b(
             false);
       }},
      {"a count of inputs in place of iterations",
       [](GraphDef* g) {
         const std::string less = FindNode(*g, CopyOf(*g, "b_switch", "LoopCond"))->input(0);
         Node(g, less)->set_input(0, FindNode(*g, less)->input(0) + ":1");
       }},
      {"a variable that begins again in each iteration",
       [](GraphDef* g) { (*Node(g, CopyOf(*g, "y_enter", "Enter"))->mutable_attr())["is_constant"].set_b(true); }},
      {"a state that is stored in some iterations alone",
       [](GraphDef* g) {
         NodeDef branch = *FindNode(*g, CopyOf(*g, "b_switch", "Switch"));
         branch.set_name("branch");
         branch.set_input(0, "y_switch:1");
         branch.set_input(1, "i_less");
         (*branch.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
         NodeDef taken = branch;
         taken.set_name(LoopName(9000, "y_switch"));
         taken.set_op("Identity");
         taken.clear_input();
         taken.add_input(LoopName(9001, "y_switch") + ":1");
         branch.set_name(LoopName(9001, "y_switch"));
         Node(g, CopyOf(*g, "y_push", "TensorListSetItem"))->add_input("^" + taken.name());
         *g->add_node() = std::move(branch);
         *g->add_node() = std::move(taken);
       }},
      {"a foreign node",
       [](GraphDef* g) {
         NodeDef node = *FindNode(*g, CopyOf(*g, "squashed"));
         node.set_name("somebody/else");
         *g->add_node() = std::move(node);
       }},
  };
  return *faults;
}

class SegmentFaults : public SegmentsTest, public ::testing::WithParamInterface<int> {};

TEST_P(SegmentFaults, AreNoticed) {
  const Fault& fault = SegmentFaultList()[GetParam()];
  GraphDef graph = Recomputed();
  ASSERT_TRUE(Check(graph).ok()) << Check(graph);
  fault.make(&graph);
  EXPECT_FALSE(Check(graph).ok()) << fault.name;
}

INSTANTIATE_TEST_SUITE_P(All, SegmentFaults, ::testing::Range(0, static_cast<int>(SegmentFaultList().size())));

}  // namespace
}  // namespace lms
