#include "cc/tf/rewrite/rewrite.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::FindNode;
using testing::GraphBuilder;
using testing::HasInput;
using testing::Imported;

// One step of a plan, by names: `op` again before `before`, for its output 0.
struct Again {
  std::string op;
  std::string before;
  bool moves = false;
};

class Rewritten {
 public:
  Rewritten(const Imported& step, const std::vector<Again>& again, bool enforce_order = false) {
    Plan plan;
    for (const Again& a : again) {
      plan.steps.push_back({step.OpOf(a.before), step.OpOf(a.op), {step.BufferIdOf(a.op)}, a.moves});
    }
    item = step.item();
    RewriteOptions options;
    options.enforce_order = enforce_order;
    status = RewriteGraph(step.imported(), step.index(), plan, options, &item.graph, &result);
  }
  bool Has(const std::string& node, const std::string& input) const { return HasInput(item.graph, node, input); }
  const tensorflow::NodeDef* Find(const std::string& name) const { return FindNode(item.graph, name); }

  tensorflow::grappler::GrapplerItem item;
  RewriteResult result;
  absl::Status status;
};

TEST(Rewrite, ACopyReadsItsOriginalsInputsAndWaitsForItsPlace) {
  // tanh_1 is read by matmul_2 and, much later, by weight_grad_2 and tanh_grad_1.
  const Imported step(testing::TrainChain(3));
  const Rewritten out(step, {{"tanh_1", "weight_grad_2"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const std::string copy = RecomputeName(0, "tanh_1");
  const tensorflow::NodeDef* node = out.Find(copy);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(out.item.graph.node_size(), step.item().graph.node_size() + 1);
  EXPECT_EQ(node->op(), "Tanh");
  EXPECT_EQ(node->device(), testing::kCpu);
  EXPECT_EQ(node->attr_size(), FindNode(step.item().graph, "tanh_1")->attr_size());
  // The data input of the original, and the op that makes the reader's other input.
  ASSERT_EQ(node->input_size(), 2);
  EXPECT_EQ(node->input(0), "matmul_1");
  EXPECT_EQ(node->input(1), "^tanh_grad_2");
  EXPECT_EQ(out.result.step_nodes, std::vector<std::string>{copy});
  EXPECT_EQ(out.result.step_triggers, std::vector<std::string>{"tanh_grad_2"});
}

TEST(Rewrite, ReadersFromThePlaceOnReadTheCopyAndEarlierOnesTheOriginal) {
  const Imported step(testing::TrainChain(3));
  const Rewritten out(step, {{"tanh_1", "weight_grad_2"}});
  const std::string copy = RecomputeName(0, "tanh_1");
  EXPECT_TRUE(out.Has("matmul_2", "tanh_1"));
  EXPECT_TRUE(out.Has("weight_grad_2", copy));
  EXPECT_FALSE(out.Has("weight_grad_2", "tanh_1"));
  EXPECT_TRUE(out.Has("tanh_grad_1", copy));
  // Nothing else has changed.
  int changed = 0;
  for (int i = 0; i < step.item().graph.node_size(); ++i) {
    changed += out.item.graph.node(i).DebugString() != step.item().graph.node(i).DebugString() ? 1 : 0;
  }
  EXPECT_EQ(changed, 2);
}

TEST(Rewrite, AnEmptyPlanChangesNothing) {
  const Imported step(testing::TrainChain(3));
  const Rewritten out(step, {}, /*enforce_order=*/false);
  ASSERT_TRUE(out.status.ok());
  EXPECT_TRUE(out.item.graph.DebugString() == step.item().graph.DebugString());
}

TEST(Rewrite, AChainsCopiesReadEachOtherAndAllWait) {
  const Imported step(testing::TrainChain(3));
  const Rewritten out(step, {{"matmul_1", "weight_grad_2"}, {"tanh_1", "weight_grad_2"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const std::string matmul = RecomputeName(0, "matmul_1");
  const std::string tanh = RecomputeName(1, "tanh_1");
  EXPECT_TRUE(out.Has(matmul, "tanh_0"));
  EXPECT_TRUE(out.Has(matmul, "read_1"));
  EXPECT_TRUE(out.Has(matmul, "^tanh_grad_2"));  // else it would run at once
  EXPECT_TRUE(out.Has(tanh, matmul));
  EXPECT_TRUE(out.Has(tanh, "^tanh_grad_2"));
  EXPECT_TRUE(out.Has("weight_grad_2", tanh));
}

TEST(Rewrite, ACopyThatReadsAVariableComesBeforeItsUpdate) {
  const Imported step(testing::TrainChain(3));
  const Rewritten out(step, {{"matmul_1", "weight_grad_2"}, {"tanh_1", "weight_grad_2"}});
  EXPECT_TRUE(out.Has("update_1", "^" + RecomputeName(0, "matmul_1")));
  EXPECT_FALSE(out.Has("update_1", "^" + RecomputeName(1, "tanh_1")));  // reads no variable
  EXPECT_FALSE(out.Has("update_2", "^" + RecomputeName(0, "matmul_1")));
}

// y -> Identity -> Reshape -> readers, early and late.
tensorflow::grappler::GrapplerItem WithViews() {
  GraphBuilder b;
  b.Parse("x[256, 64]; y = Relu(x); same = Identity(y); shape{64, 256}");
  b.Float("flat", "Reshape", {"same", "shape"}, {testing::Type("Tshape", tensorflow::DT_INT32)});
  b.Parse(
      "early = Tanh(flat); middle = Sigmoid(early); late = Mul(flat, middle); "
      "late_same = TanhGrad(same, x, ^middle); latest = Mul(flat, late); fetch latest, late_same");
  return b.item();
}

TEST(Rewrite, ReadersBehindViewsAreReroutedAndTheViewsStay) {
  const Imported step(WithViews());
  ASSERT_LT(step.OpOf("late"), step.OpOf("late_same"));
  const Rewritten out(step, {{"y", "late"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const std::string copy = RecomputeName(0, "y");
  const std::string flat = RecomputeName(0, "flat");
  // The reshape is copied once, for both of its late readers; the identity is passed over.
  ASSERT_NE(out.Find(flat), nullptr);
  EXPECT_TRUE(out.Has(flat, copy));
  EXPECT_TRUE(out.Has(flat, "shape"));
  EXPECT_EQ(out.Find(RecomputeName(0, "same")), nullptr);
  EXPECT_TRUE(out.Has("late", flat));
  EXPECT_TRUE(out.Has("latest", flat));
  EXPECT_TRUE(out.Has("late_same", copy));
  // The originals, and who reads them in time.
  EXPECT_TRUE(out.Has("early", "flat"));
  EXPECT_TRUE(out.Has("flat", "same"));
  EXPECT_TRUE(out.Has("same", "y"));
  EXPECT_EQ(out.item.graph.node_size(), step.item().graph.node_size() + 2);
}

TEST(Rewrite, AnIdentityNIsPassedOverPortByPort) {
  GraphBuilder b;
  b.Parse("x[256, 64]; y = Relu(x); z = Exp(x)");
  b.Add("both", "IdentityN", {"y", "z"}, {testing::Types("T", {tensorflow::DT_FLOAT, tensorflow::DT_FLOAT})});
  b.Parse("early = AddV2(both, both:1); middle = Sigmoid(early); late = Mul(both:1, middle); fetch late");
  const Imported step(b.item());
  const Rewritten out(step, {{"z", "late"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has("late", RecomputeName(0, "z")));
  EXPECT_TRUE(out.Has("early", "both:1"));
}

TEST(Rewrite, CopiesOfARegionWaitForOpsOfTheirOwnRegion) {
  // The last op of a branch runs right after copies of an op in the branch and of one outside, which all runs need.
  GraphBuilder b;
  b.Feed("x", {256, 64});
  b.Constant("yes", {}, tensorflow::DT_BOOL);
  b.Parse(
      "outside = Tanh(x); outside_reader = Exp(outside); fork = Switch(outside_reader, yes); "
      "inside = Sigmoid(fork:1); inside_reader = Exp(inside); last = Mul(inside_reader, inside); "
      "join = Merge(fork, last); after = Mul(join, outside); fetch after");
  const Imported step(b.item(), {"outside", "inside"});
  ASSERT_EQ(step.imported().regions.size(), 2U);
  const Rewritten out(step, {{"outside", "last"}, {"inside", "last"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has(RecomputeName(0, "outside"), "^outside_reader"));
  EXPECT_TRUE(out.Has(RecomputeName(1, "inside"), "^inside_reader"));
  EXPECT_FALSE(out.Has(RecomputeName(0, "outside"), "^inside_reader"));  // it would not run without the branch
  EXPECT_TRUE(out.Has("last", RecomputeName(1, "inside")));
  EXPECT_TRUE(out.Has("after", RecomputeName(0, "outside")));
}

TEST(Rewrite, AMovedOpKeepsItsNameAndWaits) {
  GraphBuilder b;
  b.Feed("x", {256, 64});
  b.Float("y", "Relu", {"x"});  // read at the end only
  b.Parse("a = Tanh(x); c = Sigmoid(a); late = Mul(y, c); fetch late");
  const Imported step(b.item());
  const Rewritten out(step, {{"y", "late", /*moves=*/true}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_EQ(out.item.graph.node_size(), step.item().graph.node_size());
  EXPECT_TRUE(out.Has("y", "x"));
  EXPECT_TRUE(out.Has("y", "^c"));
  EXPECT_TRUE(out.Has("late", "y"));
  EXPECT_EQ(out.result.step_nodes, std::vector<std::string>{"y"});
}

TEST(Rewrite, AMoveIsRefusedWhereTheOpIsMissedBefore) {
  const Imported step(testing::TrainChain(3));
  const Rewritten out(step, {{"tanh_1", "weight_grad_2", /*moves=*/true}});  // matmul_2 reads it
  EXPECT_NE(out.status.message().find("tanh_1:0 is missed by matmul_2"), std::string::npos) << out.status.message();
}

TEST(Rewrite, APlanAgainstTheRulesIsRefused) {
  const Imported step(testing::TrainChain(3));
  // Stays: a variable's read; and what was recomputed before it ran.
  EXPECT_FALSE(Rewritten(step, {{"read_1", "weight_grad_2"}}).status.ok());
  EXPECT_FALSE(Rewritten(step, {{"tanh_1", "matmul_0"}}).status.ok());
}

TEST(Rewrite, NothingIsRecomputedFromAVariableAfterItsUpdate) {
  GraphBuilder b;
  b.Parse(
      "x[64, 64]; w = VarHandleOp[64, 64]; read = ReadVariableOp(w); y = AddV2(x, read); early = Tanh(y); "
      "update = AssignSubVariableOp(w, early); middle = Sigmoid(early, ^update); late = Mul(y, middle); fetch late");
  const Imported step(b.item());
  const Rewritten out(step, {{"y", "late"}});
  EXPECT_EQ(out.status.message(), "y would read w:0 after it was overwritten");
}

TEST(Rewrite, ResultsAreUntouched) {
  GraphBuilder b;
  b.Parse("x[256, 64]; y = Relu(x); early = Tanh(y); middle = Sigmoid(early); late = Mul(y, middle)");
  b.Float("result", "_Retval", {"late"}, {testing::Int("index", 0)});
  b.Float("other", "_Retval", {"early"}, {testing::Int("index", 1)});
  b.item().keep_ops = {"result", "other"};
  const Imported step(b.item());
  const Rewritten out(step, {{"y", "late"}}, /*enforce_order=*/true);
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  for (const char* name : {"result", "other"}) {
    EXPECT_EQ(out.Find(name)->DebugString(), FindNode(step.item().graph, name)->DebugString());
  }
  EXPECT_FALSE(Rewritten(step, {{"early", "late"}}).status.ok());  // returned: never evicted
}

// A session's step, in which what nobody depends on does not run: y waits for a check, and so may its first readers.
tensorflow::grappler::GrapplerItem WithCheck(const std::string& readers) {
  GraphBuilder b;
  b.item().optimization_options().allow_pruning_stateful_and_dataset_ops = true;
  b.Feed("x", {256, 64});
  b.Constant("holds", {}, tensorflow::DT_BOOL);
  b.Constant("data", {});
  b.Add("check", "Assert", {"holds", "data"}, {testing::Types("T", {tensorflow::DT_FLOAT})});
  b.Add("checked", "NoOp", {"^check"});
  b.Parse(readers);
  return b.item();
}

TEST(Rewrite, WhatOnlyALeftOutFirstRunWaitedForIsWaitedForByTheRecomputation) {
  const Imported step(WithCheck(
      "y = Relu(x, ^checked); a = Exp(y); b0 = Tanh(x); b1 = Tanh(b0); b2 = Tanh(b1); b3 = Tanh(b2); b4 = Tanh(b3); "
      "late = Mul(a, b4); last = Mul(y, late); fetch last"));
  ASSERT_LT(step.OpOf("a"), step.OpOf("b4"));
  const Rewritten out(step, {{"y", "late"}, {"a", "late"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has(RecomputeName(0, "y"), "^checked"));
  EXPECT_FALSE(out.Has(RecomputeName(1, "a"), "^checked"));  // which reads it
  GraphIndex index;
  ASSERT_TRUE(index.Build(out.item).ok());
  EXPECT_FALSE(index[index.Find("y")].live);
  for (const char* name : {"check", "checked"}) EXPECT_TRUE(index[index.Find(name)].live) << name;
  EXPECT_TRUE(Imported(out.item).status().ok());  // no cycle
}

TEST(Rewrite, WhatOnlyAnIdentityWaitedForThatIsPassedOverIsWaitedForByItsReader) {
  const Imported step(WithCheck(
      "y = Relu(x); same = Identity(y, ^check); early = Exp(y); middle = Sigmoid(early); late = Mul(same, middle); "
      "fetch late"));
  const Rewritten out(step, {{"y", "late"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_TRUE(out.Has("late", RecomputeName(0, "y")));
  EXPECT_TRUE(out.Has("late", "^check"));
}

TEST(Rewrite, WhatStillRunsGetsNoEdge) {
  const Imported step(
      WithCheck("y = Relu(x, ^checked); early = Exp(y); middle = Sigmoid(early); late = Mul(y, middle); fetch late"));
  const Rewritten out(step, {{"y", "late"}});
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_FALSE(out.Has(RecomputeName(0, "y"), "^checked"));
  EXPECT_FALSE(out.Has("late", "^checked"));
}

// Every pair of nodes that order edges or copies connect agrees with one order: it can be put in order afresh.
TEST(Rewrite, TheGraphStaysAcyclicWithOrderEdges) {
  const Imported step(testing::TrainChain(6));
  std::vector<Again> again;
  for (int i = 4; i >= 0; --i) {
    const std::string n = std::to_string(i);
    const std::string before = "weight_grad_" + std::to_string(i + 1);
    again.push_back({"matmul_" + n, before});
    again.push_back({"tanh_" + n, before});
  }
  const Rewritten out(step, again, /*enforce_order=*/true);
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  const Imported anew(out.item);
  // The order asked for holds in it: no copy before the gradient that it waits for.
  for (size_t i = 0; i < out.result.step_nodes.size(); ++i) {
    EXPECT_GT(anew.OpOf(out.result.step_nodes[i]), anew.OpOf(out.result.step_triggers[i]));
  }
}

TEST(Rewrite, OrderEdgesHoldLargeOpsBackUntilTheirMemoryIsFree) {
  // "aside" reads y early and is its last reader but for the copy's; "late" allocates a tile.
  GraphBuilder b;
  b.Parse(
      "x[256, 64]; y = Relu(x); early = Tanh(y); aside = L2Loss(y); middle = Sigmoid(early); "
      "product = Softmax(middle); late = Mul(y, product); fetch late, aside");
  const Imported step(b.item());
  ASSERT_LT(step.OpOf("aside"), step.OpOf("middle"));
  const Rewritten with(step, {{"y", "late"}}, /*enforce_order=*/true);
  const Rewritten without(step, {{"y", "late"}}, /*enforce_order=*/false);
  ASSERT_TRUE(with.status.ok()) << with.status.message();
  EXPECT_TRUE(with.Has("middle", "^aside"));
  EXPECT_FALSE(without.Has("middle", "^aside"));
  EXPECT_FALSE(with.Has("product", "^aside"));  // middle waits already
}

}  // namespace
}  // namespace lms
