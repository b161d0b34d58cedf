#include "cc/core/search/local_search.h"

#include <gtest/gtest.h>

#include "cc/core/search/gap_eviction.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/lower_bound.h"
#include "cc/core/text/text_format.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::RandomGraph;

LocalSearchLimits Work(int64_t work) {
  LocalSearchLimits limits;
  limits.work = work;
  return limits;
}

TEST(LocalSearchTest, IsNeverWorseAndTheSameTwice) {
  int better = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const MemGraph graph = RandomGraph(seed, 6 + static_cast<int>(seed % 20));
    PlanState state(graph);
    const int64_t low = LowerBoundBytes(graph) - graph.ResidentBytes();
    const int64_t limit = low + (state.bytes().Max() - low) / 2;
    if (!GapEviction(&state, limit).Run(EvictionRule())) continue;
    const double before_us = state.cost_us();
    PlanState again = state;
    ImproveLocally(&state, limit, 7, Work(100000));
    EXPECT_LE(state.cost_us(), before_us + 1e-6);
    EXPECT_LE(state.bytes().Max(), limit);
    EXPECT_EQ(ValidatePlan(graph, state.ToPlan()), "");
    better += state.cost_us() < before_us - 1e-6 ? 1 : 0;
    ImproveLocally(&again, limit, 7, Work(100000));
    EXPECT_EQ(WritePlan(graph, again.ToPlan()), WritePlan(graph, state.ToPlan())) << "seed " << seed;
  }
  EXPECT_GT(better, 20);
}

TEST(LocalSearchTest, StopsAtTheBoundAndWhenInterrupted) {
  const MemGraph graph = testing::Chain(30, 4096);
  PlanState state(graph);
  const int64_t limit = state.bytes().Max() / 2;
  ASSERT_TRUE(GapEviction(&state, limit).Run(EvictionRule()));
  LocalSearchLimits limits = Work(1 << 30);
  limits.enough_us = state.cost_us();
  EXPECT_LT(ImproveLocally(&state, limit, 1, limits), 1 << 20);
  limits.enough_us = 0;
  int asked = 0;
  limits.interrupt = [&asked] { return ++asked > 3; };
  EXPECT_LT(ImproveLocally(&state, limit, 1, limits), 1 << 20);
}

TEST(LocalSearchTest, FindsItsWayUnderTheLimit) {
  int lower = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const MemGraph graph = RandomGraph(seed, 10);
    PlanState state(graph);
    const int64_t limit = LowerBoundBytes(graph) - graph.ResidentBytes();
    GapEviction(&state, limit).Run(EvictionRule());
    const int64_t before = state.bytes().Max();
    if (before <= limit) continue;
    ImproveLocally(&state, limit, 1, Work(200000));
    EXPECT_EQ(ValidatePlan(graph, state.ToPlan()), "");
    lower += state.bytes().Max() < before ? 1 : 0;
  }
  EXPECT_GT(lower, 5);
}

}  // namespace
}  // namespace lms
