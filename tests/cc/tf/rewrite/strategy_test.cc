#include "cc/core/search/strategy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/core/order/memory_order.h"
#include "cc/core/simulate/liveness.h"
#include "cc/tf/rewrite/rewrite.h"
#include "cc/tf/verify/verify.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using testing::HasInput;
using testing::Imported;
using testing::kTile;

constexpr int kBranches = 6;
constexpr int64_t kWide = 8 * kTile;  // a [256, 512] tensor

// Branches that widen x and narrow it at once: wide_k = MatMul(x, w_k) of eight tiles, narrow_k = its row sums. All of
// wide_k are ready at once, so the executor makes all of them before the first is read.
tensorflow::grappler::GrapplerItem Branches() {
  GraphBuilder b;
  b.Parse("x[256, 64]; axis{1}");
  std::string sum;
  for (int i = 0; i < kBranches; ++i) {
    const std::string n = std::to_string(i);
    b.Variable("w_" + n, {64, 512});
    b.Read("read_" + n, "w_" + n);
    b.Float("wide_" + n, "MatMul", {"x", "read_" + n});
    b.Float("narrow_" + n, "Sum", {"wide_" + n, "axis"}, {testing::Type("Tidx", tensorflow::DT_INT32)});
    if (i == 0) {
      sum = "narrow_0";
    } else {
      b.Float("sum_" + n, "AddV2", {sum, "narrow_" + n});
      sum = "sum_" + n;
    }
  }
  b.Fetch(sum);
  return b.item();
}

int64_t Peak(const MemGraph& graph) { return Simulate(graph, Plan()).peak_bytes; }

// The graph in the order, with an empty plan and edges for the limit.
struct Ordered {
  Ordered(const Imported& step, const std::vector<OpId>& order, int64_t limit) : item(step.item()) {
    RewriteOptions options;
    options.enforce_order = true;
    options.order_limit_bytes = limit;
    status = RewriteGraph(InOrder(step.imported(), order), step.index(), Plan(), options, &item.graph, &result);
    if (status.ok()) status = VerifyRewrite(step.item(), step.index(), item, step.sizes(), 1, SwapLink(), &profile);
  }
  tensorflow::grappler::GrapplerItem item;
  RewriteResult result;
  MemoryProfile profile;
  absl::Status status;
};

TEST(Strategy, TheGraphInAnotherOrderIsTheSameGraph) {
  const Imported step(Branches());
  const MemoryOrder order = OrderForLeastPeak(step.graph());
  ASSERT_TRUE(order.changed);
  const ImportedGraph ordered = InOrder(step.imported(), order.order);
  EXPECT_EQ(ordered.graph.Validate(), "");
  EXPECT_EQ(Peak(ordered.graph), order.peak_bytes);
  for (size_t op = 0; op < ordered.graph.ops.size(); ++op) {
    const int node = ordered.node_of_op[op];
    EXPECT_EQ(ordered.op_of_node[node], static_cast<OpId>(op));
    EXPECT_EQ(step.item().graph.node(node).name(), ordered.graph.ops[op].name);
  }
}

TEST(Strategy, AnOrderAloneMeetsALimitByEdgesAtLargeAllocations) {
  const Imported step(Branches());
  const int64_t resident = step.graph().ResidentBytes();
  EXPECT_GE(Peak(step.graph()), resident + kBranches * kWide);
  // One wide tensor at a time: each but the first waits for the one before to be read.
  const int64_t limit = resident + kWide + kTile;
  const Strategy chosen = ChooseForLimit(step.graph(), limit, StrategyOptions());
  ASSERT_TRUE(chosen.planned.feasible);
  EXPECT_TRUE(chosen.planned.plan.steps.empty());
  EXPECT_EQ(chosen.planned.cost_us, 0);
  const Ordered out(step, chosen.order, limit);
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_LE(out.profile.peak_bytes, limit);
  EXPECT_EQ(out.item.graph.node_size(), step.item().graph.node_size());
  EXPECT_EQ(out.result.order_edges.size(), kBranches - 1U);
  int changed = 0;
  for (int i = 0; i < out.item.graph.node_size(); ++i) {
    const bool same = out.item.graph.node(i).DebugString() == step.item().graph.node(i).DebugString();
    changed += same ? 0 : 1;
    EXPECT_TRUE(same || out.item.graph.node(i).op() == "MatMul") << out.item.graph.node(i).name();
  }
  EXPECT_EQ(changed, kBranches - 1);
}

TEST(Strategy, OrderIsEnforcedOnlyAsFarAsTheLimitNeeds) {
  const Imported step(Branches());
  const int64_t resident = step.graph().ResidentBytes();
  const MemoryOrder least = OrderForLeastPeak(step.graph());
  // One at a time in the order, but room for three: the first three wait for none, the others until all but two of
  // those before them have been read: 1 + 2 + 3 edges.
  const int64_t limit = resident + 3 * kWide + kTile;
  const Ordered loose(step, least.order, limit);
  ASSERT_TRUE(loose.status.ok()) << loose.status.message();
  EXPECT_EQ(loose.result.order_edges.size(), 6U);
  int waiting = 0;
  for (int i = 0; i < kBranches; ++i) {
    const tensorflow::NodeDef* wide = testing::FindNode(loose.item.graph, "wide_" + std::to_string(i));
    waiting += wide->input_size() > 2 ? 1 : 0;
  }
  EXPECT_EQ(waiting, kBranches - 3);
  EXPECT_LE(loose.profile.peak_bytes, limit);
  const Ordered free(step, least.order, resident + (kBranches + 1) * kWide);
  ASSERT_TRUE(free.status.ok()) << free.status.message();
  EXPECT_TRUE(free.result.order_edges.empty());
}

TEST(Strategy, WithoutOrderAndRecomputationThereIsNothingToChoose) {
  const Imported step(Branches());
  StrategyOptions options;
  options.order = false;
  options.planner.recompute = false;
  const Strategy chosen = ChooseForLimit(step.graph(), step.graph().ResidentBytes() + 2 * kWide, options);
  EXPECT_FALSE(chosen.planned.feasible);
  EXPECT_TRUE(chosen.order.empty());
  EXPECT_EQ(chosen.planned.peak_bytes, Peak(step.graph()));
  options.order = true;
  EXPECT_LT(ChooseForLeastPeak(step.graph(), options).planned.peak_bytes, Peak(step.graph()));
}

TEST(Strategy, RecomputationMayRelyOnTheOrder) {
  // Between what order alone reaches and what a single op needs, both are wanted.
  const Imported step(testing::TrainChain(8));
  const int64_t resident = step.graph().ResidentBytes();
  const int64_t limit = resident + 6 * kTile;
  StrategyOptions options;
  const Strategy chosen = ChooseForLimit(step.graph(), limit, options);
  ASSERT_TRUE(chosen.planned.feasible);
  EXPECT_FALSE(chosen.planned.plan.steps.empty());
  const MemGraph graph = chosen.order.empty() ? step.graph() : Reordered(step.graph(), chosen.order);
  EXPECT_EQ(ValidatePlan(graph, chosen.planned.plan), "");
  EXPECT_LE(Simulate(graph, chosen.planned.plan).peak_bytes, limit);
  options.order = false;
  EXPECT_LE(chosen.planned.cost_us, ChooseForLimit(step.graph(), limit, options).planned.cost_us + 1e-9);
}

TEST(Strategy, WhoHoldsTheTermsOfASumDoesNotChange) {
  // The order of this sum depends on whether a and b have other readers when it runs.
  GraphBuilder b;
  b.Parse("x[256, 64]; axis{1}");
  for (const char* name : {"a", "b", "c"}) b.Float(name, "Tanh", {"x"});
  b.Float("sum", "AddN", {"a", "b", "c"}, {testing::Int("N", 3)});
  b.Float("of_a", "Sum", {"a", "axis"}, {testing::Type("Tidx", tensorflow::DT_INT32)});
  b.Float("of_b", "Sum", {"b", "axis"}, {testing::Type("Tidx", tensorflow::DT_INT32)});
  for (const char* name : {"of_a", "of_b"}) b.Fetch(name);
  b.Parse("end = Neg(sum); fetch end");
  const Imported step(b.item());
  std::vector<OpId> order(step.graph().ops.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<OpId>(i);
  const Ordered out(step, order, Peak(step.graph()));
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  for (const char* other : {"of_a", "of_b"}) {
    const bool first = step.OpOf(other) < step.OpOf("sum");
    EXPECT_TRUE(first ? HasInput(out.item.graph, "sum", std::string("^") + other)
                      : HasInput(out.item.graph, other, "^sum"))
        << other;
  }
}

}  // namespace
}  // namespace lms
