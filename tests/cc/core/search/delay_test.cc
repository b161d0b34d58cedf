#include "cc/core/search/delay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cc/core/search/closure.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::Chain;
using testing::OutputOf;
using testing::RandomGraph;

TEST(DelayTest, AStageComesBackWhereItIsRead) {
  // Ops 0 to 3 forwards; op 4 reads what 3 and 2 made, 5 what 1 made, 6 what 0 made.
  const MemGraph graph = Chain(4, 10);
  PlanState state(graph);
  state.Begin();
  state.Recompute(OutputOf(graph, 0), 4);
  state.Recompute(OutputOf(graph, 1), 4);
  state.Commit();
  const double cost_us = state.cost_us();
  EXPECT_TRUE(DelayRecomputations(&state));
  EXPECT_TRUE(state.steps(4).empty());
  EXPECT_TRUE(state.HasStep(5, 1));
  EXPECT_TRUE(state.HasStep(5, 0)) << "what it is made of comes with it";
  EXPECT_EQ(state.cost_us(), cost_us);
  EXPECT_FALSE(DelayRecomputations(&state));
}

TEST(DelayTest, WhatIsHeldForItAsLongTakesMore) {
  // What is made again takes less than what it is made of, which nobody else needs any more.
  MemGraph graph;
  const BufferId large = OutputOf(graph, testing::AddOp(&graph, {}, 100));
  const BufferId small = OutputOf(graph, testing::AddOp(&graph, {large}, 10));
  const BufferId other = OutputOf(graph, testing::AddOp(&graph, {small}, 10));
  const OpId early = testing::AddOp(&graph, {large, other}, 10);
  const OpId between = testing::AddOp(&graph, {OutputOf(graph, early)}, 10);
  const OpId last = testing::AddOp(&graph, {OutputOf(graph, between), small}, 10);
  PlanState state(graph);
  state.Begin();
  state.Recompute(small, between);
  state.Commit();
  EXPECT_FALSE(DelayRecomputations(&state));
  EXPECT_TRUE(state.HasStep(between, 1));
  EXPECT_FALSE(state.HasStep(last, 1));
}

TEST(DelayTest, PlansStayValidAndNeverDearerOrLarger) {
  int delayed = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string where = "seed " + std::to_string(seed);
    const MemGraph graph = RandomGraph(seed, 4 + static_cast<int>(seed % 30));
    PlanState state(graph);
    testing::Random random(seed);
    for (int change = 0; change < 15; ++change) {
      const BufferId b = random.Below(static_cast<int>(graph.buffers.size()));
      const OpId before = random.Below(static_cast<int>(graph.ops.size()));
      if (!graph.buffers[b].evictable || before <= graph.buffers[b].producer) continue;
      const Closure closure = ClosureFinder(state).Find(b, before, {0, 0.5, 16});
      if (!closure.possible) continue;
      state.Begin();
      for (const BufferId again : closure.recomputed) state.Recompute(again, before);
      state.Commit();
    }
    const Plan early = state.ToPlan();
    const int64_t peak = Simulate(graph, early).peak_bytes;
    delayed += DelayRecomputations(&state) ? 1 : 0;
    const Plan late = state.ToPlan();
    ASSERT_EQ(ValidatePlan(graph, late), "") << where;
    EXPECT_LE(Simulate(graph, late).peak_bytes, peak) << where;
    EXPECT_LE(late.CostUs(graph), early.CostUs(graph) + 1e-6) << where;
  }
  EXPECT_GT(delayed, 50);
}

}  // namespace
}  // namespace lms
