#include "cc/tf/rewrite/fuse_elementwise.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/graph_check.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session.h"
#include "tensorflow/core/public/version.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Tensor;
using testing::Dims;
using testing::GraphBuilder;
using testing::Int;
using testing::kOtherCpu;

using Feeds = std::vector<std::pair<std::string, Tensor>>;

const NodeDef* Find(const GraphDef& graph, const std::string& name) {
  for (const NodeDef& node : graph.node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

std::vector<std::string> Inputs(const NodeDef& node) { return {node.input().begin(), node.input().end()}; }

// What a rewritten step has of a batch norm's output: x * scale + offset, and a sum with y, computed again.
class FuseElementwiseTest : public ::testing::Test {
 protected:
  FuseElementwiseTest() {
    for (const char* const name : {"x", "y"}) builder_.Feed(name, {4, 8});
    for (const char* const name : {"scale", "offset"}) builder_.Feed(name, {8});
    builder_.Float("late", "Relu", {"y"});
    builder_.Float(product_, "Mul", {"x", "scale", "^late"});
    builder_.Float(sum_, "AddV2", {product_, "offset", "^late"});
    builder_.Float(both_, "AddN", {"y", sum_, "^offset"}, {Int("N", 2)});
    builder_.Float("reader", "Relu", {both_});
  }

  GraphDef& graph() { return builder_.item().graph; }
  int Fuse() {
    const int gone = FuseElementwise(&graph()).gone();
    EXPECT_TRUE(CheckGraph(graph()).ok());
    return gone;
  }

  const std::string product_ = RecomputeName(4, "mul");
  const std::string sum_ = RecomputeName(5, "add");
  const std::string both_ = RecomputeName(6, "sum");
  GraphBuilder builder_;
};

TEST_F(FuseElementwiseTest, ThreeCopiesAreOneNodeUnderTheLastName) {
  EXPECT_EQ(Fuse(), 2);
  EXPECT_EQ(Find(graph(), product_), nullptr);
  EXPECT_EQ(Find(graph(), sum_), nullptr);
  const NodeDef* const fused = Find(graph(), both_);
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->op(), kElementwiseOp);
  EXPECT_EQ(Inputs(*fused), (std::vector<std::string>{"x", "scale", "offset", "y", "^late", "^offset"}));
  EXPECT_EQ(Inputs(*Find(graph(), "reader")), std::vector<std::string>{both_});
}

TEST_F(FuseElementwiseTest, TheyAreTakenApartAgain) {
  std::map<std::string, std::string> before, after;
  for (const NodeDef& node : graph().node()) before[node.name()] = node.DebugString();
  EXPECT_EQ(Fuse(), 2);
  PartElementwise(&graph());
  for (const NodeDef& node : graph().node()) after[node.name()] = node.DebugString();
  EXPECT_EQ(after, before);
}

TEST_F(FuseElementwiseTest, WhatIsReadByOthersStays) {
  builder_.Float("other", "Relu", {sum_ + ":0"});
  EXPECT_EQ(Fuse(), 1);  // the product
  EXPECT_EQ(Find(graph(), sum_)->op(), kElementwiseOp);
  EXPECT_EQ(Find(graph(), both_)->op(), "AddN");
}

TEST_F(FuseElementwiseTest, WhoWaitsForACopyWaitsForTheNode) {
  builder_.Float("update", "Relu", {"y", "^" + product_, "^" + sum_, "^late"});
  builder_.Float("end", "Relu", {"update"});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_EQ(Inputs(*Find(graph(), "update")), (std::vector<std::string>{"y", "^" + both_, "^late"}));
}

TEST_F(FuseElementwiseTest, WhatACopyComesBehindStays) {
  builder_.Float("update", "Relu", {"y", "^" + product_});
  const_cast<NodeDef*>(Find(graph(), sum_))->set_input(1, "update");
  EXPECT_EQ(Fuse(), 1);  // the two sums
  EXPECT_EQ(Find(graph(), product_)->op(), "Mul");
}

TEST_F(FuseElementwiseTest, ToWaitForACopyIsNotToReadIt) {
  const std::string waited_for = RecomputeName(40, "mul");
  builder_.Float(waited_for, "Mul", {"x", "scale"});
  builder_.Float(RecomputeName(41, "add"), "AddV2", {"x", "offset", "^" + waited_for});
  EXPECT_EQ(Fuse(), 2);  // those of the fixture
  EXPECT_NE(Find(graph(), waited_for), nullptr);
}

TEST_F(FuseElementwiseTest, OnlyCopiesThatFollowEachOtherInThePlan) {
  NodeDef* const late = const_cast<NodeDef*>(Find(graph(), both_));
  late->set_name(RecomputeName(9, "sum"));
  const_cast<NodeDef*>(Find(graph(), "reader"))->set_input(0, late->name());
  EXPECT_EQ(Fuse(), 1);
  EXPECT_EQ(late->op(), "AddN");
}

TEST_F(FuseElementwiseTest, NeitherOriginalsNorOtherTypesNorOtherDevices) {
  builder_.Float("own_1", "Mul", {"x", "scale"});
  builder_.Float("own_2", "AddV2", {"own_1", "offset"});
  builder_.Add(RecomputeName(20, "half_1"), "Mul", {"h", "h"}, {testing::Type("T", tensorflow::DT_HALF)});
  builder_.Add(RecomputeName(21, "half_2"), "AddV2", {RecomputeName(20, "half_1"), "h"},
               {testing::Type("T", tensorflow::DT_HALF)});
  builder_.Add("h", "Placeholder", {}, {testing::Type("dtype", tensorflow::DT_HALF)});
  builder_.Float(RecomputeName(30, "there_1"), "Mul", {"x", "scale"})->set_device(kOtherCpu);
  builder_.Float(RecomputeName(31, "there_2"), "AddV2", {RecomputeName(30, "there_1"), "offset"});
  EXPECT_EQ(Fuse(), 2);  // those of the fixture
}

// The same of the step's own ops: x * scale + offset, of which x is large.
class FuseOwnTest : public ::testing::Test {
 protected:
  FuseOwnTest() {
    builder_.Parse("x[64, 8]; y[64, 8]; scale[8]; offset[8]; product = Mul(x, scale); sum = AddV2(product, offset)");
    builder_.Parse("reader = Relu(sum)");
    own_.result_bytes = [](const std::string& node) { return node == "scale" || node == "offset" ? 32 : 2048; };
    own_.may_be_slice = [](const NodeDef& node) { return node.op() == "Split"; };
    own_.cost_us = [](const std::string& node) { return node == "product" ? 6 : 1; };
  }

  int Fuse() {
    fused_ = FuseElementwise(&builder_.item().graph, own_);
    EXPECT_TRUE(CheckGraph(builder_.item().graph).ok());
    return fused_.gone();
  }
  const NodeDef* Node(const std::string& name) { return Find(builder_.item().graph, name); }

  GraphBuilder builder_;
  OwnNodes own_;
  Fused fused_;
};

TEST_F(FuseOwnTest, TheyAreOneNodeUnderTheLastName) {
  EXPECT_EQ(Fuse(), 1);
  EXPECT_EQ(Node("product"), nullptr);
  EXPECT_EQ(Node("sum")->op(), kElementwiseOp);
  EXPECT_EQ(Inputs(*Node("sum")), (std::vector<std::string>{"x", "scale", "offset"}));
  EXPECT_EQ(fused_.saved_us, 6);  // reads one and writes one, as the next does
  PartElementwise(&builder_.item().graph);
  EXPECT_EQ(Inputs(*Node("sum")), (std::vector<std::string>{"product", "offset"}));
}

TEST_F(FuseOwnTest, WhatIsFetchedStays) {
  own_.kept = {"product"};
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseOwnTest, WhatOthersReadStays) {
  builder_.Parse("other = Relu(product)");
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseOwnTest, WhatWouldHoldMoreStays) {
  builder_.Parse("two = Mul(x, y); third = AddV2(two, offset); wide = Mul(scale, offset); wider = Mul(wide, x)");
  builder_.Constant("axis", {}, tensorflow::DT_INT32);
  builder_.Float("parts", "Split", {"axis", "x"}, {Int("num_split", 2)});
  builder_.Parse("same = Identity(parts); part = Mul(same, scale); last = AddV2(part, offset)");
  EXPECT_EQ(Fuse(), 1);  // the product of the fixture
  for (const char* const name : {"two", "wide", "part"}) EXPECT_NE(Node(name), nullptr) << name;
}

TEST_F(FuseOwnTest, TheLastMayReadMore) {
  builder_.Parse("z = AddV2(sum, y)");
  const_cast<NodeDef*>(Node("reader"))->set_input(0, "z");
  EXPECT_EQ(Fuse(), 2);
  EXPECT_EQ(Inputs(*Node("z")), (std::vector<std::string>{"x", "scale", "offset", "y"}));
}

TEST_F(FuseOwnTest, ABiasAndWhatLmsAddsStay) {
  builder_.Parse("bias = BiasAdd(x, offset); next = Mul(bias, scale)");
  builder_.Float(SwapInName(3, "mul"), "Mul", {"x", "scale"});
  builder_.Float("own", "AddV2", {SwapInName(3, "mul"), "offset"});
  builder_.Float(RecomputeName(3, "mul"), "Mul", {"x", "scale"});
  builder_.Float("original", "AddV2", {RecomputeName(3, "mul"), "offset"});
  EXPECT_EQ(Fuse(), 1);  // the product of the fixture
}

TEST_F(FuseOwnTest, WhoWaitsForAPartWaitsForTheNodeUnlessItLeadsThere) {
  builder_.Float("waits", "Relu", {"y", "^product"});
  EXPECT_EQ(Fuse(), 1);
  EXPECT_EQ(Inputs(*Node("waits")), (std::vector<std::string>{"y", "^sum"}));
}

TEST_F(FuseOwnTest, WhatLeadsFromAPartToTheNodeKeepsItApart) {
  builder_.Float("waits", "Relu", {"offset", "^product"});
  const_cast<NodeDef*>(Node("sum"))->set_input(1, "waits");
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseOwnTest, WhereThereIsALoopAllStays) {
  builder_.Float("enter", "Enter", {"y"}, {testing::Text("frame_name", "loop")});
  builder_.Parse("inner = Relu(enter); out = Exit(inner)");
  EXPECT_EQ(Fuse(), 0);
}

// ---- What is computed ----

Tensor Random(tensorflow::DataType type, const Dims& dims, std::mt19937* random) {
  Tensor tensor(type, tensorflow::TensorShape(dims));
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.NumElements(); ++i) {
    if (type == tensorflow::DT_FLOAT) tensor.flat<float>()(i) = static_cast<float>(normal(*random));
    if (type == tensorflow::DT_DOUBLE) tensor.flat<double>()(i) = normal(*random);
  }
  return tensor;
}

Tensor Computed(GraphDef graph, const Feeds& feeds, const std::string& fetch, int threads) {
  graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
  tensorflow::SessionOptions options;
  options.config.mutable_graph_options()->mutable_rewrite_options()->set_disable_meta_optimizer(true);
  options.config.set_intra_op_parallelism_threads(threads);
  const std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(options));
  EXPECT_TRUE(session->Create(graph).ok());
  std::vector<Tensor> results;
  const absl::Status status = session->Run(feeds, {fetch}, {}, &results);
  EXPECT_TRUE(status.ok()) << status.message();
  return results.empty() ? Tensor() : results[0];
}

// The shape with dimensions taken away from the front, and others made 1.
Dims Narrowed(const Dims& shape, std::mt19937* random) {
  Dims narrow(shape.begin() + (*random)() % (shape.size() + 1), shape.end());
  for (int64_t& dim : narrow) {
    if ((*random)() % 3 == 0) dim = 1;
  }
  return narrow;
}

TEST(FusedCopiesTest, RandomChainsHaveTheBitsOfTensorFlowsOps) {
  const std::vector<Dims> shapes = {{},         {1},         {7},       {0, 3},       {3, 5},          {2, 3, 5, 7},
                                    {9, 1, 16}, {40, 40, 3}, {5, 3000}, {3, 1000, 2}, {2, 3, 4, 5, 6}, {70, 33}};
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const Dims& shape = shapes[round % shapes.size()];
    const tensorflow::DataType type = round % 4 == 0 ? tensorflow::DT_DOUBLE : tensorflow::DT_FLOAT;
    GraphBuilder builder;
    Feeds feeds;
    const auto feed = [&](const Dims& dims) {
      const std::string name = "feed_" + std::to_string(feeds.size());
      builder.Add(name, "Placeholder", {}, {testing::Type("dtype", type), testing::Shape("shape", dims)});
      feeds.emplace_back(name, Random(type, dims, &random));
      return name;
    };
    std::string last = feed(random() % 2 == 0 ? shape : Narrowed(shape, &random));
    const int steps = 2 + static_cast<int>(random() % 5);
    for (int i = 0; i < steps; ++i) {
      const std::string name = RecomputeName(i, "op");
      const testing::Attr of_type = testing::Type("T", type);
      const std::vector<std::string> kinds = {"Mul", "AddV2", "Sub", "RealDiv", "Neg"};
      const std::string& kind = kinds[random() % kinds.size()];
      if (kind == "Neg") {
        builder.Add(name, kind, {last}, {of_type});
      } else if (i > 0 && random() % 8 == 0) {
        builder.Add(name, kind, {last, last}, {of_type});
      } else {
        const bool wide = i + 1 == steps || random() % 3 == 0;
        std::vector<std::string> inputs = {last, feed(wide ? shape : Narrowed(shape, &random))};
        if (random() % 2 == 0) std::swap(inputs[0], inputs[1]);
        builder.Add(name, kind, inputs, {of_type});
      }
      last = name;
    }
    const GraphDef& graph = builder.item().graph;
    GraphDef fused = graph;
    ASSERT_EQ(FuseElementwise(&fused).gone(), steps - 1);
    const Tensor expected = Computed(graph, feeds, last, 1), found = Computed(fused, feeds, last, 1 + round % 2);
    ASSERT_EQ(found.shape(), expected.shape()) << "round " << round;
    ASSERT_EQ(found.tensor_data().size(), expected.tensor_data().size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.TotalBytes()), 0)
        << "round " << round << ", shape " << expected.shape().DebugString();
  }
}

TEST(FusedCopiesTest, ABiasIsAddedToTheLastDimension) {
  GraphBuilder builder;
  builder.Feed("x", {2, 3, 5});
  builder.Feed("bias", {5});
  builder.Float(RecomputeName(0, "bias"), "BiasAdd", {"x", "bias"});
  builder.Float(RecomputeName(1, "square"), "Mul", {RecomputeName(0, "bias"), RecomputeName(0, "bias")});
  std::mt19937 random(2);
  const Feeds feeds = {{"x", Random(tensorflow::DT_FLOAT, {2, 3, 5}, &random)},
                       {"bias", Random(tensorflow::DT_FLOAT, {5}, &random)}};
  GraphDef fused = builder.item().graph;
  ASSERT_EQ(FuseElementwise(&fused).gone(), 1);
  const std::string last = RecomputeName(1, "square");
  const Tensor expected = Computed(builder.item().graph, feeds, last, 1), found = Computed(fused, feeds, last, 1);
  EXPECT_EQ(found.tensor_data(), expected.tensor_data());

  // Where channels come first the bias is spread otherwise.
  for (NodeDef& node : *builder.item().graph.mutable_node()) {
    if (node.op() == "BiasAdd") (*node.mutable_attr())["data_format"].set_s("NCHW");
  }
  EXPECT_EQ(FuseElementwise(&builder.item().graph).gone(), 0);
}

}  // namespace
}  // namespace lms
