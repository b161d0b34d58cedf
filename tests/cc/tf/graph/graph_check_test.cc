#include "cc/tf/graph/graph_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

NodeDef* Node(GraphDef* graph, const std::string& name) {
  for (NodeDef& node : *graph->mutable_node()) {
    if (node.name() == name) return &node;
  }
  ADD_FAILURE() << name;
  return graph->add_node();
}

TEST(GraphCheck, AStepPasses) {
  GraphDef graph = testing::TrainChain(3).graph;
  EXPECT_TRUE(CheckGraph(graph).ok()) << CheckGraph(graph).message();
  // What has a default may be left out.
  Node(&graph, "matmul_0")->mutable_attr()->erase("transpose_a");
  EXPECT_TRUE(CheckGraph(graph).ok()) << CheckGraph(graph).message();
}

struct Corruption {
  const char* words;  // of the reason
  std::function<void(GraphDef*)> change;
};

TEST(GraphCheck, EachCorruptionIsDeclinedWithTheReason) {
  const std::vector<Corruption> corruptions = {
      {"no node can be called \"\"", [](GraphDef* g) { Node(g, "loss")->set_name(""); }},
      {"no node can be called \"a:1\"", [](GraphDef* g) { Node(g, "loss")->set_name("a:1"); }},
      {"no node can be called \"^a\"", [](GraphDef* g) { Node(g, "loss")->set_name("^a"); }},
      {"two nodes are called tanh_0", [](GraphDef* g) { Node(g, "loss")->set_name("tanh_0"); }},
      {"which is no op that is known", [](GraphDef* g) { Node(g, "tanh_0")->set_op("NoSuchOp"); }},
      {"lacks the attribute T", [](GraphDef* g) { Node(g, "tanh_0")->mutable_attr()->erase("T"); }},
      {"has a wrong attribute", [](GraphDef* g) { (*Node(g, "tanh_0")->mutable_attr())["T"].set_i(1); }},
      {"has a wrong attribute",
       [](GraphDef* g) { (*Node(g, "tanh_0")->mutable_attr())["T"].set_type(tensorflow::DT_STRING); }},
      {"no shape or tensor",
       [](GraphDef* g) { (*Node(g, "x")->mutable_attr())["shape"].mutable_shape()->mutable_dim(0)->set_size(-7); }},
      {"no shape or tensor",
       [](GraphDef* g) {
         auto* shape = (*Node(g, "x")->mutable_attr())["shape"].mutable_shape();
         for (int i = 0; i < 2; ++i) shape->mutable_dim(i)->set_size(int64_t{1} << 40);
       }},
      {"no shape or tensor",
       [](GraphDef* g) { (*Node(g, "axes")->mutable_attr())["value"].mutable_tensor()->set_tensor_content("abc"); }},
      {"another type than its value",
       [](GraphDef* g) {
         (*Node(g, "axes")->mutable_attr())["value"].mutable_tensor()->set_dtype(tensorflow::DT_INT64);
       }},
      {"reads nowhere, which does not exist", [](GraphDef* g) { Node(g, "tanh_0")->set_input(0, "nowhere"); }},
      {"reads output 7 of matmul_0", [](GraphDef* g) { Node(g, "tanh_0")->set_input(0, "matmul_0:7"); }},
      {"another number of inputs", [](GraphDef* g) { Node(g, "tanh_0")->add_input("x"); }},
      {"another number of inputs", [](GraphDef* g) { Node(g, "tanh_0")->clear_input(); }},
      {"a tensor behind a control input",
       [](GraphDef* g) {
         Node(g, "matmul_0")->set_input(0, "^x");
         Node(g, "matmul_0")->set_input(1, "x");
       }},
      {"of another type", [](GraphDef* g) { Node(g, "tanh_0")->set_input(0, "axes"); }},
      {"of another type", [](GraphDef* g) { Node(g, "tanh_0")->set_input(0, "w_0"); }},
      {"a cycle outside its loops", [](GraphDef* g) { Node(g, "tanh_0")->add_input("^loss"); }},
      {"a cycle outside its loops", [](GraphDef* g) { Node(g, "tanh_0")->set_input(0, "tanh_0"); }},
  };
  for (const Corruption& corruption : corruptions) {
    GraphDef graph = testing::TrainChain(3).graph;
    corruption.change(&graph);
    const absl::Status status = CheckGraph(graph);
    EXPECT_FALSE(status.ok()) << corruption.words;
    EXPECT_NE(std::string(status.message()).find(corruption.words), std::string::npos) << status.message();
    const bool cycle = std::string(corruption.words).find("cycle") != std::string::npos;
    EXPECT_EQ(absl::IsFailedPrecondition(status), cycle) << status;
  }
}

// A convolution with a bias as Grappler's remapper leaves it, of a type that its OpDef does not list.
GraphDef FusedConvolution() {
  testing::GraphBuilder b;
  const testing::Attr type = testing::Type("dtype", tensorflow::DT_BFLOAT16);
  b.Add("x", "Placeholder", {}, {type, testing::Shape("shape", {1, 4, 4, 1})});
  b.Add("filter", "Placeholder", {}, {type, testing::Shape("shape", {1, 1, 1, 1})});
  b.Add("bias", "Placeholder", {}, {type, testing::Shape("shape", {1})});
  testing::Attr strides{"strides", {}};
  for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
  b.Add("conv", "_FusedConv2D", {"x", "filter", "bias"},
        {testing::Type("T", tensorflow::DT_BFLOAT16), testing::Types("TArgs", {tensorflow::DT_BFLOAT16}),
         testing::Int("num_args", 1), testing::Text("padding", "SAME"), strides});
  return b.item().graph;
}

TEST(GraphCheck, WhatPassesMakeMayHaveValuesThatTheApiDoesNotTake) {
  GraphDef graph = FusedConvolution();
  EXPECT_TRUE(CheckGraph(graph).ok()) << CheckGraph(graph).message();
  // A later pass makes another op of it, which need not ask for it.
  Node(&graph, "conv")->mutable_attr()->erase("padding");
  EXPECT_TRUE(CheckGraph(graph).ok()) << CheckGraph(graph).message();
}

TEST(GraphCheck, WhatPassesMakeMustHaveTypesAllTheSame) {
  const std::vector<Corruption> corruptions = {
      {"has a wrong attribute", [](GraphDef* g) { (*Node(g, "conv")->mutable_attr())["T"].set_i(1); }},
      {"has a wrong attribute",
       [](GraphDef* g) { (*Node(g, "conv")->mutable_attr())["T"].set_type(tensorflow::DT_INVALID); }},
      {"inputs or outputs of no type", [](GraphDef* g) { Node(g, "conv")->mutable_attr()->erase("T"); }},
      {"inputs or outputs of no type", [](GraphDef* g) { Node(g, "conv")->mutable_attr()->erase("TArgs"); }},
      {"of another type", [](GraphDef* g) { (*Node(g, "conv")->mutable_attr())["T"].set_type(tensorflow::DT_STRING); }},
      {"another number of inputs",
       [](GraphDef* g) {
         (*Node(g, "conv")->mutable_attr())["TArgs"].mutable_list()->add_type(tensorflow::DT_BFLOAT16);
       }},
  };
  for (const Corruption& corruption : corruptions) {
    GraphDef graph = FusedConvolution();
    corruption.change(&graph);
    const absl::Status status = CheckGraph(graph);
    EXPECT_NE(std::string(status.message()).find(corruption.words), std::string::npos)
        << corruption.words << " / " << status.message();
  }
}

TEST(GraphCheck, AnImpossibleNumberOfOutputsIsNotListed) {
  testing::GraphBuilder b;
  b.Parse("x[4]; axis{0}");
  b.Float("split", "Split", {"axis", "x"}, {testing::Int("num_split", int64_t{1} << 40)});
  const absl::Status status = CheckGraph(b.item().graph);
  EXPECT_NE(std::string(status.message()).find("impossible number of outputs"), std::string::npos) << status.message();
}

TEST(GraphCheck, ALoopGoesThroughItsMerge) {
  testing::GraphBuilder b;
  b.Feed("x", {4});
  b.Float("enter", "Enter", {"x"}, {testing::Text("frame_name", "loop")});
  b.Parse("merge = Merge(enter, next); next = NextIteration(merge)");
  EXPECT_TRUE(CheckGraph(b.item().graph).ok());
  b.item().graph.mutable_node(2)->set_op("AddN");
  EXPECT_FALSE(CheckGraph(b.item().graph).ok());
}

}  // namespace
}  // namespace lms
