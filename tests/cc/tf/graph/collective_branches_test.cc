// Collective operations in branches that exclude each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "cc/tf/graph/collectives.h"
#include "tests/cc/tf/replicas.h"

namespace lms {
namespace {

using tensorflow::NodeDef;
using tensorflow::grappler::GrapplerItem;
using testing::TrainReplicas;
using testing::TrainWithGathers;

NodeDef* NodeOf(GrapplerItem* item, const std::string& name) {
  for (NodeDef& node : *item->graph.mutable_node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

void RemoveInput(GrapplerItem* item, const std::string& name, const std::string& input) {
  auto& inputs = *NodeOf(item, name)->mutable_input();
  const auto found = std::find(inputs.begin(), inputs.end(), input);
  ASSERT_NE(found, inputs.end());
  inputs.erase(found);
}

Collectives Found(const GrapplerItem& item) {
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  return FindCollectives(item.graph, index);
}

using Names = std::set<std::string>;

// Of each collective, those that a rewrite has it wait for.
std::map<std::string, Names> WaitsOf(const GrapplerItem& item) {
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  std::map<std::string, Names> waits;
  for (const CollectiveWait& wait : CollectiveWaits(FindCollectives(item.graph, index), index)) {
    waits[item.graph.node(wait.node).name()].insert(item.graph.node(wait.waits_for).name());
  }
  return waits;
}

TEST(CollectiveBranches, TwoThatExcludeEachOtherNeedNoOrder) {
  const GrapplerItem item = TrainWithGathers(3);
  const Collectives found = Found(item);
  EXPECT_EQ(found.problem, "");
  ASSERT_EQ(found.instances.size(), 8U);
  std::map<std::string, Names> before;
  std::map<std::string, size_t> place;
  const auto name = [&](size_t i) { return item.graph.node(found.instances[i][0]).name(); };
  for (size_t i = 0; i < found.instances.size(); ++i) {
    place[name(i)] = i;
    before[name(i)];
    for (const int last : found.last_before[i]) before[name(i)].insert(name(last));
  }
  EXPECT_EQ(before, (std::map<std::string, Names>{{"reduce_2", {}},
                                                  {"lengths", {"reduce_2"}},
                                                  {"gather_1", {"lengths"}},
                                                  {"gather_2", {"lengths", "gather_1"}},
                                                  {"padded_1", {"lengths"}},
                                                  {"padded_2", {"lengths", "padded_1"}},
                                                  {"reduce_1", {"lengths", "gather_2", "padded_2"}},
                                                  {"reduce_0", {"reduce_1", "gather_2", "padded_2"}}}));
  EXPECT_LT(place["gather_2"], place["reduce_1"]);
  EXPECT_LT(place["padded_2"], place["reduce_1"]);
}

// Not for a node of a branch, which would take the waiting one into the branch.
TEST(CollectiveBranches, APartWaitsForThoseThatAlwaysRunWithIt) {
  EXPECT_EQ(WaitsOf(TrainWithGathers(3)), (std::map<std::string, Names>{{"lengths", {"reduce_2"}},
                                                                        {"gather_1", {"lengths"}},
                                                                        {"gather_2", {"gather_1"}},
                                                                        {"padded_1", {"lengths"}},
                                                                        {"padded_2", {"padded_1"}},
                                                                        {"reduce_1", {"lengths"}},
                                                                        {"reduce_0", {"reduce_1"}}}));
}

TEST(CollectiveBranches, WhatComesAfterHasToWaitForAllOfBoth) {
  for (const std::string branch : {"padded_", "gather_"}) {
    GrapplerItem item = TrainWithGathers(3);
    RemoveInput(&item, "executed", "^" + branch + "2");
    // Where this branch is taken, reduce_1 could begin before its last one.
    NodeOf(&item, "executed")->add_input("^" + branch + "1");
    const Collectives found = Found(item);
    EXPECT_TRUE(found.instances.empty());
    EXPECT_EQ(found.problem, "reduce_1 and " + branch + "2 are in no order on their device");
  }
}

TEST(CollectiveBranches, WhatComesBeforeHasToBeWaitedForByBoth) {
  GrapplerItem item = TrainWithGathers(3);
  // The predicate is there before the lengths, and only one of the branches waits for these.
  *NodeOf(&item, "length")->mutable_input(0) = "weight_grad_2";
  NodeOf(&item, "padded_1")->add_input("^lengths");
  NodeOf(&item, "executed")->add_input("^lengths");
  EXPECT_NE(Found(item).problem.find("gather_1"), std::string::npos) << Found(item).problem;
  NodeOf(&item, "gather_1")->add_input("^lengths");
  EXPECT_EQ(Found(item).problem, "");
}

TEST(CollectiveBranches, WithinABranchEachTwoNeedAnOrder) {
  GrapplerItem item = TrainWithGathers(3);
  RemoveInput(&item, "padded_2", "^padded_1");
  NodeOf(&item, "executed")->add_input("^padded_1");
  EXPECT_NE(Found(item).problem.find("padded_1 and padded_2 are in no order"), std::string::npos)
      << Found(item).problem;
}

TEST(CollectiveBranches, BranchesOfOtherPredicatesMayBothBeTaken) {
  GrapplerItem item = TrainWithGathers(3);
  testing::GraphBuilder b;
  b.Float("other_same", "Equal", {"length", "length"});
  b.Float("other_switch", "Switch", {"weight_grad_2", "other_same"});
  for (const NodeDef& node : b.item().graph.node()) *item.graph.add_node() = node;
  *NodeOf(&item, "padded")->mutable_input(0) = "other_switch";
  const std::string problem = Found(item).problem;
  EXPECT_NE(problem.find("gather_1"), std::string::npos) << problem;
  EXPECT_NE(problem.find("padded_1"), std::string::npos) << problem;
}

TEST(CollectiveBranches, TheSameOrder) {
  const GrapplerItem item = TrainWithGathers(3);
  EXPECT_TRUE(SameOrder(Found(item), Found(item)));
  EXPECT_FALSE(SameOrder(Found(item), Found(TrainReplicas(3, 1))));
  // Within one of the branches the other way around.
  GrapplerItem other = item;
  RemoveInput(&other, "gather_2", "^gather_1");
  NodeOf(&other, "gather_1")->add_input("^gather_2");
  NodeOf(&other, "executed")->add_input("^gather_1");
  EXPECT_EQ(Found(other).problem, "");
  EXPECT_FALSE(SameOrder(Found(item), Found(other)));
  // A way from one branch to the other is no order of two that run together.
  GrapplerItem linked = item;
  testing::GraphBuilder b;
  b.Float("again", "Switch", {"values", "same"});
  for (const NodeDef& node : b.item().graph.node()) *linked.graph.add_node() = node;
  *NodeOf(&linked, "gather_2")->mutable_input(0) = "again:1";
  EXPECT_EQ(Found(linked).problem, "");
  EXPECT_TRUE(SameOrder(Found(linked), Found(item)));
  EXPECT_NE(Found(linked).instances, Found(item).instances);
}

// Each has a predicate of its own, of which nobody knows that they are equal.
TEST(CollectiveBranches, OfSeveralDevices) {
  GrapplerItem item = TrainReplicas(3);
  const GrapplerItem with_gathers = TrainWithGathers(3);
  for (const NodeDef& node : with_gathers.graph.node()) {
    if (NodeOf(&item, node.name()) == nullptr) *item.graph.add_node() = node;
  }
  NodeOf(&item, "reduce_1")->add_input("^executed");
  EXPECT_NE(Found(item).problem.find("in different branches or loops"), std::string::npos) << Found(item).problem;
}

}  // namespace
}  // namespace lms
