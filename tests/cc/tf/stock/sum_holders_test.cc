#include "cc/tf/stock/sum_holders.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "cc/tf/graph/graph_index.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using Names = std::set<std::pair<std::string, std::string>>;  // (node, what it waits for)

// Terms a, b and c; `late` reads what the sum makes before it reads a view of a, `early` has read b for c to be made.
GraphBuilder Sum() {
  GraphBuilder b;
  b.Feed("x", {64});
  b.Float("a", "Exp", {"x"});
  b.Float("b", "Tanh", {"x"});
  b.Float("early", "Neg", {"b"});
  b.Float("c", "Neg", {"early"});
  b.Float("sum", "AddN", {"a", "b", "c"}, {testing::Int("N", 3)});
  b.Float("after", "Neg", {"sum"});
  b.Float("view", "Identity", {"a"});
  b.Float("late", "Mul", {"view", "after"});
  b.Fetch("late");
  return b;
}

Names Waits(GraphBuilder* b) {
  const tensorflow::grappler::GrapplerItem& item = b->item();
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  TensorSizes sizes(item, /*unknown_dim=*/32);
  EXPECT_TRUE(sizes.Infer().ok());
  Names waits;
  for (const SumWait& wait : FindSumWaits(item.graph, index, sizes, /*onednn=*/false)) {
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
  b.Feed("x", {2, 64});
  b.Float("whole", "Exp", {"x"});
  b.Float("rows", "Unpack", {"whole"}, {testing::Int("num", 2), testing::Int("axis", 0)});
  b.Float("early", "Neg", {"rows:1"});
  b.Float("b", "Tanh", {"early"});
  b.Float("other", "Neg", {"b"});
  b.Float("c", "Neg", {"other"});
  b.Float("sum", "AddN", {"rows", "b", "c"}, {testing::Int("N", 3)});
  b.Float("after", "Neg", {"sum"});
  b.Float("late", "Mul", {"rows:1", "after"});
  b.Fetch("late");
  EXPECT_EQ(Waits(&b), Names({{"sum", "early"}, {"sum", "other"}, {"late", "sum"}}));
}

TEST(SumHolders, ATermOfItsOwnDecidesAndTwoTermsHaveOneOrder) {
  GraphBuilder own;
  own.Feed("x", {64});
  own.Float("a", "Exp", {"x"});
  own.Float("b", "Tanh", {"x"});
  own.Float("other", "Neg", {"b"});
  own.Float("sum", "AddN", {"a", "b", "other"}, {testing::Int("N", 3)});
  own.Fetch("sum");
  EXPECT_EQ(Waits(&own), Names());
  GraphBuilder two;
  two.Feed("x", {64});
  two.Float("a", "Exp", {"x"});
  two.Float("other", "Neg", {"a"});
  two.Float("sum", "AddN", {"a", "other"}, {testing::Int("N", 2)});
  two.Float("more", "Mul", {"a", "other"});
  two.Fetch("sum");
  two.Fetch("more");
  EXPECT_EQ(Waits(&two), Names());
}

TEST(SumHolders, AnArgumentIsNeverTheSumsOwn) {
  GraphBuilder b;
  b.Feed("x", {64});
  b.Feed("argument", {64});
  b.Float("b", "Tanh", {"x"});
  b.Float("early", "Neg", {"b"});
  b.Float("c", "Neg", {"early"});
  b.Float("sum", "AddN", {"argument", "b", "c"}, {testing::Int("N", 3)});
  b.Fetch("sum");
  EXPECT_EQ(Waits(&b), Names({{"sum", "early"}}));
}

TEST(SumHolders, ATermThatStandsTwiceIsNotTheSumsOwn) {
  GraphBuilder b;
  b.Feed("x", {64});
  b.Float("a", "Exp", {"x"});
  b.Float("b", "Tanh", {"x"});
  b.Float("early", "Neg", {"b"});
  b.Float("c", "Neg", {"early"});
  b.Float("sum", "AddN", {"a", "a", "b", "c"}, {testing::Int("N", 4)});
  b.Fetch("sum");
  EXPECT_EQ(Waits(&b), Names({{"sum", "early"}}));
}

// The sum is made from two chains, and so is what reads a term. Which of them ends first is decided by the order of
// many edges, which the model draws: in most runs, though not in all, the long chain comes last.
TEST(SumHolders, MostRunsDecide) {
  GraphBuilder b;
  b.Feed("x", {64});
  b.Float("a", "Exp", {"x"});
  b.Float("b", "Tanh", {"x"});
  b.Float("c", "Sin", {"x"});
  b.Float("sum", "AddN", {"a", "b", "c"}, {testing::Int("N", 3)});
  b.Float("sum_reader", "Neg", {"sum"});
  std::vector<std::string> others;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "other" + std::to_string(i);
    b.Float(name, "Exp", {"x"});
    others.push_back(name);
  }
  b.Float("all", "AddN", others, {testing::Int("N", 12)});
  b.Float("late", "AddN", {"a", "b", "all"}, {testing::Int("N", 3)});
  b.Fetch("sum_reader");
  b.Fetch("late");
  EXPECT_EQ(Waits(&b), Names({{"late", "sum"}}));
}

}  // namespace
}  // namespace lms
