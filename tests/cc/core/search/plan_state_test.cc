#include "cc/core/search/plan_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "cc/core/search/closure.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/transfers.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddOp;
using testing::Chain;
using testing::OutputOf;
using testing::Random;
using testing::RandomGraph;

// What the plain simulator says of every slot that has an event.
void ExpectSameAsSimulator(const PlanState& state, const std::string& where) {
  const MemGraph& graph = state.graph();
  const Plan plan = state.ToPlan();
  ASSERT_EQ(ValidatePlan(graph, plan), "") << where;
  const MemoryProfile profile = Simulate(graph, plan);
  const std::vector<int64_t> slots = state.bytes().Values();
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    ASSERT_EQ(slots[OpSlot(static_cast<OpId>(i))] + profile.resident_bytes, profile.op_bytes[i])
        << where << ", op " << i;
  }
  std::map<OpId, int64_t> worst;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    int64_t& bytes = worst[plan.steps[s].before];
    bytes = std::max(bytes, profile.step_bytes[s]);
  }
  for (size_t i = 0; i < plan.swap_ins.size(); ++i) {
    int64_t& bytes = worst[plan.swap_ins[i].before];
    bytes = std::max(bytes, profile.swap_in_bytes[i]);
  }
  for (const auto& [before, bytes] : worst) {
    ASSERT_EQ(slots[ClosureSlot(before)] + profile.resident_bytes, bytes) << where << ", before op " << before;
  }
  for (OpId before = 0; before < static_cast<OpId>(graph.ops.size()); ++before) {
    for (const auto& [op, provides] : state.steps(before)) {
      for (const BufferId b : provides) {
        const auto& life = state.life(b);
        const auto next = std::upper_bound(life.starts.begin(), life.starts.end(), ClosureSlot(before));
        const int until = next == life.starts.end() ? state.slots() : *next;
        ASSERT_TRUE(std::any_of(
            life.accesses.begin(), life.accesses.end(),
            [&](const PlanState::Access& access) { return access.slot >= ClosureSlot(before) && access.slot < until; }))
            << where << ": op " << op << " is recomputed before " << before << " for nobody";
      }
    }
  }
  if (plan.swap_outs.empty()) {
    EXPECT_NEAR(state.cost_us(), plan.CostUs(graph), 1e-6) << where;
  }
}

// A random evictable gap of the state: (buffer, op that ends it), or (kNone, kNone).
std::pair<BufferId, OpId> RandomGap(const PlanState& state, Random* random) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const BufferId b = random->Below(static_cast<int>(state.graph().buffers.size()));
    if (!state.graph().buffers[b].evictable) continue;
    const auto& accesses = state.life(b).accesses;
    if (accesses.empty()) continue;
    const OpId before = OpOfSlot(accesses[random->Below(static_cast<int>(accesses.size()))].slot);
    if (before <= state.graph().buffers[b].producer || before >= static_cast<OpId>(state.graph().ops.size())) continue;
    if (!state.Alive(b, ClosureSlot(before))) continue;
    return {b, before};
  }
  return {kNone, kNone};
}

TEST(PlanStateTest, AgreesWithTheSimulatorOnRandomGraphsAndChanges) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const MemGraph graph = RandomGraph(seed, 4 + static_cast<int>(seed % 30));
    ASSERT_EQ(graph.Validate(), "");
    PlanState state(graph);
    ExpectSameAsSimulator(state, "seed " + std::to_string(seed) + " at the start");
    Random random(seed);
    for (int change = 0; change < 25; ++change) {
      const std::string where = "seed " + std::to_string(seed) + " change " + std::to_string(change);
      const std::vector<int64_t> before_values = state.bytes().Values();
      state.Begin();
      const Plan plan = state.ToPlan();
      if (random.OneIn(3) && !plan.steps.empty()) {
        const RecomputeStep& step = plan.steps[random.Below(static_cast<int>(plan.steps.size()))];
        state.Retain(step.provides.front(), step.before);
      } else {
        const auto [b, before] = RandomGap(state, &random);
        if (b == kNone) {
          state.Commit();
          continue;
        }
        const Closure closure = ClosureFinder(state).Find(b, before, {0, random.OneIn(2) ? 0.0 : 0.5, 16});
        if (!closure.possible) {
          state.Commit();
          continue;
        }
        for (const BufferId again : closure.recomputed) state.Recompute(again, before);
      }
      state.Commit();
      ExpectSameAsSimulator(state, where);
      if (random.OneIn(4)) {
        state.Undo();
        ASSERT_EQ(state.bytes().Values(), before_values) << where << " undone";
        ExpectSameAsSimulator(state, where + " undone");
      }
    }
  }
}

// Swaps a random buffer through a random gap of it, at leisure or at random places; false if there was none.
bool SwapAnything(PlanState* state, Random* random) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const BufferId b = random->Below(static_cast<int>(state->graph().buffers.size()));
    if (!state->MaySwap(b) || state->life(b).accesses.empty()) continue;
    const auto& accesses = state->life(b).accesses;
    const int slot = accesses[random->Below(static_cast<int>(accesses.size()))].slot;
    const OpId before = OpOfSlot(slot);
    if (slot == state->slots() - 1 || !state->Alive(b, ClosureSlot(before))) continue;
    const int opens = state->LastNeededBefore(b, ClosureSlot(before));
    if (opens < 0 || ClosureSlot(before) <= opens + 1) continue;
    const bool leisure = random->OneIn(2);
    const OpId by = leisure ? kNone : OpOfSlot(opens) + random->Below(3);
    const OpId at = leisure ? kNone : before - random->Below(3);
    const PlanState::SwapWay way = state->FindSwap(b, opens, before, by, at);
    if (way.by != kNone && way.by >= way.at) continue;
    state->Swap(b, way);
    return true;
  }
  return false;
}

TEST(PlanStateTest, AgreesWithTheSimulatorOnSwapsAndRecomputations) {
  int swaps = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    MemGraph graph = RandomGraph(seed, 4 + static_cast<int>(seed % 30));
    for (MemBuffer& buffer : graph.buffers) buffer.swappable = !random.OneIn(5);
    SwapLink link;
    link.out_bytes_per_us = 2 + random.Below(40);
    link.in_bytes_per_us = 2 + random.Below(40);
    link.in_share = link.out_share = random.OneIn(2) ? 0.5 : 1;
    link.compute_us_per_byte = 0.001;
    PlanState state(graph, true, link);
    std::vector<Plan> history;
    for (int change = 0; change < 25; ++change) {
      const std::string where = "seed " + std::to_string(seed) + " change " + std::to_string(change);
      const std::vector<int64_t> before_values = state.bytes().Values();
      const double before_us = state.cost_us();
      const Plan plan = state.ToPlan();
      state.Begin();
      if (random.OneIn(4) && !plan.swap_ins.empty()) {
        const SwapIn& swap = plan.swap_ins[random.Below(static_cast<int>(plan.swap_ins.size()))];
        state.Retain(swap.buffer, swap.before);
      } else if (random.OneIn(5) && !plan.steps.empty()) {
        // An op that was moved runs at its own place again, where swap-outs may be done by its end.
        const RecomputeStep& step = plan.steps[random.Below(static_cast<int>(plan.steps.size()))];
        state.Retain(step.provides.front(), step.before);
      } else if (random.OneIn(3)) {
        const auto [b, before] = RandomGap(state, &random);
        const Closure closure = b == kNone ? Closure() : ClosureFinder(state).Find(b, before, {0, 0.5, 16});
        if (closure.possible) {
          for (const BufferId again : closure.recomputed) state.Recompute(again, before);
        }
      } else if (SwapAnything(&state, &random)) {
        ++swaps;
      }
      state.Commit();
      ExpectSameAsSimulator(state, where);
      if (::testing::Test::HasFatalFailure()) return;
      if (random.OneIn(4)) {
        state.Undo();
        ASSERT_EQ(state.bytes().Values(), before_values) << where << " undone";
        ASSERT_NEAR(state.cost_us(), before_us, 1e-6) << where << " undone";
        ExpectSameAsSimulator(state, where + " undone");
      }
    }
    // What is loaded is the same plan, and all promises are given back with it.
    const Plan plan = state.ToPlan();
    PlanState again(graph, true, link);
    again.Load(plan);
    EXPECT_EQ(again.bytes().Values(), state.bytes().Values()) << seed;
    again.Load(Plan());
    EXPECT_NEAR(again.cost_us(), 0, 1e-6) << seed;
    EXPECT_EQ(again.swapped_buffers(), 0);
    EXPECT_EQ(again.stored_bytes(), 0);
  }
  EXPECT_GT(swaps, 500);
}

// A plan costs the same once it is loaded: its transfers follow each other as they did, whichever came first.
TEST(PlanStateTest, ALoadedPlanHasItsTransfersWhereTheyWere) {
  for (const int64_t queued_above : {std::numeric_limits<int64_t>::max(), int64_t{0}}) {
    MemGraph graph = Chain(12, 100, 10, 20);
    for (MemBuffer& buffer : graph.buffers) buffer.swappable = true;
    SwapLink link;
    link.out_bytes_per_us = link.in_bytes_per_us = 10;
    link.queued_above = queued_above;
    PlanState state(graph, true, link);
    // From the last one back, so that each finds the link taken behind it.
    for (const OpId op : {6, 4, 2, 0}) {
      const BufferId b = OutputOf(graph, op);
      const int opens = state.life(b).accesses.front().slot;
      const OpId before = OpOfSlot(state.life(b).accesses.back().slot);
      state.Begin();
      state.Swap(b, state.FindSwap(b, opens, before, kNone, kNone));
      state.Commit();
    }
    ASSERT_EQ(state.cost_us(), 0);
    const Plan plan = state.ToPlan();
    ASSERT_EQ(SimulateTransfers(graph, plan, link).stall_us, 0);
    PlanState loaded(graph, true, link);
    loaded.Load(plan);
    EXPECT_EQ(loaded.cost_us(), 0) << queued_above;
    EXPECT_EQ(loaded.swapped_buffers(), 4);
  }
}

// An op that was moved when the swap was planned may read the buffer at its own place again.
TEST(PlanStateTest, WhatIsStillGoingOutIsNotTakenOver) {
  MemGraph graph;
  const BufferId x = OutputOf(graph, AddOp(&graph, {}, 10));
  const OpId reader = AddOp(&graph, {x}, 10);
  graph.ops[reader].forwardable = {x};
  AddOp(&graph, {}, 1);
  const OpId last = AddOp(&graph, {x, OutputOf(graph, reader)}, 1);
  SwapLink link;
  link.out_bytes_per_us = link.in_bytes_per_us = 100;
  PlanState state(graph, true, link);
  PlanState::SwapWay way = state.FindSwap(x, OpSlot(reader), last, kNone, kNone);
  way.by = reader;
  state.Begin();
  state.Swap(x, way);
  state.Commit();
  ExpectSameAsSimulator(state, "with the reader's end as the swap-out's");
  EXPECT_EQ(state.bytes().Max(OpSlot(reader), OpSlot(reader)), 20);
}

TEST(PlanStateTest, EvictionFreesTheGapAndNothingElse) {
  // f0 f1 f2 b2 b1 b0, all buffers of 10: f0's output is read by f1 and, four ops later, by b1.
  const MemGraph graph = Chain(3, 10);
  PlanState state(graph);
  const BufferId b = OutputOf(graph, 0);
  const std::vector<int64_t> before = state.bytes().Values();
  state.Begin();
  state.Recompute(b, 4);
  state.Commit();
  const std::vector<int64_t> after = state.bytes().Values();
  for (int slot = 0; slot < state.slots(); ++slot) {
    // Free after f1 has read it (slot 3), back before op 4 (slot 8).
    const bool freed = slot > OpSlot(1) && slot < ClosureSlot(4);
    EXPECT_EQ(after[slot], before[slot] - (freed ? 10 : 0)) << "slot " << slot;
  }
  EXPECT_EQ(state.cost_us(), 1);
}

TEST(PlanStateTest, RetainTakesBackWhatServedOnlyIt) {
  // Two levels: f1's output again needs f0's output again.
  MemGraph graph = Chain(4, 10);
  PlanState state(graph);
  const BufferId inner = OutputOf(graph, 0);
  const BufferId outer = OutputOf(graph, 1);
  const OpId before = 5;  // reads f1's output
  state.Begin();
  state.Recompute(outer, before);
  state.Recompute(inner, before);
  state.Commit();
  EXPECT_EQ(state.ToPlan().steps.size(), 2u);
  state.Begin();
  state.Retain(outer, before);
  state.Commit();
  // f0's output is still read by a later op, so its recomputation stays.
  EXPECT_EQ(state.ToPlan().steps.size(), 1u);
  EXPECT_TRUE(state.HasStep(before, 0));
  state.Begin();
  state.Retain(inner, before);
  state.Commit();
  EXPECT_TRUE(state.ToPlan().steps.empty());
  EXPECT_EQ(state.cost_us(), 0);
}

}  // namespace
}  // namespace lms
