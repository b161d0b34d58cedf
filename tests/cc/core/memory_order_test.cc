#include "cc/core/memory_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "cc/core/liveness.h"
#include "cc/core/order_cut.h"
#include "cc/core/order_space.h"
#include "cc/core/order_starts.h"
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
        const auto same = std::find_if(dying.begin(), dying.end(), [&](BufferId b) {
          return graph.buffers[b].bytes == graph.buffers[out].bytes;
        });
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
    if (found.peak_bytes == optimum) {
      ++best;
    } else {
      std::printf("seed %d: stock %ld found %ld optimum %ld bound %ld\n", (int)seed, (long)Simulate(graph, Plan()).peak_bytes, (long)found.peak_bytes, (long)optimum, (long)found.bound_bytes);
    }
  }
  std::printf("%d of %d\n", best, graphs);
  EXPECT_GT(graphs, 200);
  EXPECT_GE(best, graphs * 99 / 100);
}

}  // namespace
}  // namespace lms
