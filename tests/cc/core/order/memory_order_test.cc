#include "cc/core/order/memory_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "cc/core/order/order_cut.h"
#include "cc/core/order/order_space.h"
#include "cc/core/order/order_starts.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::OutputOf;

constexpr int64_t kWork = 400000;

int64_t PeakOf(const MemGraph& graph, const std::vector<OpId>& order) {
  return Simulate(Reordered(graph, order), Plan()).peak_bytes;
}

// Two kinds: forward and backward along a chain, and branches.
MemGraph RandomStep(uint64_t seed, int size) {
  return seed % 2 == 0 ? testing::RandomGraph(seed, size) : testing::RandomBranches(seed, 2 * size);
}

// The lowest peak of all orders: dynamic programming over the sets of ops that may have run.
int64_t LeastPeak(const MemGraph& graph) {
  const OrderSpace space(graph);
  const int n = space.size();
  std::vector<int64_t> least(size_t{1} << n, std::numeric_limits<int64_t>::max());
  least[0] = 0;
  for (uint32_t ran = 0; ran + 1 < least.size(); ++ran) {
    if (least[ran] == std::numeric_limits<int64_t>::max()) continue;
    int64_t live = 0;
    std::vector<int> unread(graph.buffers.size(), 0);
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      const MemBuffer& buffer = graph.buffers[b];
      if (buffer.resident) continue;
      unread[b] = buffer.escapes ? 1 : 0;
      for (const OpId reader : space.readers()[b]) unread[b] += (ran >> reader & 1) != 0 ? 0 : 1;
      if ((ran >> buffer.producer & 1) != 0 && unread[b] > 0) live += buffer.bytes;
    }
    for (OpId op = 0; op < n; ++op) {
      bool may = (ran >> op & 1) == 0;
      for (const OpId dep : space.before()[op]) may = may && (ran >> dep & 1) != 0;
      if (!may) continue;
      int64_t bytes = live + graph.ops[op].workspace_bytes;
      std::vector<BufferId> dying;
      for (const BufferId b : space.inputs()[op]) {
        const std::vector<BufferId>& forwardable = graph.ops[op].forwardable;
        if (unread[b] == 1 && std::find(forwardable.begin(), forwardable.end(), b) != forwardable.end()) {
          dying.push_back(b);
        }
      }
      for (const BufferId out : space.outputs()[op]) {
        const auto same = std::find_if(dying.begin(), dying.end(),
                                       [&](BufferId b) { return graph.buffers[b].bytes == graph.buffers[out].bytes; });
        if (same == dying.end()) {
          bytes += graph.buffers[out].bytes;
        } else {
          dying.erase(same);
        }
      }
      int64_t& next = least[ran | uint32_t{1} << op];
      next = std::min(next, std::max(least[ran], bytes));
    }
  }
  return least.back() + space.resident_bytes();
}

TEST(OrderSpace, AProfileIsWhatTheSimulatorSays) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const MemGraph graph = RandomStep(seed, 4 + static_cast<int>(seed % 20));
    const OrderSpace space(graph);
    OrderProfile profile(space);
    for (const std::vector<OpId>& order :
         {LeastGrowthOrder(space), OnDemandOrder(space, false), OnDemandOrder(space, true)}) {
      ASSERT_TRUE(space.Allows(order)) << seed;
      profile.Compute(order);
      const MemoryProfile simulated = Simulate(Reordered(graph, order), Plan());
      for (int i = 0; i < space.size(); ++i) {
        ASSERT_EQ(profile.bytes()[i] + space.resident_bytes(), simulated.op_bytes[i]) << seed << " at " << i;
      }
    }
  }
}

// Two ops that make 100 bytes each, then two that read one of them each and make 1: all made first takes 201 bytes (100
// + 100 + 1), one after the other 102 (1 + 100 + 1).
MemGraph TwoBranches() {
  MemGraph graph;
  const OpId a = AddOp(&graph, {}, 100);
  const OpId b = AddOp(&graph, {}, 100);
  const OpId of_a = AddOp(&graph, {OutputOf(graph, a)}, 1);
  const OpId of_b = AddOp(&graph, {OutputOf(graph, b)}, 1);
  for (const OpId op : {of_a, of_b}) graph.buffers[OutputOf(graph, op)].escapes = true;
  return graph;
}

TEST(MemoryOrder, BranchesRunOneAtATime) {
  const MemGraph graph = TwoBranches();
  EXPECT_EQ(Simulate(graph, Plan()).peak_bytes, 201);
  const MemoryOrder order = OrderForLeastPeak(graph);
  EXPECT_TRUE(order.changed);
  EXPECT_EQ(order.peak_bytes, 102);
  EXPECT_EQ(PeakOf(graph, order.order), 102);
}

TEST(MemoryOrder, WhatMeetsTheLimitStaysAsItIs) {
  const MemGraph graph = TwoBranches();
  const MemoryOrder order = OrderForLimit(graph, 201);
  EXPECT_TRUE(order.feasible);
  EXPECT_FALSE(order.changed);
  EXPECT_EQ(order.order, (std::vector<OpId>{0, 1, 2, 3}));
  EXPECT_FALSE(OrderForLimit(graph, 100).feasible);
}

TEST(MemoryOrder, AReadStaysOnItsSideOfAnUpdate) {
  // Op 0 reads the variable and makes 100 bytes, op 1 (1 byte) updates it: running the reader later would copy it.
  MemGraph graph;
  const BufferId variable = AddBuffer(&graph, 50, kNone);
  const OpId reader = AddOp(&graph, {variable}, 100);
  const OpId writer = AddOp(&graph, {variable}, 1);
  graph.buffers[variable].overwritten_by = {writer};
  const OpId late = AddOp(&graph, {variable}, 1);
  const OrderSpace space(graph);
  EXPECT_TRUE(space.Allows({reader, writer, late}));
  EXPECT_FALSE(space.Allows({writer, reader, late}));
  EXPECT_FALSE(space.Allows({reader, late, writer}));
}

TEST(MemoryOrder, ReadersOfATermOfASumKeepTheirOrder) {
  MemGraph graph = TwoBranches();
  const BufferId a = OutputOf(graph, 0);
  const OpId again = AddOp(&graph, {a}, 1);
  EXPECT_TRUE(OrderSpace(graph).Allows({0, 1, again, 2, 3}));
  graph.buffers[a].no_more_readers = true;
  EXPECT_FALSE(OrderSpace(graph).Allows({0, 1, again, 2, 3}));
  EXPECT_TRUE(OrderSpace(graph).Allows({0, 2, again, 1, 3}));
}

TEST(OrderCut, HoldsTheFewestBytesThatAnyOrderCan) {
  // While op 3 runs at best only its input and what it makes is there, and what op 2 has left: 1 + 100 + 1 bytes, or
  // without op 0 and op 2, 100 + 1.
  const MemGraph graph = TwoBranches();
  const OrderSpace space(graph);
  const OrderCut cut = OrderCutter(space).Find({0, 1, 2, 3}, {0, 1, 2, 3}, 3, 4, 1 << 20);
  EXPECT_EQ(cut.bytes, 101);
  EXPECT_LE(cut.bound_bytes, 101);
  EXPECT_GE(cut.bound_bytes, 99);
  EXPECT_EQ(cut.postponed, (std::vector<OpId>{0, 2}));
  EXPECT_TRUE(cut.hastened.empty());
}

TEST(MemoryOrder, IsAllowedNeverWorseAndTheSameEachTime) {
  int better = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const MemGraph graph = RandomStep(seed, 3 + static_cast<int>(seed % 40));
    const MemoryOrder least = OrderForLeastPeak(graph, kWork);
    ASSERT_TRUE(OrderSpace(graph).Allows(least.order)) << seed;
    const int64_t peak = Simulate(graph, Plan()).peak_bytes;
    EXPECT_EQ(least.peak_bytes, PeakOf(graph, least.order)) << seed;
    EXPECT_LE(least.peak_bytes, peak) << seed;
    EXPECT_LE(least.bound_bytes, least.peak_bytes) << seed;
    EXPECT_EQ(least.order, OrderForLeastPeak(graph, kWork).order) << seed;
    better += least.peak_bytes < peak ? 1 : 0;
    // A limit that is known to be possible is met; one below the bound is not.
    const int64_t limit = least.peak_bytes + (peak - least.peak_bytes) / 2;
    const MemoryOrder met = OrderForLimit(graph, limit, kWork);
    EXPECT_EQ(met.peak_bytes, PeakOf(graph, met.order)) << seed;
    EXPECT_EQ(met.feasible, met.peak_bytes <= limit) << seed;
    EXPECT_FALSE(OrderForLimit(graph, least.bound_bytes - 1, kWork).feasible) << seed;
  }
  EXPECT_GT(better, 100);
}

TEST(MemoryOrder, IsNearlyAlwaysTheBestOrderOfSmallGraphs) {
  int graphs = 0;
  int best = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const MemGraph graph = testing::RandomBranches(seed, 8 + static_cast<int>(seed % 7));
    ++graphs;
    const int64_t optimum = LeastPeak(graph);
    const MemoryOrder found = OrderForLeastPeak(graph, kWork);
    ASSERT_GE(found.peak_bytes, optimum) << seed;
    ASSERT_LE(found.bound_bytes, optimum) << seed;
    best += found.peak_bytes == optimum ? 1 : 0;
  }
  EXPECT_GT(graphs, 200);
  EXPECT_GE(best, graphs * 99 / 100);
}

}  // namespace
}  // namespace lms
