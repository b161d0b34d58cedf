#include "cc/tf/size_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;

bool Waits(const tensorflow::GraphDef& graph, const std::string& name, const std::string& control) {
  for (const auto& node : graph.node()) {
    if (node.name() == name) return std::count(node.input().begin(), node.input().end(), "^" + control) == 1;
  }
  return false;
}

TEST(SizeRecordTest, WhoReadsTheNodeWaitsForTheRecord) {
  GraphBuilder b;
  b.Feed("x", {-1, 64});
  b.Float("kept", "Tanh", {"x"});
  b.Float("one", "Exp", {"kept"});
  b.Float("both", "Mul", {"kept", "kept"});
  b.Float("other", "Neg", {"x"});
  b.Fetch("one");
  tensorflow::GraphDef graph = b.item().graph;
  ASSERT_TRUE(AddSizeRecords("f", {{"kept", 5}}, /*elements=*/true, &graph));
  ASSERT_EQ(graph.node_size(), b.item().graph.node_size() + 1);
  const tensorflow::NodeDef& record = graph.node(graph.node_size() - 1);
  EXPECT_EQ(record.op(), kSizeRecordOp);
  EXPECT_EQ(record.input(0), "kept");
  EXPECT_EQ(record.attr().at("least").i(), 5);
  EXPECT_TRUE(record.attr().at("sizes").b());
  EXPECT_TRUE(Waits(graph, "one", record.name()));
  EXPECT_TRUE(Waits(graph, "both", record.name()));
  EXPECT_FALSE(Waits(graph, "other", record.name()));
}

TEST(SizeRecordTest, ArgumentsAndWhatIsNoNodeAreLeftOut) {
  GraphBuilder b;
  b.Feed("x", {-1, 64});
  b.Float("y", "Tanh", {"x"});
  b.Fetch("y");
  tensorflow::GraphDef graph = b.item().graph;
  EXPECT_FALSE(AddSizeRecords("f", {{"x", 0}, {"z", 0}}, /*elements=*/true, &graph));
  EXPECT_EQ(graph.node_size(), b.item().graph.node_size());
}

}  // namespace
}  // namespace lms
