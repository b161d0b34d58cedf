#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/handed_copies.h"
#include "tests/cc/tf/swap_plan.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using testing::Imported;
using testing::kTile;
using testing::Swapped;
using testing::SwapPlan;

std::string Out() { return SwapOutName(0, "tanh_1"); }
std::string In() { return SwapInName(0, "tanh_1"); }

TEST(RewriteSwaps, ASwapOutReadsTheTensorAndWaitsForNothingElse) {
  const Imported step(testing::TrainChain(3));
  RewriteOptions options;
  options.swap.tier = "disk";
  options.swap.directory = "/spill";
  options.swap.limit_bytes = 12345;
  const Swapped out(step, SwapPlan(step, {{"tanh_1", "tanh_2"}}, {{"tanh_1", "weight_grad_2"}}), options);
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_EQ(out.item.graph.node_size(), step.item().graph.node_size() + 2);
  const tensorflow::NodeDef* node = out.Find(Out());
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->op(), "LmsSwapOut");
  EXPECT_EQ(node->device(), testing::kCpu);
  ASSERT_EQ(node->input_size(), 1);
  EXPECT_EQ(node->input(0), "tanh_1");
  EXPECT_EQ(node->attr().at("T").type(), tensorflow::DT_FLOAT);
  EXPECT_EQ(node->attr().at("tier").s(), "disk");
  EXPECT_EQ(node->attr().at("directory").s(), "/spill");
  EXPECT_EQ(node->attr().at("limit").i(), 12345);
  EXPECT_EQ(node->attr().at("host_limit").i(), 0);
  EXPECT_EQ(out.result.swap_out_nodes, std::vector<std::string>{Out()});
}

TEST(RewriteSwaps, BothWaysKnowHowMuchPinnedMemoryTheWayToADiskMayTake) {
  const Imported step(testing::TrainChain(3));
  RewriteOptions options;
  options.swap.tier = "disk";
  options.swap.host_limit = 777;
  const Swapped out(step, SwapPlan(step, {{"tanh_1", "tanh_2"}}, {{"tanh_1", "weight_grad_2"}}), options);
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_EQ(out.Find(Out())->attr().at("host_limit").i(), 777);
  EXPECT_EQ(out.Find(In())->attr().at("host_limit").i(), 777);
}

TEST(RewriteSwaps, ASwapInWaitsForItsPlaceAndLaterReadersReadIt) {
  const Imported step(testing::TrainChain(3));
  const Swapped out(step, SwapPlan(step, {{"tanh_1", "tanh_2"}}, {{"tanh_1", "weight_grad_2"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const tensorflow::NodeDef* node = out.Find(In());
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->op(), "LmsSwapIn");
  EXPECT_EQ(node->device(), testing::kCpu);
  ASSERT_EQ(node->input_size(), 2);
  EXPECT_EQ(node->input(0), Out());
  EXPECT_EQ(node->input(1), "^tanh_grad_2");
  EXPECT_EQ(node->attr().at("T").type(), tensorflow::DT_FLOAT);
  EXPECT_TRUE(node->attr().at("shape").shape().unknown_rank());
  EXPECT_EQ(out.result.swap_in_nodes, std::vector<std::string>{In()});
  EXPECT_EQ(out.result.swap_in_triggers, std::vector<std::string>{"tanh_grad_2"});
  EXPECT_TRUE(out.Has("matmul_2", "tanh_1"));
  EXPECT_TRUE(out.Has("weight_grad_2", In()));
  EXPECT_TRUE(out.Has("tanh_grad_1", In()));
  EXPECT_FALSE(out.Has("tanh_grad_1", "tanh_1"));
}

TEST(RewriteSwaps, ThePlaceIsNoReadOfAVariableThatMayRunLongBefore) {
  GraphBuilder b;
  b.Parse(
      "x[256, 64]; v = VarHandleOp[256, 64]; y = Relu(x); early = Tanh(y); middle = Sigmoid(early); "
      "product = Softmax(middle); read = ReadVariableOp(v, ^product); sum = AddV2(product, read); "
      "late = Mul(y, sum); fetch late");
  const Imported step(b.item());
  ASSERT_EQ(step.OpOf("read") + 1, step.OpOf("sum"));
  const Swapped out(step, SwapPlan(step, {{"y", "middle"}}, {{"y", "sum"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_EQ(out.result.swap_in_triggers, std::vector<std::string>{"product"});
}

TEST(RewriteSwaps, OneSwapOutServesAllSwapIns) {
  const Imported step(testing::TrainChain(3));
  const Swapped out(step,
                    SwapPlan(step, {{"tanh_1", "tanh_2"}}, {{"tanh_1", "weight_grad_2"}, {"tanh_1", "tanh_grad_1"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const std::string second = SwapInName(1, "tanh_1");
  EXPECT_EQ(out.item.graph.node_size(), step.item().graph.node_size() + 3);
  EXPECT_TRUE(out.Has(second, Out()));
  EXPECT_TRUE(out.Has("weight_grad_2", In()));
  EXPECT_TRUE(out.Has("tanh_grad_1", second));
}

// The same step, on the device.
tensorflow::grappler::GrapplerItem ChainOn(const std::string& device) {
  tensorflow::grappler::GrapplerItem item = testing::TrainChain(4, 256);
  for (tensorflow::NodeDef& node : *item.graph.mutable_node()) node.set_device(device);
  return item;
}

// tanh_2 is out first, though tanh_1 is there before it.
Plan TwoOut(const Imported& step) {
  return SwapPlan(step, {{"tanh_2", "tanh_3"}, {"tanh_1", "weight_grad_3"}},
                  {{"tanh_2", "weight_grad_3"}, {"tanh_1", "weight_grad_2"}});
}

TEST(RewriteSwaps, CopiesOfAGpuAreHandedOverInTheOrderInWhichTheyAreWaitedFor) {
  const std::string first = SwapOutName(0, "tanh_2");
  const std::string second = SwapOutName(1, "tanh_1");
  const Imported on_gpu(ChainOn(testing::kGpu));
  const Swapped out(on_gpu, TwoOut(on_gpu));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has(second, "^" + first));
  EXPECT_EQ(out.Find(first)->input_size(), 1);
  // That is no reason for the first one's copy to have ended.
  GraphIndex index;
  ASSERT_TRUE(index.Build(out.item).ok());
  EXPECT_TRUE(CopiesWaitedFor(out.item.graph, index, index.Find(second)).empty());
  // To a disk, and of a CPU, what is wanted first is written first.
  RewriteOptions disk;
  disk.swap.tier = "disk";
  const Swapped written(on_gpu, TwoOut(on_gpu), disk);
  ASSERT_TRUE(written.status.ok()) << written.status.message();
  EXPECT_EQ(written.Find(second)->input_size(), 1);
  const Imported on_cpu(ChainOn(testing::kCpu));
  const Swapped of_cpu(on_cpu, TwoOut(on_cpu));
  ASSERT_TRUE(of_cpu.status.ok()) << of_cpu.status.message();
  EXPECT_EQ(of_cpu.Find(second)->input_size(), 1);
}

TEST(RewriteSwaps, DeadlinesAreThePlaceOfTheSwapOutAndOfTheFirstReader) {
  const Imported step(testing::TrainChain(4));
  // tanh_0 comes back early and is read last; tanh_2 comes back late and is read first.
  ASSERT_LT(step.OpOf("weight_grad_3"), step.OpOf("tanh_grad_0"));
  const Swapped out(step, SwapPlan(step, {{"tanh_0", "tanh_2"}, {"tanh_2", "tanh_3"}},
                                   {{"tanh_0", "tanh_grad_3"}, {"tanh_2", "weight_grad_3"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const int64_t out_0 = out.Deadline(SwapOutName(0, "tanh_0"));
  const int64_t out_2 = out.Deadline(SwapOutName(1, "tanh_2"));
  const int64_t in_0 = out.Deadline(SwapInName(0, "tanh_0"));
  const int64_t in_2 = out.Deadline(SwapInName(1, "tanh_2"));
  EXPECT_LT(out_0, out_2);
  EXPECT_LT(out_2, in_2);
  EXPECT_LT(in_2, in_0);
}

TEST(RewriteSwaps, ReadersBehindViewsReadCopiesOfThemOnWhatCameBack) {
  GraphBuilder b;
  b.Parse("x[256, 64]; y = Relu(x); same = Identity(y); shape{64, 256}");
  b.Float("flat", "Reshape", {"same", "shape"}, {testing::Type("Tshape", tensorflow::DT_INT32)});
  b.Parse("early = Tanh(flat); middle = Sigmoid(early); late = Mul(flat, middle); last = Mul(flat, late); fetch last");
  const Imported step(b.item());
  const Swapped out(step, SwapPlan(step, {{"y", "middle"}}, {{"y", "late"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const std::string flat = SwapInName(0, "flat");
  EXPECT_EQ(out.item.graph.node_size(), step.item().graph.node_size() + 3);
  EXPECT_TRUE(out.Has(SwapOutName(0, "y"), "y"));
  EXPECT_TRUE(out.Has(flat, SwapInName(0, "y")));
  EXPECT_TRUE(out.Has(flat, "shape"));
  EXPECT_TRUE(out.Has("late", flat));
  EXPECT_TRUE(out.Has("last", flat));
  EXPECT_TRUE(out.Has("early", "flat"));
}

TEST(RewriteSwaps, ARecomputationIsSwappedOutAndReadsWhatCameBack) {
  const Imported step(testing::TrainChain(3));
  const Swapped out(
      step, SwapPlan(step, {{"tanh_1", "input_grad_2"}}, {{"tanh_1", "tanh_grad_1"}}, {{"tanh_1", "weight_grad_2"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has(Out(), RecomputeName(0, "tanh_1")));
  EXPECT_TRUE(out.Has("weight_grad_2", RecomputeName(0, "tanh_1")));
  EXPECT_TRUE(out.Has("tanh_grad_1", In()));
  // The other way round: the input of a recomputation comes back for it.
  const Swapped input(
      step, SwapPlan(step, {{"matmul_1", "tanh_2"}}, {{"matmul_1", "tanh_grad_2"}}, {{"tanh_1", "weight_grad_2"}}));
  ASSERT_TRUE(input.status.ok()) << input.status.message();
  EXPECT_TRUE(input.Has(RecomputeName(0, "tanh_1"), SwapInName(0, "matmul_1")));
  EXPECT_GT(input.Deadline(SwapInName(0, "matmul_1")), input.Deadline(SwapOutName(0, "matmul_1")));
}

TEST(RewriteSwaps, AnyOutputIsSwappedWithTheColocationOfItsNode) {
  GraphBuilder b;
  b.Feed("x", {256, 64});
  b.Constant("axis", {}, tensorflow::DT_INT32);
  testing::Attr where{"_class", {}};
  where.second.mutable_list()->add_s("loc:@x");
  b.Float("split", "Split", {"axis", "x"}, {testing::Int("num_split", 2), where});
  b.Parse("early = AddV2(split, split:1); middle = Tanh(early); late = Mul(split:1, middle); fetch late");
  const Imported step(b.item());
  const Swapped out(step, SwapPlan(step, {{"split", "middle", 1}}, {{"split", "late", 1}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has(SwapOutName(0, "split"), "split:1"));
  EXPECT_TRUE(out.Has("late", SwapInName(0, "split")));
  for (const std::string& name : {SwapOutName(0, "split"), SwapInName(0, "split")}) {
    EXPECT_EQ(out.Find(name)->attr().at("_class").list().s(0), "loc:@x");
  }
}

TEST(RewriteSwaps, WhatIsPresentAllAlongIsNotSwapped) {
  const Imported step(testing::TrainChain(3));
  const Swapped out(step, SwapPlan(step, {{"w_1", "tanh_2"}}, {{"w_1", "input_grad_1"}}));
  EXPECT_NE(out.status.message().find("must not be swapped"), std::string::npos) << out.status.message();
}

// y is out by "middle"; "product" (a tile) is the next large allocation.
tensorflow::grappler::GrapplerItem Line() {
  GraphBuilder b;
  b.Parse(
      "x[256, 64]; y = Relu(x); early = Tanh(y); middle = Sigmoid(early); product = Softmax(middle, ^early); "
      "wide = Exp(product); late = Mul(y, wide); fetch late");
  return b.item();
}

TEST(RewriteSwaps, AllocationsAfterItsPlaceWaitForTheSwapOut) {
  const Imported step(Line());
  const Plan plan = SwapPlan(step, {{"y", "middle"}}, {{"y", "late"}});
  const std::string swap_out = SwapOutName(0, "y");
  RewriteOptions options;
  EXPECT_FALSE(Swapped(step, plan, options).Has("product", "^" + swap_out));
  options.enforce_order = true;
  const Swapped held(step, plan, options);
  ASSERT_TRUE(held.status.ok()) << held.status.message();
  EXPECT_TRUE(held.Has("product", "^" + swap_out));
  EXPECT_FALSE(held.Has("middle", "^" + swap_out));
  EXPECT_FALSE(held.Has("wide", "^" + swap_out));  // product has waited
  ASSERT_FALSE(held.result.order_edges.empty());
  EXPECT_EQ(held.result.order_edges[0].waits_for, swap_out);
  EXPECT_TRUE(Imported(held.item).status().ok());  // no cycle
  // With room for y beside all else nothing has to wait.
  options.order_limit_bytes = 100 * kTile;
  EXPECT_FALSE(Swapped(step, plan, options).Has("product", "^" + swap_out));
}

// Many of them add up, and nothing else would wait for their copies.
TEST(RewriteSwaps, SmallTensorsThatAreSwappedAreWaitedForAsLargeOnesAre) {
  GraphBuilder b;
  b.Parse("x[256, 256]; s[16]; y = Relu(s); early = Tanh(y); middle = Sigmoid(x, ^early); more = Softmax(middle)");
  b.Parse("late = Mul(y, early, ^more); fetch late, more");
  const Imported step(b.item());
  const Plan plan = SwapPlan(step, {{"y", "early"}}, {{"y", "late"}});
  RewriteOptions options;
  options.enforce_order = true;
  const Swapped out(step, plan, options);
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const std::string swap_out = "^" + SwapOutName(0, "y");
  EXPECT_TRUE(out.Has("middle", swap_out) || out.Has("more", swap_out));
}

TEST(RewriteSwaps, ASwapInWaitsForWhatIsFreedBeforeIt) {
  GraphBuilder b;
  b.Parse("x[256, 64]; y = Relu(x); early = Tanh(y)");
  b.Float("aside", "L2Loss", {"early"});  // the last reader of "early", on a branch of its own
  b.Parse("middle = Sigmoid(x, ^early); more = Softmax(middle); late = Mul(y, more); fetch late, aside");
  const Imported step(b.item());
  ASSERT_LT(step.OpOf("aside"), step.OpOf("more"));
  const Plan plan = SwapPlan(step, {{"y", "middle"}}, {{"y", "late"}});
  RewriteOptions options;
  options.enforce_order = true;
  options.order_limit_bytes = Simulate(step.graph(), plan).peak_bytes;
  const Swapped tight(step, plan, options);
  ASSERT_TRUE(tight.status.ok()) << tight.status.message();
  options.order_limit_bytes += 100 * kTile;
  const Swapped loose(step, plan, options);
  const auto waits = [](const Swapped& out) {
    return out.Has(SwapInName(0, "y"), "^aside") || out.Has("more", "^aside") || out.Has("middle", "^aside");
  };
  EXPECT_TRUE(waits(tight));
  EXPECT_FALSE(waits(loose));
}

TEST(RewriteSwaps, LargeResultsAreMadeOneAfterAnother) {
  GraphBuilder b;
  b.Parse("x[256, 64]; axes{0, 1}");
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    b.Float("wide_" + n, "Tanh", {"x"});
    b.Float("small_" + n, "Sum", {"wide_" + n, "axes"}, {testing::Type("Tidx", tensorflow::DT_INT32)});
    b.Fetch("small_" + n);
  }
  const Imported step(b.item());
  const auto edges = [&step](int64_t bytes) {
    RewriteOptions options;
    options.serialize_bytes = bytes;
    const Swapped out(step, Plan(), options);
    EXPECT_TRUE(out.status.ok()) << out.status.message();
    EXPECT_TRUE(Imported(out.item).status().ok());
    for (const OrderEdge& edge : out.result.order_edges) {
      EXPECT_EQ(edge.waits_for.substr(0, 4), "wide");
      EXPECT_LT(step.OpOf(edge.waits_for), edge.op);
    }
    return out.result.order_edges.size();
  };
  EXPECT_EQ(edges(0), 0U);
  EXPECT_EQ(edges(kTile), 2U);
  EXPECT_EQ(edges(kTile + 1), 0U);
  // Neighbours that wait for each other anyway need no edge.
  const Imported line(Line());
  RewriteOptions options;
  options.serialize_bytes = 1;
  const Swapped out(line, Plan(), options);
  EXPECT_TRUE(out.result.order_edges.empty());
}

TEST(RewriteSwaps, ResultsOfRandomOpsAreSwapped) {
  GraphBuilder b;
  b.Parse("x[256, 64]; shape{256, 64}");
  b.Add("mask", "RandomUniform", {"shape"},
        {testing::Type("T", tensorflow::DT_INT32), testing::Float32("dtype"), testing::Int("seed", 3)});
  b.item().keep_ops.push_back("mask");  // as Grappler has it for what is stateful in a function
  b.Parse("early = Mul(x, mask); middle = Tanh(early); late = Mul(mask, middle); fetch late");
  const Imported step(b.item());
  EXPECT_TRUE(step.Buffer("mask").swappable);
  EXPECT_FALSE(step.Buffer("mask").evictable);
  EXPECT_FALSE(step.Buffer("late").swappable);  // fetched
  const Swapped out(step, SwapPlan(step, {{"mask", "middle"}}, {{"mask", "late"}}));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has("late", SwapInName(0, "mask")));
}

}  // namespace
}  // namespace lms
