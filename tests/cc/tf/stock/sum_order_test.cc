#include "cc/tf/stock/sum_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using testing::HasInput;

// What Grappler makes of the AddN `name`: a temporary variable, once `first` is there, and an AssignAdd per term.
void Accumulate(GraphBuilder* b, const std::string& name, const std::vector<std::string>& terms,
                const std::string& first, const std::string& start = "",
                tensorflow::DataType type = tensorflow::DT_FLOAT) {
  const auto t = testing::Type("T", type);
  b->Add(name + "/var", "TemporaryVariable", {"^" + first},
         {testing::Type("dtype", type), testing::Shape("shape", {64}), testing::Text("var_name", name)});
  if (start.empty()) b->Add(name + "/zeros", "ZerosLike", {first}, {t});
  b->Add(name + "/init", "Assign", {name + "/var", start.empty() ? name + "/zeros" : start}, {t});
  std::vector<std::string> inputs{name + "/init"};
  for (size_t i = 0; i < terms.size(); ++i) {
    b->Add(name + "/add_" + std::to_string(i), "AssignAdd", {name + "/init", terms[i]}, {t});
    inputs.push_back("^" + name + "/add_" + std::to_string(i));
  }
  b->Add(name, "DestroyTemporaryVariable", inputs, {t, testing::Text("var_name", name)});
}

// x is read by `terms` ops, t0, t1, …, all of which there are in the sum.
GraphBuilder Terms(int terms, std::vector<std::string>* names) {
  GraphBuilder b;
  b.Feed("x", {64});
  for (int i = 0; i < terms; ++i) {
    names->push_back("t" + std::to_string(i));
    b.Float(names->back(), "Neg", {"x"});
  }
  return b;
}

int Edges(const tensorflow::GraphDef& graph) {
  int edges = 0;
  for (const auto& node : graph.node()) edges += node.input_size();
  return edges;
}

TEST(SumOrderTest, AddsWaitForEachOtherInTheOrderOfOneThread) {
  std::vector<std::string> terms;
  GraphBuilder b = Terms(4, &terms);
  Accumulate(&b, "sum", terms, "t0");
  b.Fetch("sum");
  ASSERT_TRUE(AddsInOrderOfArrival(b.item().graph));
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.held, 1);
  EXPECT_EQ(sums.free + sums.hidden, 0);
  // The terms come in the order 3, 2, 1, 0, the last of which lets the variable be set up. Then everything is there,
  // and of the additions, ready at one moment, the last runs first: 3, 2, 1, 0. Any order will do for 3 and 2.
  EXPECT_FALSE(HasInput(b.item().graph, "sum/add_2", "^sum/add_3"));
  EXPECT_FALSE(HasInput(b.item().graph, "sum/add_3", "^sum/add_2"));
  EXPECT_TRUE(HasInput(b.item().graph, "sum/add_1", "^sum/add_2"));
  EXPECT_TRUE(HasInput(b.item().graph, "sum/add_1", "^sum/add_3"));
  EXPECT_TRUE(HasInput(b.item().graph, "sum/add_0", "^sum/add_1"));
  testing::Imported imported(b.item());
  EXPECT_LT(imported.OpOf("sum/add_2"), imported.OpOf("sum/add_1"));
  EXPECT_LT(imported.OpOf("sum/add_3"), imported.OpOf("sum/add_1"));
  EXPECT_LT(imported.OpOf("sum/add_1"), imported.OpOf("sum/add_0"));
}

TEST(SumOrderTest, TwoTermsAddedToZeroMayComeInAnyOrder) {
  std::vector<std::string> terms;
  GraphBuilder b = Terms(2, &terms);
  Accumulate(&b, "sum", terms, "t0");
  b.Fetch("sum");
  const int edges = Edges(b.item().graph);
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.held + sums.free + sums.hidden, 0);
  EXPECT_EQ(Edges(b.item().graph), edges);
}

TEST(SumOrderTest, AddedToAnythingElseTheyMayNot) {
  std::vector<std::string> terms;
  GraphBuilder b = Terms(2, &terms);
  b.Constant("half", {64});
  Accumulate(&b, "sum", terms, "t0", "half");
  b.Fetch("sum");
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.held, 1);
  EXPECT_TRUE(HasInput(b.item().graph, "sum/add_0", "^sum/add_1"));
}

TEST(SumOrderTest, WholeNumbersAddUpToTheSameInAnyOrder) {
  GraphBuilder b;
  b.Feed("x", {64});
  std::vector<std::string> terms;
  for (int i = 0; i < 3; ++i) {
    terms.push_back("t" + std::to_string(i));
    b.Add(terms.back(), "Cast", {"x"},
          {testing::Type("SrcT", tensorflow::DT_FLOAT), testing::Type("DstT", tensorflow::DT_INT32)});
  }
  Accumulate(&b, "sum", terms, "t0", "", tensorflow::DT_INT32);
  b.Fetch("sum");
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.held + sums.free + sums.hidden, 0);
}

TEST(SumOrderTest, ASumWithoutAnOrderOfItsOwnStaysFree) {
  // Each term is an argument of its own: in which order the executor starts with them changes with every instance.
  GraphBuilder b;
  std::vector<std::string> terms;
  for (int i = 0; i < 9; ++i) {
    b.Feed("x" + std::to_string(i), {64});
    terms.push_back("t" + std::to_string(i));
    b.Float(terms.back(), "Neg", {"x" + std::to_string(i)});
  }
  b.Feed("first", {64});
  Accumulate(&b, "sum", terms, "first");
  b.Fetch("sum");
  const int edges = Edges(b.item().graph);
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.free, 1);
  EXPECT_EQ(sums.held, 0);
  EXPECT_EQ(Edges(b.item().graph), edges);
}

// Three terms of which one comes from a branch, begun with `first`.
GraphBuilder TermFromABranch(const std::string& first) {
  std::vector<std::string> terms;
  GraphBuilder b = Terms(3, &terms);
  b.Feed("p", {});
  b.Add("predicate", "Cast", {"p"},
        {testing::Type("SrcT", tensorflow::DT_FLOAT), testing::Type("DstT", tensorflow::DT_BOOL)});
  b.Parse("switch = Switch(t1, predicate); in_branch = Neg(switch:1)");
  Accumulate(&b, "sum", {"t0", "in_branch", "t2"}, first);
  b.Parse("merge = Merge(sum, switch); fetch merge");
  return b;
}

TEST(SumOrderTest, ASumInABranchIsHeldThere) {
  GraphBuilder b = TermFromABranch("in_branch");
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.hidden, 0);
  EXPECT_EQ(sums.held + sums.free, 1);
}

TEST(SumOrderTest, NoEdgeIsAddedAcrossABranch) {
  GraphBuilder b = TermFromABranch("t0");
  const int edges = Edges(b.item().graph);
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.hidden, 1);
  EXPECT_EQ(Edges(b.item().graph), edges);
}

TEST(SumOrderTest, AVariableOfTheUsersIsLeftToTheUser) {
  GraphBuilder b;
  b.Feed("x", {64});
  b.Add("v", "VariableV2", {}, {testing::Float32("dtype"), testing::Shape("shape", {64})});
  for (const char* name : {"a", "b", "c"}) {
    b.Float(name, "AssignAdd", {"v", "x"});
    b.Fetch(name);
  }
  EXPECT_FALSE(AddsInOrderOfArrival(b.item().graph));
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.held + sums.free + sums.hidden, 0);
}

TEST(SumOrderTest, TermsThatComeOutOfABranchHaveNoOrderThatIsKnown) {
  std::vector<std::string> terms;
  GraphBuilder b = Terms(3, &terms);
  b.Parse("p = Placeholder; switch = Switch(x, p); yes = Exp(switch:1); merge = Merge(switch, yes)");
  terms.push_back("merge");
  Accumulate(&b, "sum", terms, "t0");
  b.Fetch("sum");
  const tensorflow::GraphDef before = b.item().graph;
  SumOrder sums;
  ASSERT_TRUE(HoldSums(&b.item(), &sums).ok());
  EXPECT_EQ(sums.behind, 1);
  EXPECT_EQ(sums.held + sums.free, 0);
  EXPECT_EQ(Edges(b.item().graph), Edges(before));
}

// In a loop in which y goes from one iteration to the next; `gated`: the counter waits for the sum.
SumOrder HeldInLoop(bool gated) {
  testing::LoopBuilder b;
  b.Carry("y", "x", "sum", tensorflow::DT_FLOAT);
  std::vector<std::string> terms;
  for (const std::string name : {"t0", "t1", "t2"}) {
    b.Float(name, "Neg", {"y_switch:1"});
    terms.push_back(name);
  }
  Accumulate(&b, "sum", terms, "t0");
  b.Fetch("y_exit");
  for (tensorflow::NodeDef& node : *b.item().graph.mutable_node()) {
    if (gated && node.name() == "i_add") node.add_input("^sum");
  }
  SumOrder sums;
  EXPECT_TRUE(HoldSums(&b.item(), &sums).ok());
  return sums;
}

TEST(SumOrderTest, ALoopOfOneIterationAfterTheOtherHoldsItsSums) {
  const SumOrder sums = HeldInLoop(true);
  EXPECT_EQ(sums.held + sums.free, 1);
  EXPECT_EQ(sums.ahead, 0);
}

TEST(SumOrderTest, WhereIterationsRunAheadSumsHaveNoOrderThatIsKnown) {
  const SumOrder sums = HeldInLoop(false);
  EXPECT_EQ(sums.held + sums.free, 0);
  EXPECT_EQ(sums.ahead, 1);
}

}  // namespace
}  // namespace lms
