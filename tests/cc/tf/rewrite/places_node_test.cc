#include "cc/tf/rewrite/places_node.h"

#include <string>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/own_ops.h"
#include "gtest/gtest.h"
#include "tensorflow/core/framework/graph.pb.h"

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

std::vector<std::string> Waiting(const GraphDef& graph, const std::string& name) {
  std::vector<std::string> waiting;
  for (const tensorflow::NodeDef& node : graph.node()) {
    for (const std::string& input : node.input()) {
      if (input == "^" + name) waiting.push_back(node.name());
    }
  }
  return waiting;
}

TEST(PlacesNodeTest, AllThatHavePlacesWaitForItButWhatIsInALoop) {
  GraphDef graph = GraphOf({{"x", "Placeholder"},
                            {"a", "Relu", "x"},
                            {"enter", "Enter", "a"},
                            {"merge", "Merge", "enter", "next"},
                            {"body", "Tanh", "merge"},
                            {"next", "NextIteration", "body"},
                            {"exit", "Exit", "merge"},
                            {"b", "Relu", "exit"},
                            {"other", "Relu", "x"}});
  AddPlacesNode(7, "/device:GPU:0", {"a", "body", "b"}, &graph);
  ASSERT_EQ(graph.node_size(), 10);
  const tensorflow::NodeDef& node = graph.node(9);
  EXPECT_EQ(node.name(), "lms/places/7/a");
  EXPECT_TRUE(IsOwnName(node.name()));
  EXPECT_EQ(OriginalName(node.name()), "a");
  EXPECT_EQ(node.op(), kPlacesOp);
  EXPECT_EQ(node.device(), "/device:GPU:0");
  EXPECT_EQ(node.attr().at("number").i(), 7);
  EXPECT_EQ(node.input_size(), 0);
  EXPECT_EQ(Waiting(graph, node.name()), (std::vector<std::string>{"a", "b"}));
}

TEST(PlacesNodeTest, WhereNobodyWouldWaitThereIsNone) {
  GraphDef graph = GraphOf({{"x", "Placeholder"}, {"enter", "Enter", "x"}, {"body", "Tanh", "enter"}});
  AddPlacesNode(7, "/device:GPU:0", {"body"}, &graph);
  EXPECT_EQ(graph.node_size(), 3);
}

}  // namespace
}  // namespace lms
