#include "cc/tf/stock/sum_holders.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "cc/tf/graph/graph_index.h"
#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using testing::LoopBuilder;
using Names = std::set<std::pair<std::string, std::string>>;  // (node, what it waits for)

// Terms a, b and c; `late` reads what the sum makes before it reads a view of a, `early` has read b for c to be made.
GraphBuilder Sum() {
  GraphBuilder b;
  b.Parse(
      "x[64]; a = Exp(x); b = Tanh(x); early = Neg(b); c = Neg(early); sum = AddN(a, b, c); after = Neg(sum); "
      "view = Identity(a); late = Mul(view, after); fetch late");
  return b;
}

Names Waits(GraphBuilder* b) {
  const tensorflow::grappler::GrapplerItem& item = b->item();
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  TensorSizes sizes(item, /*unknown_dim=*/32);
  EXPECT_TRUE(sizes.Infer().ok());
  Names waits;
  for (const NodeWait& wait : FindSumWaits(item.graph, index, sizes, /*onednn=*/false)) {
    waits.emplace(item.graph.node(wait.node).name(), item.graph.node(wait.waits_for).name());
  }
  return waits;
}

TEST(SumHolders, ReadersStayOnTheirSideOfTheSum) {
  GraphBuilder b = Sum();
  EXPECT_EQ(Waits(&b), Names({{"sum", "early"}, {"late", "sum"}}));
}

TEST(SumHolders, RowsOfATensorHoldAllOfIt) {
  GraphBuilder b;
  b.Parse("x[2, 64]; whole = Exp(x)");
  b.Float("rows", "Unpack", {"whole"}, {testing::Int("num", 2), testing::Int("axis", 0)});
  b.Parse(
      "early = Neg(rows:1); b = Tanh(early); other = Neg(b); c = Neg(other); sum = AddN(rows, b, c); "
      "after = Neg(sum); late = Mul(rows:1, after); fetch late");
  EXPECT_EQ(Waits(&b), Names({{"sum", "early"}, {"sum", "other"}, {"late", "sum"}}));
}

TEST(SumHolders, ATermOfItsOwnDecidesAndTwoTermsHaveOneOrder) {
  GraphBuilder own;
  own.Parse("x[64]; a = Exp(x); b = Tanh(x); other = Neg(b); sum = AddN(a, b, other); fetch sum");
  EXPECT_EQ(Waits(&own), Names());
  GraphBuilder two;
  two.Parse("x[64]; a = Exp(x); other = Neg(a); sum = AddN(a, other); more = Mul(a, other); fetch sum, more");
  EXPECT_EQ(Waits(&two), Names());
}

TEST(SumHolders, AnArgumentIsNeverTheSumsOwn) {
  GraphBuilder b;
  b.Parse("x[64]; argument[64]; b = Tanh(x); early = Neg(b); c = Neg(early); sum = AddN(argument, b, c); fetch sum");
  EXPECT_EQ(Waits(&b), Names({{"sum", "early"}}));
}

TEST(SumHolders, ATermThatStandsTwiceIsNotTheSumsOwn) {
  GraphBuilder b;
  b.Parse("x[64]; a = Exp(x); b = Tanh(x); early = Neg(b); c = Neg(early); sum = AddN(a, a, b, c); fetch sum");
  EXPECT_EQ(Waits(&b), Names({{"sum", "early"}}));
}

// The sum is made from two chains, and so is what reads a term. Which of them ends first is decided by the order of
// many edges, which the model draws: in most runs, though not in all, the long chain comes last.
TEST(SumHolders, MostRunsDecide) {
  GraphBuilder b;
  b.Parse("x[64]; a = Exp(x); b = Tanh(x); c = Sin(x); sum = AddN(a, b, c); sum_reader = Neg(sum)");
  std::vector<std::string> others;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "other" + std::to_string(i);
    b.Float(name, "Exp", {"x"});
    others.push_back(name);
  }
  b.Float("all", "AddN", others, {testing::Int("N", 12)});
  b.Parse("late = AddN(a, b, all); fetch sum_reader, late");
  EXPECT_EQ(Waits(&b), Names({{"late", "sum"}}));
}

// The loop lets go of a before the sum: it has ended, as the sum needs what it has made.
TEST(SumHolders, ASumWaitsForLoopsThatHaveEndedBeforeIt) {
  LoopBuilder b;
  b.Parse("a = Exp(x)");
  b.Carry("y", "a", "body", tensorflow::DT_FLOAT);
  b.Parse("body = Tanh(y_switch:1); made = Neg(y_exit); sum = AddN(a, a, made); fetch sum");
  EXPECT_EQ(Waits(&b), Names({{"sum", "y_exit"}}));
}

// It holds a when the sum runs: it needs the sum to go on.
TEST(SumHolders, LoopsThatHoldATermOfASumBeginAfterIt) {
  LoopBuilder b;
  b.Parse("a = Exp(x); b = Sin(x); sum = AddN(a, a, b); after = Neg(sum)");
  b.Enter("a_in", "a", tensorflow::DT_FLOAT, true);
  b.Carry("y", "after", "body", tensorflow::DT_FLOAT);
  b.Parse("body = Mul(y_switch:1, a_in); fetch y_exit");
  EXPECT_EQ(Waits(&b), Names({{"a_in", "sum"}}));
}

// A sum of a, a and what comes long after b, which enters the loop.
void AddLateSum(LoopBuilder* b) {
  std::string last = "b";
  for (int i = 0; i < 20; ++i) {
    const std::string name = "link" + std::to_string(i);
    b->Float(name, "Tanh", {last});
    last = name;
  }
  b->Parse("sum = AddN(a, a, " + last + "); after = Neg(sum)");
  b->Carry("z", "after", "more", tensorflow::DT_FLOAT);
  b->Parse("more = Tanh(z_switch:1); fetch y_exit, z_exit");
}

// The first iteration has read a, and is not over: no edge keeps the sum within it.
TEST(SumHolders, WhatALoopHasReadAndNotEndedBeforeASumIsNobodysToKeep) {
  LoopBuilder b;
  b.Parse("a = Exp(x)");
  b.Carry("y", "a", "body", tensorflow::DT_FLOAT);
  b.Parse("body = Tanh(y_switch:1); b = Sin(x)");
  AddLateSum(&b);
  EXPECT_EQ(Waits(&b), Names());
}

// The counter runs ahead: what the loop hands through may have left it, though the sum is yet to enter.
TEST(SumHolders, WhatALoopHandsThroughMayBeGoneBeforeASumThatEntersIt) {
  LoopBuilder b;
  b.Parse("a = Exp(x); b = Sin(x)");
  b.Carry("y", "a", "y_switch:1", tensorflow::DT_FLOAT);
  AddLateSum(&b);
  EXPECT_EQ(Waits(&b), Names());
}

// A branch reads a; p decides which.
void Branch(GraphBuilder* b, const std::string& predicate) {
  b->Float("in", "Switch", {"a", predicate});
  b->Parse("no = Neg(in); yes = Sin(in:1)");
  b->Float("out", "Merge", {"no", "yes"}, {testing::Int("N", 2)});
}

TEST(SumHolders, ASumWaitsForBranchesThatHaveEndedBeforeIt) {
  GraphBuilder b;
  b.Parse("x[64]; p = Placeholder; a = Exp(x)");
  Branch(&b, "p");
  b.Parse("made = Neg(out); sum = AddN(a, a, made); fetch sum");
  EXPECT_EQ(Waits(&b), Names({{"sum", "out"}}));
}

TEST(SumHolders, BranchesThatReadATermOfASumAfterItBeginAfterIt) {
  GraphBuilder b;
  b.Parse("x[64]; a = Exp(x); b = Sin(x); sum = AddN(a, a, b); after = Neg(sum)");
  b.Add("p", "LogicalNot", {"q"});
  b.Add("q", "Equal", {"after", "after"}, {testing::Type("T", tensorflow::DT_FLOAT)});
  Branch(&b, "p");
  b.Parse("fetch out");
  EXPECT_EQ(Waits(&b), Names({{"in", "sum"}}));
}

}  // namespace
}  // namespace lms
