#include "cc/tf/stock/variable_waits.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// Each as the node that waits and the one that it waits for.
Pairs WaitsOf(const tensorflow::grappler::GrapplerItem& item) {
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  Pairs waits;
  for (const VariableWait& wait : FindVariableWaits(item.graph, index)) {
    waits.emplace_back(item.graph.node(wait.update).name(), item.graph.node(wait.reader).name());
  }
  return waits;
}

// A weight of 64 KiB and more; its gradient (n1) updates it, and n2 reads it to pass the gradient on.
class Weights {
 public:
  explicit Weights(int64_t rows) {
    b_.Feed("x", {rows, 128});
    b_.Variable("w", {rows, 128});
    b_.Parse(
        "read = ReadVariableOp(w); n1 = Neg(x); view = Identity(read); n2 = Mul(view, x); "
        "update = AssignSubVariableOp(w, n1); fetch n2");
    b_.Add("end", "NoOp", {"^update"});
    b_.Fetch("end");
  }

  GraphBuilder& builder() { return b_; }

  Pairs Waits() { return WaitsOf(b_.item()); }

 private:
  GraphBuilder b_;
};

TEST(VariableWaitsTest, AnUpdateWaitsForThoseWhoReadTheVariableThroughViewsToo) {
  Weights weights(128);
  weights.builder().Float("n3", "Exp", {"n2"});
  weights.builder().Fetch("n3");
  EXPECT_EQ(weights.Waits(), (Pairs{{"update", "n2"}}));
}

TEST(VariableWaitsTest, UpdatesThatTheFunctionKeepsByNameWaitAndThoseThatAreFetchedDoNot) {
  Weights kept(128);
  kept.builder().item().keep_ops.push_back("update");
  EXPECT_EQ(kept.Waits(), (Pairs{{"update", "n2"}}));
  Weights fetched(128);
  fetched.builder().Fetch("update");
  EXPECT_EQ(fetched.Waits(), Pairs());
}

TEST(VariableWaitsTest, SmallVariablesAreNotWorthAnEdge) {
  Weights weights(127);
  EXPECT_EQ(weights.Waits(), Pairs());
}

TEST(VariableWaitsTest, WhatDependsOnTheUpdateIsNotWaitedFor) {
  Weights weights(128);
  weights.builder().Float("late", "Neg", {"read", "^update"});
  weights.builder().Fetch("late");
  weights.builder().Float("n3", "Neg", {"read"});
  weights.builder().Fetch("n3");
  const Pairs waits = weights.Waits();
  for (const auto& [update, reader] : waits) EXPECT_NE(reader, "late");
}

// Weight decay: w -= w * rate at once, then w -= gradient. Neither it nor the product is to be there until then.
TEST(VariableWaitsTest, AnUpdateThatNeedsNothingOfTheStepWaitsForWhatTheNextOneNeeds) {
  GraphBuilder b;
  b.Parse(
      "x[8, 8]; rate = Const[]; w = VarHandleOp[8, 8]; read = ReadVariableOp(w); y = MatMul(x, read); "
      "read_for_decay = ReadVariableOp(w); product = Mul(read_for_decay, rate); "
      "decay = AssignSubVariableOp(w, product, ^read); gradient = Neg(y); "
      "update = AssignSubVariableOp(w, gradient, ^decay)");
  b.Add("end", "NoOp", {"^update"});
  b.Fetch("end");
  EXPECT_EQ(WaitsOf(b.item()), (Pairs{{"decay", "gradient"}, {"product", "gradient"}}));
}

// The decay is what one of two branches makes of the weight.
TEST(VariableWaitsTest, WhatEndsABranchIsNotMadeToWait) {
  GraphBuilder b;
  b.Parse(
      "x[8, 8]; p = Placeholder; w = VarHandleOp[8, 8]; read = ReadVariableOp(w); y = MatMul(x, read); "
      "read_for_decay = ReadVariableOp(w); branch = Switch(read_for_decay, p); less = Neg(branch); "
      "more = Exp(branch:1); merge = Merge(less, more); product = Mul(merge, merge); "
      "decay = AssignSubVariableOp(w, product, ^read); gradient = Neg(y); "
      "update = AssignSubVariableOp(w, gradient, ^decay)");
  b.Add("end", "NoOp", {"^update"});
  b.Fetch("end");
  EXPECT_EQ(WaitsOf(b.item()), (Pairs{{"decay", "gradient"}, {"product", "gradient"}}));
}

// The second update needs what depends on the first one: nothing can be put off until then.
TEST(VariableWaitsTest, AnUpdateDoesNotWaitForWhatDependsOnIt) {
  GraphBuilder b;
  b.Parse(
      "x[8, 8]; w = VarHandleOp[8, 8]; first = AssignSubVariableOp(w, x); read = ReadVariableOp(w, ^first); "
      "gradient = Neg(read); second = AssignSubVariableOp(w, gradient, ^first)");
  b.Add("end", "NoOp", {"^second"});
  b.Fetch("end");
  EXPECT_EQ(WaitsOf(b.item()), Pairs());
}

}  // namespace
}  // namespace lms
