#include "cc/core/search/hinted_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cc/core/graph/turn.h"
#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::Chain;
using testing::OutputOf;
using testing::RandomGraph;

const PlannerOptions kUnhurried{/*recompute=*/true, /*move=*/true, /*work=*/50000};
constexpr int64_t kNoLimit = 1 << 30;

// In Chain(10, ...) op i makes buffer i + 1 from buffer i, and op 19 - i, in the backward part, reads buffer i again.
void Set(MemGraph* graph, BufferId b, Hint hint, bool named = false) {
  MemBuffer& buffer = graph->buffers[b];
  buffer.hint = hint;
  buffer.hint_named = named;
  if (hint != Hint::kRecompute) buffer.evictable = false;
  if (hint != Hint::kSwap) buffer.swappable = false;
}

TEST(TurnOf, IsTheLastForwardOpOfAChain) {
  EXPECT_EQ(TurnOf(Chain(10, 4096)), 9);
  EXPECT_EQ(TurnOf(MemGraph()), 0);
  // Tensors that must stay count as well: nothing else is left to tell where the turn is.
  MemGraph kept = Chain(10, 4096);
  for (BufferId b = 1; b <= 10; ++b) Set(&kept, b, Hint::kKeep);
  EXPECT_EQ(TurnOf(kept), 9);
}

TEST(HintedPlan, WithoutHintsThereIsNothing) {
  const MemGraph graph = Chain(10, 4096);
  EXPECT_FALSE(HasEvictionHints(graph));
  PlanState state(graph);
  EXPECT_TRUE(ApplyHints(&state).evicted.empty());
  EXPECT_TRUE(state.ToPlan().empty());
  EXPECT_FALSE(state.Pinned(5));
}

TEST(HintedPlan, ATensorIsRecomputedThoughItWouldFit) {
  MemGraph graph = Chain(10, 4096);
  Set(&graph, 5, Hint::kRecompute, true);
  EXPECT_TRUE(HasEvictionHints(graph));
  const PlannerResult result = PlanForLimit(graph, kNoLimit, kUnhurried);
  ASSERT_TRUE(result.feasible);
  EXPECT_EQ(ValidatePlan(graph, result.plan), "");
  ASSERT_EQ(result.plan.steps.size(), 1u);
  EXPECT_EQ(result.plan.steps[0].op, 4);
  EXPECT_EQ(result.plan.steps[0].before, 14);
  EXPECT_DOUBLE_EQ(result.cost_us, 1);
  EXPECT_EQ(result.peak_bytes, Simulate(Chain(10, 4096), Plan()).peak_bytes - 4096);
}

TEST(HintedPlan, ARegionIsRecomputedOnceFromItsCheckpoint) {
  // All but buffer 5, and buffers 9 and 10, which are read again at once. What lies behind the checkpoint is made again
  // from it when the first of it is read (8, by op 11), what lies before it when 4 is read (by op 15).
  MemGraph graph = Chain(10, 4096);
  for (BufferId b = 1; b <= 10; ++b) Set(&graph, b, b == 5 ? Hint::kKeep : Hint::kRecompute);
  const PlannerResult result = PlanForLimit(graph, kNoLimit, kUnhurried);
  EXPECT_EQ(ValidatePlan(graph, result.plan), "");
  ASSERT_EQ(result.plan.steps.size(), 7u);
  for (const RecomputeStep& step : result.plan.steps) {
    EXPECT_EQ(step.before, step.op > 4 ? 11 : 15) << step.op;
    EXPECT_NE(step.op, 4);
  }
  EXPECT_DOUBLE_EQ(result.cost_us, 7);
  EXPECT_LT(result.peak_bytes, Simulate(graph, Plan()).peak_bytes * 7 / 10);
}

TEST(HintedPlan, KeptTensorsStayEvenWhereTheLimitCannotBeMet) {
  MemGraph graph = Chain(10, 4096);
  const int64_t limit = Simulate(graph, Plan()).peak_bytes / 2;
  EXPECT_TRUE(PlanForLimit(graph, limit, kUnhurried).feasible);
  for (BufferId b = 1; b <= 10; ++b) Set(&graph, b, Hint::kKeep);
  const PlannerResult result = PlanForLimit(graph, limit, kUnhurried);
  EXPECT_FALSE(result.feasible);
  EXPECT_TRUE(result.plan.empty());
}

TEST(HintedPlan, ALowerLimitIsMetBesideTheHints) {
  MemGraph graph = Chain(20, 4096);
  Set(&graph, 10, Hint::kRecompute, true);
  const int64_t limit = Simulate(graph, Plan()).peak_bytes / 2;
  const PlannerResult result = PlanForLimit(graph, limit, kUnhurried);
  ASSERT_TRUE(result.feasible);
  EXPECT_EQ(ValidatePlan(graph, result.plan), "");
  EXPECT_TRUE(std::any_of(result.plan.steps.begin(), result.plan.steps.end(),
                          [](const RecomputeStep& step) { return step.op == 9; }));
}

TEST(HintedPlan, ATensorThatIsNotHeldIsRefusedOnlyWhereItWasNamed) {
  MemGraph graph = Chain(10, 4096);
  Set(&graph, 10, Hint::kRecompute, true);
  Set(&graph, 9, Hint::kRecompute, false);
  PlanState state(graph);
  const AppliedHints applied = ApplyHints(&state);
  EXPECT_TRUE(applied.evicted.empty());
  ASSERT_EQ(applied.refused.size(), 1u);
  EXPECT_EQ(applied.refused[0].buffer, 10);
  EXPECT_NE(applied.refused[0].reason.find("not held"), std::string::npos);
}

TEST(HintedPlan, ATensorThatIsNotHeldAcrossTheTurnIsDroppedInItsWidestGap) {
  // A skip connection of the forward part: buffer `skip` is read by op 1, and again after eight more.
  MemGraph graph;
  const BufferId input = AddBuffer(&graph, 8, kNone);
  const BufferId skip = OutputOf(graph, AddOp(&graph, {input}, 4096));
  BufferId y = OutputOf(graph, AddOp(&graph, {skip}, 4096));
  for (int i = 0; i < 8; ++i) y = OutputOf(graph, AddOp(&graph, {y}, 4096));
  const OpId join = AddOp(&graph, {skip, y}, 4096);
  const BufferId joined = OutputOf(graph, join);
  const BufferId other = OutputOf(graph, AddOp(&graph, {joined}, 1 << 20));
  AddOp(&graph, {other}, 8);
  AddOp(&graph, {joined, other}, 8);
  Set(&graph, skip, Hint::kRecompute, true);
  PlanState state(graph);
  EXPECT_EQ(ApplyHints(&state).evicted, std::vector<BufferId>{skip});
  EXPECT_TRUE(state.HasStep(join, 0));
  EXPECT_TRUE(state.PinnedAt(skip, ClosureSlot(join)));
  EXPECT_TRUE(state.Pinned(skip));
  EXPECT_FALSE(state.Pinned(y));
}

TEST(HintedPlan, WhatWasOverwrittenIsRefusedWithTheReason) {
  MemGraph graph = Chain(10, 4096);
  graph.buffers[4].evictable = false;
  graph.buffers[4].overwritten_by = {12};
  Set(&graph, 5, Hint::kRecompute, true);
  PlanState state(graph);
  const AppliedHints applied = ApplyHints(&state);
  EXPECT_TRUE(applied.evicted.empty());
  ASSERT_EQ(applied.refused.size(), 1u);
  EXPECT_NE(applied.refused[0].reason.find("b4, which has been overwritten"), std::string::npos)
      << applied.refused[0].reason;
  EXPECT_TRUE(state.ToPlan().empty());
}

TEST(HintedPlan, ATensorIsSwappedWhereThereIsALink) {
  MemGraph graph = Chain(10, 4096);
  Set(&graph, 3, Hint::kSwap, true);
  SwapLink link;
  link.out_bytes_per_us = link.in_bytes_per_us = 4096;
  PlannerOptions options = kUnhurried;
  options.link = link;
  const PlannerResult result = PlanForLimit(graph, kNoLimit, options);
  EXPECT_EQ(ValidatePlan(graph, result.plan), "");
  ASSERT_EQ(result.plan.swap_outs.size(), 1u);
  EXPECT_EQ(result.plan.swap_outs[0].buffer, 3);
  ASSERT_EQ(result.plan.swap_ins.size(), 1u);
  EXPECT_TRUE(result.plan.steps.empty());

  PlanState nowhere(graph);
  const AppliedHints applied = ApplyHints(&nowhere);
  ASSERT_EQ(applied.refused.size(), 1u);
  EXPECT_NE(applied.refused[0].reason.find("nowhere"), std::string::npos);
}

// On random graphs, with random hints and limits: plans are sound, the same each time, what hints evict is not there
// just after the turn, and what they keep is never made again.
TEST(HintedPlan, HoldsOnRandomGraphs) {
  int evicted = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    MemGraph graph = RandomGraph(seed, 25);
    testing::Random random(seed + 1000);
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      const MemBuffer& buffer = graph.buffers[b];
      if (!buffer.evictable || buffer.resident) continue;
      if (random.OneIn(3)) {
        Set(&graph, static_cast<BufferId>(b), Hint::kRecompute, random.OneIn(2));
      } else if (random.OneIn(5)) {
        Set(&graph, static_cast<BufferId>(b), Hint::kKeep);
      }
    }
    PlanState hinted(graph);
    const AppliedHints applied = ApplyHints(&hinted);
    evicted += static_cast<int>(applied.evicted.size());
    ASSERT_EQ(ValidatePlan(graph, hinted.ToPlan()), "") << seed;
    const int64_t peak = Simulate(graph, hinted.ToPlan()).peak_bytes;
    for (const int percent : {100, 85, 70}) {
      const PlannerResult result = PlanForLimit(graph, peak * percent / 100, kUnhurried);
      ASSERT_EQ(ValidatePlan(graph, result.plan), "") << seed;
      EXPECT_EQ(Simulate(graph, result.plan).peak_bytes, result.peak_bytes);
      PlanState state(graph);
      ApplyHints(&state);
      state.Load(result.plan);
      for (const BufferId b : applied.evicted) {
        // Where it was not dropped at the turn it was dropped in a gap elsewhere.
        const int slot = OpSlot(TurnOf(graph)) + 1;
        if (hinted.Alive(b, slot)) continue;
        const std::vector<int>& starts = state.life(b).starts;
        EXPECT_TRUE(!state.Alive(b, slot) || std::binary_search(starts.begin(), starts.end(), slot))
            << seed << " " << percent << " " << b;
      }
      for (const RecomputeStep& step : result.plan.steps) {
        for (const BufferId b : step.provides) EXPECT_NE(graph.buffers[b].hint, Hint::kKeep);
      }
      const PlannerResult again = PlanForLimit(graph, peak * percent / 100, kUnhurried);
      EXPECT_EQ(again.plan.steps.size(), result.plan.steps.size());
      EXPECT_EQ(again.cost_us, result.cost_us);
    }
  }
  EXPECT_GT(evicted, 100);
}

}  // namespace
}  // namespace lms
