#include "cc/tf/runtime/size_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/util/util.h"
#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

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
  b.Parse("kept = Tanh(x); one = Exp(kept); both = Mul(kept, kept); other = Neg(x); fetch one");
  tensorflow::GraphDef graph = b.item().graph;
  ASSERT_TRUE(AddSizeRecords("f", {{"kept", 5}}, /*loops=*/{}, /*elements=*/true, &graph));
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

// oneDNN joins the two only where they wait for the same (layout_fusions.h).
TEST(SizeRecordTest, AGradientOfABiasWaitsWithThatOfItsFilter) {
  if (!tensorflow::IsMKLEnabled()) GTEST_SKIP() << "without oneDNN nothing is joined";
  GraphBuilder b;
  b.Parse("x[2, 8, 8, 4]; dy[2, 8, 8, 4]; sizes{1, 1, 4, 4}; image = Tanh(x); gradient = Neg(dy)");
  testing::Attr strides{"strides", {}};
  for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
  b.Float("filter", "Conv2DBackpropFilter", {"image", "sizes", "gradient"},
          {strides, testing::Text("padding", "SAME")});
  b.Parse("bias = BiasAddGrad(gradient); fetch filter, bias");
  tensorflow::GraphDef graph = b.item().graph;
  ASSERT_TRUE(AddSizeRecords("f", {{"image", 5}}, /*loops=*/{}, /*elements=*/false, &graph));
  const std::string record = graph.node(graph.node_size() - 1).name();
  EXPECT_TRUE(Waits(graph, "filter", record));
  EXPECT_TRUE(Waits(graph, "bias", record));
}

TEST(SizeRecordTest, ArgumentsAndWhatIsNoNodeAreLeftOut) {
  GraphBuilder b;
  b.Feed("x", {-1, 64});
  b.Parse("y = Tanh(x); fetch y");
  tensorflow::GraphDef graph = b.item().graph;
  EXPECT_FALSE(AddSizeRecords("f", {{"x", 0}, {"z", 0}}, /*loops=*/{}, /*elements=*/true, &graph));
  EXPECT_EQ(graph.node_size(), b.item().graph.node_size());
}

TEST(SizeRecordTest, OfALoopTheEndOfItsCounterIsRead) {
  testing::LoopBuilder b;
  b.Fetch("i_exit");
  tensorflow::GraphDef graph = b.item().graph;
  const int before = graph.node_size();
  // A loop may matter to several devices.
  ASSERT_TRUE(AddSizeRecords("f", {}, {{"cond", "i_switch", 4}, {"cond", "i_switch", 4}}, /*elements=*/false, &graph));
  ASSERT_EQ(graph.node_size(), before + 2);
  const tensorflow::NodeDef& end = graph.node(before);
  const tensorflow::NodeDef& record = graph.node(before + 1);
  EXPECT_EQ(end.op(), "Exit");
  EXPECT_EQ(end.input(0), "i_switch");
  EXPECT_EQ(record.op(), kSizeRecordOp);
  EXPECT_EQ(record.input(0), end.name());
  EXPECT_EQ(record.attr().at("loop").s(), "cond");
  EXPECT_EQ(record.attr().at("least").i(), 4);
  EXPECT_FALSE(AddSizeRecords("f", {}, {{"cond", "x", 4}, {"cond", "gone", 4}}, /*elements=*/false, &graph));
}

}  // namespace
}  // namespace lms
