#include "cc/tf/rewrite/places_node.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/own_ops.h"
#include "gtest/gtest.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {
namespace {

using tensorflow::GraphDef;

GraphDef GraphOf(const std::vector<std::vector<std::string>>& nodes) {
  GraphDef graph;
  for (const std::vector<std::string>& parts : nodes) {
    tensorflow::NodeDef& node = *graph.add_node();
    node.set_name(parts[0]);
    node.set_op(parts[1]);
    for (size_t i = 2; i < parts.size(); ++i) node.add_input(parts[i]);
  }
  return graph;
}

void AddTo(GraphDef* graph, const std::unordered_set<std::string>& ops) {
  tensorflow::grappler::GrapplerItem item;
  item.graph = *graph;
  GraphIndex index;
  ASSERT_TRUE(index.Build(item).ok());
  AddPlacesNode(7, "/device:GPU:0", ops, index, graph);
}

std::vector<std::string> Waiting(const GraphDef& graph, const std::string& name) {
  std::vector<std::string> waiting;
  for (const tensorflow::NodeDef& node : graph.node()) {
    for (const std::string& input : node.input()) {
      if (input == "^" + name) waiting.push_back(node.name());
    }
  }
  return waiting;
}

TEST(PlacesNodeTest, AllThatHavePlacesWaitForIt) {
  GraphDef graph = GraphOf({{"x", "Placeholder"}, {"a", "Relu", "x"}, {"b", "Relu", "a"}, {"other", "Relu", "x"}});
  AddTo(&graph, {"a", "b"});
  ASSERT_EQ(graph.node_size(), 5);
  const tensorflow::NodeDef& node = graph.node(4);
  EXPECT_EQ(node.name(), "lms/places/7/a");
  EXPECT_TRUE(IsOwnName(node.name()));
  EXPECT_EQ(OriginalName(node.name()), "a");
  EXPECT_EQ(node.op(), kPlacesOp);
  EXPECT_EQ(node.device(), "/device:GPU:0");
  EXPECT_EQ(node.attr().at("number").i(), 7);
  EXPECT_EQ(node.input_size(), 0);
  EXPECT_EQ(Waiting(graph, node.name()), (std::vector<std::string>{"a", "b"}));
}

// `y` reads nothing but what comes out of a loop within the loop: it is in the outer one all the same.
GraphDef LoopsWithinLoops() {
  GraphDef graph = GraphOf({{"x", "Placeholder"},
                            {"enter", "Enter", "x"},
                            {"merge", "Merge", "enter", "next"},
                            {"in", "Enter", "merge"},
                            {"in_merge", "Merge", "in", "in_next"},
                            {"in_next", "NextIteration", "in_merge"},
                            {"out", "Exit", "in_merge"},
                            {"y", "Tanh", "out"},
                            {"next", "NextIteration", "y"},
                            {"exit", "Exit", "merge"},
                            {"z", "Relu", "exit"},
                            {"elsewhere", "Enter", "x"}});
  const auto name = [&](int node, const std::string& frame) {
    (*graph.mutable_node(node)->mutable_attr())["frame_name"].set_s(frame);
    graph.mutable_node(node)->set_device("/device:GPU:0");
  };
  name(1, "outer");
  name(3, "inner");
  name(11, "another");
  return graph;
}

TEST(PlacesNodeTest, WhatIsInALoopHasTheOuterLoopWait) {
  for (const std::string within : {"y", "in_merge"}) {
    GraphDef graph = LoopsWithinLoops();
    AddTo(&graph, {within, "z"});
    EXPECT_EQ(Waiting(graph, "lms/places/7/enter"), (std::vector<std::string>{"enter", "z"})) << within;
  }
}

TEST(PlacesNodeTest, WhatEntersALoopOnAnotherDeviceDoesNotWait) {
  GraphDef graph = LoopsWithinLoops();
  graph.mutable_node(1)->set_device("/device:CPU:0");
  AddTo(&graph, {"y", "z"});
  EXPECT_EQ(Waiting(graph, "lms/places/7/z"), std::vector<std::string>{"z"});
}

TEST(PlacesNodeTest, WhereNobodyWouldWaitThereIsNone) {
  GraphDef graph = LoopsWithinLoops();
  AddTo(&graph, {"not there"});
  EXPECT_EQ(graph.node_size(), 12);
}

}  // namespace
}  // namespace lms
