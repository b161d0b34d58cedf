#include "cc/core/graph/twins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

// `graph` twice, without an edge between the two; the second one's ops are spread among the first one's, `ahead` of
// theirs at most.
struct Pair {
  MemGraph graph;
  std::vector<bool> first;
  std::vector<bool> second;
  std::vector<OpId> twin_of;  // per op of `graph` in the pair's order; the other half's op
};

Pair TwoOf(const MemGraph& graph, uint32_t seed) {
  const auto ops = static_cast<OpId>(graph.ops.size());
  const auto buffers = static_cast<BufferId>(graph.buffers.size());
  MemGraph both = graph;
  for (MemBuffer buffer : graph.buffers) {
    if (buffer.producer != kNone) buffer.producer += ops;
    for (OpId& op : buffer.overwritten_by) op += ops;
    both.buffers.push_back(buffer);
  }
  for (MemOp op : graph.ops) {
    for (OpId& dep : op.deps) dep += ops;
    for (auto* list : {&op.inputs, &op.outputs, &op.forwardable}) {
      for (BufferId& b : *list) b += buffers;
    }
    op.name = "replica_1/" + op.name;
    both.ops.push_back(op);
  }
  testing::Random random(seed);
  std::vector<OpId> order;
  OpId a = 0;
  OpId b = 0;
  while (a < ops || b < ops) order.push_back(b == ops || (a < ops && random.OneIn(2)) ? a++ : ops + b++);
  Pair pair;
  pair.graph = Reordered(both, order);
  std::vector<OpId> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<OpId>(i);
  pair.twin_of.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    pair.first.push_back(order[i] < ops);
    pair.second.push_back(order[i] >= ops);
    pair.twin_of[i] = place[order[i] < ops ? order[i] + ops : order[i] - ops];
  }
  return pair;
}

MemGraph WithoutTwin(MemGraph graph, const std::vector<bool>& part) {
  for (MemOp& op : graph.ops) {
    if (part[&op - graph.ops.data()]) continue;
    for (const BufferId b : op.outputs) graph.buffers[b].bytes = 0;
  }
  return graph;
}

// A plan for one half is one for the other, with the same peak and cost, however the two are interleaved.
TEST(TwinsTest, APlanFollowsItsTwins) {
  int planned_ones = 0;
  int followed = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const MemGraph one = testing::RandomGraph(seed, 4 + static_cast<int>(seed % 9));
    ASSERT_EQ(one.Validate(), "");
    const Pair pair = TwoOf(one, seed);
    ASSERT_EQ(pair.graph.Validate(), "");
    const std::vector<OpId> twins = PairOps(pair.graph, pair.first, pair.graph, pair.second);
    for (size_t i = 0; i < twins.size(); ++i) ASSERT_EQ(twins[i], pair.first[i] ? pair.twin_of[i] : kNone) << seed;
    const MemGraph a = WithoutTwin(pair.graph, pair.first);
    const MemGraph b = WithoutTwin(pair.graph, pair.second);
    const auto order = OrderLikeTwins(twins, b);
    ASSERT_TRUE(order);
    const MemGraph ordered = Reordered(b, *order);
    std::vector<OpId> place(order->size());
    for (size_t i = 0; i < order->size(); ++i) place[(*order)[i]] = static_cast<OpId>(i);
    std::vector<OpId> moved = twins;
    OpId last = kNone;
    for (OpId& twin : moved) {
      if (twin == kNone) continue;
      twin = place[twin];
      EXPECT_GT(twin, last);
      last = twin;
    }
    PlannerOptions options = PlannerOptionsFor(0.1);
    const PlannerResult planned = PlanForLeastPeak(a, options);
    const auto plan = PlanLikeTwins(a, planned.plan, moved, ordered);
    if (planned.plan.empty()) continue;
    ++planned_ones;
    // A place between ops of the other half may be lost.
    if (!plan || Simulate(ordered, *plan).peak_bytes != planned.peak_bytes) continue;
    EXPECT_EQ(ValidatePlan(ordered, *plan), "");
    EXPECT_DOUBLE_EQ(plan->CostUs(ordered), planned.plan.CostUs(a));
    ++followed;
  }
  EXPECT_GT(planned_ones, 40);
  EXPECT_GE(followed, planned_ones * 9 / 10);
}

// An op that differs has no twin; the others have.
TEST(TwinsTest, WhatDiffersHasNoTwin) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Pair pair = TwoOf(testing::RandomGraph(seed, 8), seed);
    OpId odd = kNone;
    for (size_t i = pair.graph.ops.size() / 2; odd == kNone && i < pair.graph.ops.size(); ++i) {
      if (pair.second[i] && !pair.graph.ops[i].outputs.empty()) odd = static_cast<OpId>(i);
    }
    if (odd == kNone) continue;
    for (const bool larger : {true, false}) {
      MemGraph other = pair.graph;
      if (larger) {
        other.buffers[other.ops[odd].outputs[0]].bytes += 4;
      } else {
        other.ops[odd].type += "Grad";
      }
      const std::vector<OpId> twins = PairOps(pair.graph, pair.first, other, pair.second);
      for (size_t i = 0; i < twins.size(); ++i) {
        if (!pair.first[i]) continue;
        EXPECT_EQ(twins[i], pair.twin_of[i] == odd ? kNone : pair.twin_of[i]) << seed;
      }
    }
  }
}

// Without names, by what leads to them.
TEST(TwinsTest, NamesAreNotNeeded) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Pair pair = TwoOf(testing::RandomGraph(seed, 8), seed);
    for (MemOp& op : pair.graph.ops) op.name += op.name.rfind("replica_1/", 0) == 0 ? "_b" : "_a";
    const std::vector<OpId> twins = PairOps(pair.graph, pair.first, pair.graph, pair.second);
    for (size_t i = 0; i < twins.size(); ++i) {
      EXPECT_EQ(twins[i] == kNone, !pair.first[i]);
      if (twins[i] != kNone) {
        EXPECT_EQ(pair.graph.ops[i].type, pair.graph.ops[twins[i]].type);
      }
    }
  }
}

TEST(TwinsTest, AnOrderThatContradictsTheGraphIsNone) {
  // a0 -> a1 and, in the other half, b1 that must run before b0.
  MemGraph graph;
  graph.ops.resize(4);
  graph.ops[1].deps = {0};
  graph.ops[3].deps = {2};
  EXPECT_TRUE(OrderLikeTwins({2, 3, kNone, kNone}, graph));
  EXPECT_FALSE(OrderLikeTwins({3, 2, kNone, kNone}, graph));
}

}  // namespace
}  // namespace lms
