#include "cc/tf/graph/graph_index.h"

#include <gtest/gtest.h>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::DT_INT32;
using testing::GraphBuilder;

// Builds the index and answers by name.
class Index {
 public:
  explicit Index(const tensorflow::grappler::GrapplerItem& item) : status(index.Build(item)) {}
  const NodeIndex& operator[](const std::string& name) const { return index[index.Find(name)]; }

  GraphIndex index;
  absl::Status status;
};

TEST(GraphIndex, ResolvesDataAndControlInputs) {
  GraphBuilder b;
  b.Feed("x", {4});
  b.Add("two", "IdentityN", {"x", "x"}, {testing::Types("T", {tensorflow::DT_FLOAT, tensorflow::DT_FLOAT})});
  b.Parse("y = Add(two:1, x, ^two); fetch y");
  const Index index(b.item());
  ASSERT_TRUE(index.status.ok()) << index.status.message();
  const int x = index.index.Find("x");
  const int two = index.index.Find("two");
  EXPECT_EQ(index["y"].inputs, (std::vector<TensorRef>{{two, 1}, {x, 0}}));
  EXPECT_EQ(index["y"].controls, std::vector<int>{two});
  EXPECT_EQ(index.index.Find("z"), -1);
}

TEST(GraphIndex, RefusesAnInputThatIsNotThere) {
  GraphBuilder b;
  b.Float("y", "Relu", {"x"});
  EXPECT_NE(Index(b.item()).status.message().find("y reads x, which does not exist"), std::string::npos);
}

TEST(GraphIndex, RefusesTwoNodesOfOneName) {
  GraphBuilder b;
  b.Parse("x[4]; x[4]");
  EXPECT_NE(Index(b.item()).status.message().find("two nodes are called x"), std::string::npos);
}

TEST(GraphIndex, LiveIsWhatResultsNeed) {
  GraphBuilder b;
  b.Parse("x[4]; y = Relu(x); unused = Relu(y); fetch y:0");
  const Index index(b.item());
  EXPECT_TRUE(index["x"].live);
  EXPECT_TRUE(index["y"].live);
  EXPECT_FALSE(index["unused"].live);
  EXPECT_TRUE(index.index.Preserved(index.index.Find("y")));
  EXPECT_TRUE(index.index.Preserved(index.index.Find("x")));  // fed
  EXPECT_FALSE(index.index.Preserved(index.index.Find("unused")));
}

TEST(GraphIndex, WhatIsKeptByNameAloneIsNotFetched) {
  GraphBuilder b;
  b.Parse("x[4]; kept = Relu(x); y = Relu(kept); fetch y:0");
  b.item().keep_ops.push_back("kept");
  const Index index(b.item());
  EXPECT_TRUE(index.index.Preserved(index.index.Find("kept")));
  EXPECT_FALSE(index.index.Fetched(index.index.Find("kept")));
  EXPECT_TRUE(index.index.Fetched(index.index.Find("y")));
  EXPECT_TRUE(index.index.Fetched(index.index.Find("x")));  // fed
}

TEST(GraphIndex, AFunctionsSideEffectsAreLiveAndASessionsAreNot) {
  for (const bool pruned : {false, true}) {
    GraphBuilder b;
    b.Parse("x[4]; v = VarHandleOp[4]; update = AssignSubVariableOp(v, x)");
    b.item().optimization_options().allow_pruning_stateful_and_dataset_ops = pruned;
    const Index index(b.item());
    EXPECT_EQ(index["update"].live, !pruned);
  }
}

TEST(GraphIndex, AnEmptyGraphIsAGraph) {
  GraphBuilder b;
  const Index index(b.item());
  EXPECT_TRUE(index.status.ok());
  EXPECT_EQ(index.index.size(), 0);
}

// value -> Switch(p) -> one op on each side -> Merge.
void AddCond(GraphBuilder* b, const std::string& prefix, const std::string& value, const std::string& predicate) {
  b->Float(prefix + "switch", "Switch", {value, predicate});
  b->Float(prefix + "no", "Relu", {prefix + "switch"});
  b->Float(prefix + "yes", "Tanh", {prefix + "switch:1"});
  b->Float(prefix + "merge", "Merge", {prefix + "no", prefix + "yes"}, {testing::Int("N", 2)});
}

TEST(GraphIndex, BranchesAreConditionalAndWhatFollowsTheMergeIsNot) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  AddCond(&b, "", "x", "p");
  b.Parse("after = Relu(merge); fetch after");
  const Index index(b.item());
  EXPECT_FALSE(index["switch"].conditional);
  EXPECT_TRUE(index["yes"].conditional);
  EXPECT_TRUE(index["no"].conditional);
  EXPECT_FALSE(index["merge"].conditional);
  EXPECT_FALSE(index["after"].conditional);
  EXPECT_FALSE(index["yes"].in_frame);
}

TEST(GraphIndex, ABranchWithinABranch) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder; q = Placeholder; outer = Switch(x, p)");
  AddCond(&b, "inner_", "outer:1", "q");
  b.Parse("other = Relu(outer); merge = Merge(other, inner_merge); fetch merge");
  const Index index(b.item());
  EXPECT_TRUE(index["inner_switch"].conditional);
  EXPECT_TRUE(index["inner_merge"].conditional);  // it needs p
  EXPECT_FALSE(index["merge"].conditional);
}

TEST(GraphIndex, ThreeBranchesOfACase) {
  GraphBuilder b;
  b.Feed("x", {4});
  b.Add("which", "Placeholder", {}, {testing::Type("dtype", DT_INT32)});
  b.Float("case", "_SwitchN", {"x", "which"}, {testing::Int("num_outs", 3)});
  for (const char* port : {"0", "1", "2"})
    b.Float(std::string("branch_") + port, "Relu", {std::string("case:") + port});
  b.Parse("merge = Merge(branch_0, branch_1, branch_2); fetch merge");
  const Index index(b.item());
  EXPECT_TRUE(index["branch_2"].conditional);
  EXPECT_FALSE(index["merge"].conditional);
}

TEST(GraphIndex, AMergeOfBranchesOfDifferentPredicatesMayNotRun) {
  GraphBuilder b;
  b.Parse(
      "x[4]; p = Placeholder; q = Placeholder; switch_p = Switch(x, p); switch_q = Switch(x, q); "
      "merge = Merge(switch_p:1, switch_q); fetch merge");
  EXPECT_TRUE(Index(b.item())["merge"].conditional);
}

TEST(GraphIndex, APredicateIsTheSameBehindIdentities) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  b.Add("p_id", "Identity", {"p"}, {testing::Type("T", DT_BOOL)});
  b.Parse("switch_p = Switch(x, p); switch_id = Switch(x, p_id); merge = Merge(switch_p:1, switch_id); fetch merge");
  EXPECT_FALSE(Index(b.item())["merge"].conditional);
}

TEST(GraphIndex, WhatWaitsForABranchIsConditional) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder; switch = Switch(x, p); yes = Tanh(switch:1); waits_for_yes = Relu(x, ^yes)");
  b.Float("waits_for_switch", "Relu", {"x", "^switch"});  // a Switch runs whatever it decides...
  b.Float("inner", "Switch", {"yes", "p"});
  b.Float("waits_for_inner", "Relu", {"x", "^inner"});  // ...unless it is in a branch itself
  for (const char* name : {"waits_for_yes", "waits_for_switch", "waits_for_inner"}) b.Fetch(name);
  const Index index(b.item());
  EXPECT_TRUE(index["waits_for_yes"].conditional);
  EXPECT_FALSE(index["waits_for_switch"].conditional);
  EXPECT_TRUE(index["waits_for_inner"].conditional);
}

// while (LoopCond(x)) x = body(x), with the nodes prefix/enter, .../merge, .../switch, .../body, .../next, .../exit.
void AddWhile(GraphBuilder* b, const std::string& prefix, const std::string& value, const std::string& predicate) {
  const testing::Attr frame = testing::Text("frame_name", prefix);
  b->Float(prefix + "enter", "Enter", {value}, {frame});
  b->Float(prefix + "merge", "Merge", {prefix + "enter", prefix + "next"}, {testing::Int("N", 2)});
  b->Add(prefix + "enter_p", "Enter", {predicate},
         {frame, testing::Type("T", DT_BOOL), testing::Bool("is_constant", true)});
  b->Add(prefix + "cond", "LoopCond", {prefix + "enter_p"});
  b->Float(prefix + "switch", "Switch", {prefix + "merge", prefix + "cond"});
  b->Float(prefix + "body", "Relu", {prefix + "switch:1"});
  b->Float(prefix + "next", "NextIteration", {prefix + "body"});
  b->Float(prefix + "exit", "Exit", {prefix + "switch"});
}

TEST(GraphIndex, LoopsAreFramesUpToTheirExit) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder; before = Relu(x)");
  AddWhile(&b, "", "before", "p");
  b.Parse("after = Relu(exit); fetch after");
  const Index index(b.item());
  for (const char* name : {"enter", "merge", "switch", "body", "next", "exit"}) {
    EXPECT_TRUE(index[name].in_frame) << name;
    EXPECT_TRUE(index[name].live) << name;
  }
  EXPECT_FALSE(index["before"].in_frame);
  EXPECT_FALSE(index["after"].in_frame);
  // The loop decides for itself: its predicate makes nothing conditional.
  EXPECT_FALSE(index["body"].conditional);
  EXPECT_FALSE(index["after"].conditional);
}

TEST(GraphIndex, ALoopVariablesCycleEndsInItsNextIteration) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  AddWhile(&b, "", "x", "p");
  b.Fetch("exit");
  const Index index(b.item());
  const int cycle = index["merge"].cycle;
  ASSERT_GE(cycle, 0);
  for (const char* name : {"switch", "body", "next"}) EXPECT_EQ(index[name].cycle, cycle) << name;
  for (const char* name : {"x", "enter", "cond", "exit"}) EXPECT_EQ(index[name].cycle, -1) << name;
  EXPECT_EQ(index.index.CycleEnds(cycle), std::vector<int>{index.index.Find("next")});
}

TEST(GraphIndex, AVariableThatALoopSetsAnewIsOfItsRegionWhereverItComesFrom) {
  // "other" is set to the body's result: its NextIteration does not wait for its Merge, and is seen before that where
  // the value that it begins with comes late.
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  AddWhile(&b, "", "x", "p");
  std::string late = "x";
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    b.Float(name, "Relu", {late});
    late = name;
  }
  b.Float("other_enter", "Enter", {late}, {testing::Text("frame_name", "")});
  b.Parse(
      "other_merge = Merge(other_enter, other_next); other_switch = Switch(other_merge, cond); "
      "other_next = NextIteration(body); other_exit = Exit(other_switch); fetch other_exit");
  const Index index(b.item());
  EXPECT_EQ(index["other_merge"].region, index["merge"].region);
  EXPECT_FALSE(index["other_merge"].conditional);
  EXPECT_FALSE(index["other_exit"].conditional);
}

TEST(GraphIndex, ACycleOfAnInnerLoopIsPartOfTheOuterOne) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  const testing::Attr frame = testing::Text("frame_name", "outer");
  b.Float("enter", "Enter", {"x"}, {frame});
  b.Add("enter_p", "Enter", {"p"}, {frame, testing::Type("T", DT_BOOL), testing::Bool("is_constant", true)});
  b.Float("merge", "Merge", {"enter", "next"}, {testing::Int("N", 2)});
  b.Add("cond", "LoopCond", {"enter_p"});
  b.Float("switch", "Switch", {"merge", "cond"});
  AddWhile(&b, "inner_", "switch:1", "enter_p");
  b.Parse("next = NextIteration(inner_exit); exit = Exit(switch); fetch exit");
  const Index index(b.item());
  EXPECT_EQ(index["inner_merge"].cycle, index["merge"].cycle);
  EXPECT_EQ(index.index.CycleEnds(index["merge"].cycle).size(), 2u);
  EXPECT_EQ(index["exit"].cycle, -1);
}

TEST(GraphIndex, BehindAnInnerLoopIsStillTheOuterOne) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  const testing::Attr frame = testing::Text("frame_name", "outer");
  b.Float("enter", "Enter", {"x"}, {frame});
  b.Add("enter_p", "Enter", {"p"}, {frame, testing::Type("T", DT_BOOL), testing::Bool("is_constant", true)});
  b.Float("merge", "Merge", {"enter", "next"}, {testing::Int("N", 2)});
  b.Add("cond", "LoopCond", {"enter_p"});
  b.Float("switch", "Switch", {"merge", "cond"});
  AddWhile(&b, "inner_", "switch:1", "enter_p");
  b.Parse(
      "behind_inner = Relu(inner_exit); next = NextIteration(behind_inner); exit = Exit(switch); after = Relu(exit); "
      "fetch after");
  const Index index(b.item());
  EXPECT_TRUE(index["inner_exit"].in_frame);
  EXPECT_TRUE(index["behind_inner"].in_frame);
  EXPECT_FALSE(index["after"].in_frame);
}

TEST(GraphIndex, ALoopInABranchIsBoth) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder; switch_p = Switch(x, p)");
  AddWhile(&b, "loop_", "switch_p:1", "p");
  b.Parse("merge = Merge(switch_p, loop_exit); fetch merge");
  const Index index(b.item());
  EXPECT_TRUE(index["loop_body"].in_frame);
  EXPECT_TRUE(index["loop_body"].conditional);
  EXPECT_TRUE(index["loop_exit"].conditional);
  EXPECT_FALSE(index["merge"].conditional);
}

// ---- Regions ----

TEST(GraphIndex, RegionsAreLoopBodiesAndBranches) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder; before = Relu(x)");
  AddWhile(&b, "", "before", "p");
  AddCond(&b, "if_", "exit", "p");
  b.Fetch("if_merge");
  const Index index(b.item());
  for (const char* name : {"x", "before", "if_switch", "if_merge"}) EXPECT_EQ(index[name].region, 0) << name;
  EXPECT_EQ(index["body"].region, index["next"].region);
  EXPECT_NE(index["body"].region, index["merge"].region);  // which runs once more
  EXPECT_EQ(index["body"].frame, index["merge"].frame);
  EXPECT_EQ(index["exit"].frame, index["body"].frame);
  EXPECT_NE(index["if_yes"].region, index["if_no"].region);
  EXPECT_EQ(index["if_yes"].frame, 0);
  EXPECT_TRUE(index.index.Implies(index["body"].region, index["merge"].region));
  EXPECT_FALSE(index.index.Implies(index["merge"].region, index["body"].region));
  EXPECT_FALSE(index.index.Implies(index["body"].region, 0));  // another frame
  EXPECT_TRUE(index.index.Implies(index["if_yes"].region, 0));
  EXPECT_FALSE(index.index.Implies(index["if_yes"].region, index["if_no"].region));
  EXPECT_TRUE(index.index.Within(index["body"].frame, 0));
  EXPECT_FALSE(index.index.Within(0, index["body"].frame));
}

TEST(GraphIndex, BranchesOfOnePredicateExcludeEachOther) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder; q = Placeholder; same_p = Identity(p)");
  AddCond(&b, "first_", "x", "p");
  AddCond(&b, "second_", "first_merge", "same_p");
  AddCond(&b, "other_", "second_merge", "q");
  AddCond(&b, "inner_", "first_switch:1", "q");
  b.Parse("none = Placeholder");
  const Index index(b.item());
  const auto exclusive = [&](const char* x, const char* y) {
    const bool result = index.index.Exclusive(index[x].region, index[y].region);
    EXPECT_EQ(result, index.index.Exclusive(index[y].region, index[x].region)) << x << " " << y;
    return result;
  };
  EXPECT_TRUE(exclusive("first_yes", "first_no"));
  EXPECT_TRUE(exclusive("first_yes", "second_no"));
  EXPECT_TRUE(exclusive("inner_yes", "first_no"));
  EXPECT_TRUE(exclusive("inner_yes", "second_no"));
  EXPECT_FALSE(exclusive("first_yes", "first_yes"));
  EXPECT_FALSE(exclusive("first_yes", "second_yes"));
  EXPECT_FALSE(exclusive("first_yes", "other_no"));
  EXPECT_FALSE(exclusive("first_yes", "first_merge"));
  EXPECT_FALSE(exclusive("first_yes", "inner_no"));
  EXPECT_FALSE(exclusive("x", "none"));
}

TEST(GraphIndex, ThatALoopGoesOnExcludesNothing) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  AddWhile(&b, "", "x", "p");
  b.Fetch("exit");
  const Index index(b.item());
  EXPECT_FALSE(index.index.Exclusive(index["body"].region, index["merge"].region));
  EXPECT_FALSE(index.index.Exclusive(index["body"].region, index["exit"].region));
}

TEST(GraphIndex, AMergeThatWaitsForABranchRunsAllTheSame) {
  GraphBuilder b;
  b.Parse(
      "x[4]; p = Placeholder; switch = Switch(x, p); yes = Tanh(switch:1); merge = Merge(switch, switch:1, ^yes); "
      "fetch merge");
  EXPECT_EQ(Index(b.item())["merge"].region, 0);
}

TEST(GraphIndex, AMergeThatTwoPredicatesDoNotCoverMayNotRun) {
  GraphBuilder b;
  b.Feed("x", {4});
  for (const char* name : {"p", "q"}) b.Add(name, "Placeholder", {}, {testing::Type("dtype", DT_BOOL)});
  b.Parse("switch = Switch(x, p); yes = Switch(switch:1, q); no = Switch(switch, q)");
  b.Float("merge", "Merge", {"yes:1", "no"}, {testing::Int("N", 2)});  // p and q, or neither
  b.Fetch("merge");
  EXPECT_TRUE(Index(b.item())["merge"].conditional);
}

TEST(GraphIndex, ANodeOfTwoFramesIsInNoRegion) {
  GraphBuilder b;
  b.Parse("x[4]; p = Placeholder");
  AddWhile(&b, "", "x", "p");
  b.Parse("odd = Add(body, x); fetch odd, exit");
  EXPECT_EQ(Index(b.item())["odd"].region, -1);
}

}  // namespace
}  // namespace lms
