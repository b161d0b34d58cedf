#include "cc/core/search/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cc/core/order/memory_order.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/lower_bound.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::Chain;
using testing::OutputOf;
using testing::RandomGraph;

// A little local search.
const PlannerOptions kSearched{/*recompute=*/true, /*move=*/true, /*work=*/50000};

TEST(PlannerTest, LeavesAStepThatFitsAlone) {
  const MemGraph graph = Chain(10, 4096);
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  const PlannerResult result = PlanForLimit(graph, peak, kSearched);
  EXPECT_TRUE(result.feasible);
  EXPECT_TRUE(result.plan.steps.empty());
  EXPECT_EQ(result.cost_us, 0);
}

TEST(PlannerTest, ChainOfFortyFitsAQuarterOfItsPeak) {
  // The peak is 40 activations, the gradient and the resident input: about 42 buffers.
  const MemGraph graph = Chain(40, 4096);
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  const int64_t limit = peak / 4;
  const PlannerResult result = PlanForLimit(graph, limit, kSearched);
  ASSERT_TRUE(result.feasible) << result.peak_bytes << " of " << limit;
  EXPECT_EQ(ValidatePlan(graph, result.plan), "");
  EXPECT_LE(Simulate(graph, result.plan).peak_bytes, limit);
  // A full second forward pass, 40 us, is all that a quarter needs (checkpoints every sixth op).
  EXPECT_LE(result.cost_us, 45);
}

TEST(PlannerTest, PrefersTheCheapestWayToFree) {
  // Two buffers of one size span the peak; one costs 100 times as much to make again. Evicting either would do.
  MemGraph graph;
  const BufferId input = AddBuffer(&graph, 8, kNone);
  const BufferId dear = OutputOf(graph, AddOp(&graph, {input}, 1 << 20, 100));
  const BufferId cheap = OutputOf(graph, AddOp(&graph, {input}, 1 << 20, 1));
  AddOp(&graph, {dear}, 0);
  AddOp(&graph, {cheap}, 0);
  const BufferId peak = OutputOf(graph, AddOp(&graph, {input}, 4 << 20, 1));
  AddOp(&graph, {peak}, 0);
  AddOp(&graph, {dear}, 0);
  AddOp(&graph, {cheap}, 0);
  const PlannerResult result = PlanForLimit(graph, (5 << 20) + 64, kSearched);
  ASSERT_TRUE(result.feasible);
  ASSERT_EQ(result.plan.steps.size(), 1u);
  EXPECT_EQ(result.plan.steps[0].op, graph.buffers[cheap].producer);
  EXPECT_EQ(result.cost_us, 1);
}

TEST(PlannerTest, OneOpAtATimeFreesNothingWhereItsInputDiesToo) {
  // A long elementwise chain whose links are read again in reverse: only closures of several ops help.
  const MemGraph graph = Chain(30, 1 << 16);
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  const PlannerResult result = PlanForLimit(graph, peak / 2, kSearched);
  ASSERT_TRUE(result.feasible);
  bool closure = false;
  for (size_t i = 1; i < result.plan.steps.size(); ++i) {
    closure |= result.plan.steps[i].before == result.plan.steps[i - 1].before;
  }
  EXPECT_TRUE(closure);
}

TEST(PlannerTest, WhatIsNotReadBeforeItIsMadeAgainIsMovedAtNoCost) {
  // `early` is ready at the start, read only at the end, and in the way of the peak in between.
  MemGraph graph;
  const BufferId input = AddBuffer(&graph, 8, kNone);
  const BufferId early = OutputOf(graph, AddOp(&graph, {input}, 1 << 20, 50));
  const BufferId large = OutputOf(graph, AddOp(&graph, {input}, 1 << 22, 1));
  AddOp(&graph, {large}, 0);
  AddOp(&graph, {early}, 0);
  const PlannerResult result = PlanForLimit(graph, (1 << 22) + 64, kSearched);
  ASSERT_TRUE(result.feasible);
  ASSERT_EQ(result.plan.steps.size(), 1u);
  EXPECT_TRUE(result.plan.steps[0].moves);
  EXPECT_EQ(result.cost_us, 0);
  PlannerOptions in_place = kSearched;
  in_place.move = false;
  EXPECT_EQ(PlanForLimit(graph, (1 << 22) + 64, in_place).cost_us, 50);
  // A reader before the place forbids it, and so does an op that waits for it...
  MemGraph read = graph;
  read.ops[2].inputs.push_back(early);
  EXPECT_NE(ValidatePlan(read, result.plan), "");
  MemGraph waited = graph;
  waited.ops[2].deps.push_back(0);
  EXPECT_NE(ValidatePlan(waited, result.plan), "");
  // ...but not a view of it, which waits with it.
  waited.ops[2].inputs.clear();
  EXPECT_EQ(ValidatePlan(waited, result.plan), "");
}

TEST(PlannerTest, NeverRecomputesWhatMustNotBe) {
  MemGraph graph = Chain(20, 4096);
  for (MemOp& op : graph.ops) {
    op.recomputable = false;
    op.keep_reason = "stateful";
  }
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  const PlannerResult result = PlanForLimit(graph, peak - 1, kSearched);
  EXPECT_FALSE(result.feasible);
  EXPECT_TRUE(result.plan.steps.empty());
  EXPECT_EQ(result.peak_bytes, peak);
}

TEST(PlannerTest, DoesNotReadAVariableAfterItWasOverwritten) {
  // The weight (resident) is overwritten while the large buffer is there, before `made` could come back.
  MemGraph graph;
  const BufferId weight = AddBuffer(&graph, 64, kNone);
  const BufferId made = OutputOf(graph, AddOp(&graph, {weight}, 1 << 20));
  const BufferId large = OutputOf(graph, AddOp(&graph, {weight}, 1 << 22));
  const OpId writer = AddOp(&graph, {weight}, 0);
  AddOp(&graph, {large}, 0);
  AddOp(&graph, {made}, 0);
  graph.buffers[weight].overwritten_by.push_back(writer);
  const int64_t limit = Simulate(graph, Plan()).peak_bytes - 4096;
  EXPECT_FALSE(PlanForLimit(graph, limit, kSearched).feasible);
  // Without the write the same budget is met.
  graph.buffers[weight].overwritten_by.clear();
  EXPECT_TRUE(PlanForLimit(graph, limit, kSearched).feasible);
}

TEST(PlannerTest, AddsNoReaderWhereNoneMayBeAdded) {
  // `made` could come back before its second reader, from `input`, which is still there: unless nobody may read it
  // anew.
  MemGraph graph;
  const BufferId start = AddBuffer(&graph, 8, kNone);
  const BufferId input = OutputOf(graph, AddOp(&graph, {start}, 4096));
  const BufferId made = OutputOf(graph, AddOp(&graph, {input}, 1 << 20));
  AddOp(&graph, {made}, 0);
  const BufferId large = OutputOf(graph, AddOp(&graph, {start}, 1 << 22));
  AddOp(&graph, {large}, 0);
  AddOp(&graph, {made}, 0);
  AddOp(&graph, {input}, 0);
  const int64_t limit = Simulate(graph, Plan()).peak_bytes - 65536;
  EXPECT_TRUE(PlanForLimit(graph, limit, kSearched).feasible);
  graph.buffers[input].no_more_readers = true;
  EXPECT_FALSE(PlanForLimit(graph, limit, kSearched).feasible);
}

TEST(PlannerTest, WithoutRecomputationThereIsNoPlan) {
  const MemGraph graph = Chain(20, 4096);
  const PlannerResult result = PlanForLimit(graph, 4096, {/*recompute=*/false, /*move=*/true});
  EXPECT_FALSE(result.feasible);
  EXPECT_TRUE(result.plan.steps.empty());
}

TEST(PlannerTest, EveryPlanIsValidUnderItsLimitAndTheSameTwice) {
  int feasible = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const MemGraph graph = RandomGraph(seed, 10 + static_cast<int>(seed % 40));
    const int64_t peak = Simulate(graph, Plan()).peak_bytes;
    for (const double share : {0.9, 0.7, 0.5, 0.3}) {
      const int64_t limit = static_cast<int64_t>(share * static_cast<double>(peak));
      const PlannerResult result = PlanForLimit(graph, limit, kSearched);
      EXPECT_EQ(ValidatePlan(graph, result.plan), "") << "seed " << seed;
      const int64_t simulated = Simulate(graph, result.plan).peak_bytes;
      EXPECT_EQ(simulated, result.peak_bytes) << "seed " << seed;
      EXPECT_EQ(result.feasible, simulated <= limit) << "seed " << seed;
      EXPECT_GE(simulated, LowerBoundBytes(graph)) << "seed " << seed;
      const PlannerResult again = PlanForLimit(graph, limit, kSearched);
      ASSERT_EQ(again.plan.steps.size(), result.plan.steps.size()) << "seed " << seed;
      for (size_t i = 0; i < again.plan.steps.size(); ++i) {
        EXPECT_EQ(again.plan.steps[i].op, result.plan.steps[i].op);
        EXPECT_EQ(again.plan.steps[i].before, result.plan.steps[i].before);
        EXPECT_EQ(again.plan.steps[i].provides, result.plan.steps[i].provides);
      }
      feasible += result.feasible ? 1 : 0;
    }
  }
  // The check above means something only where plans exist.
  EXPECT_GE(feasible, 60);
}

SwapLink Link(double bytes_per_us, bool shared) {
  SwapLink link;
  link.out_bytes_per_us = link.in_bytes_per_us = bytes_per_us;
  link.out_share = link.in_share = shared ? 0.5 : 1;
  return link;
}

// What planner.h promises for one plan: the work, one and a half times that where the limit cannot be met, and the
// first start in any case.
int64_t MostWork(const MemGraph& graph, int64_t work) {
  constexpr int64_t kFirstStart = 200;  // for each op and buffer
  constexpr int64_t kLastStep = 100000;
  return work * 5 / 2 + kFirstStart * static_cast<int64_t>(graph.ops.size() + graph.buffers.size()) + kLastStep;
}

TEST(SlowPlannerTest, WorkIsBoundedWhateverTheLimitAndTheLink) {
  for (const int64_t work : {1000000, 4000000}) {
    PlannerOptions options;
    options.work = work;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      const MemGraph graph = seed == 1 ? Chain(400, 4096) : RandomGraph(seed, 300);
      const int64_t peak = Simulate(graph, Plan()).peak_bytes;
      for (const bool link : {false, true}) {
        options.link = link ? Link(20000, seed % 2 == 0) : SwapLink();
        SCOPED_TRACE("seed " + std::to_string(seed) + (link ? " with a link" : ""));
        for (const double share : {0.9, 0.5, 0.2, 0.05, 0.01}) {
          const auto limit = static_cast<int64_t>(share * static_cast<double>(peak));
          const PlannerResult planned = PlanForLimit(graph, limit, options);
          EXPECT_GT(planned.work, 0);
          EXPECT_LE(planned.work, MostWork(graph, work)) << share;
        }
        EXPECT_LE(PlanForLeastPeak(graph, options).work, MostWork(graph, work));
      }
    }
  }
}

TEST(PlannerTest, AFirstStartThatFindsNothingLeavesWorkForCheckpoints) {
  constexpr int kChain = 1000, kSlots = 12;
  const MemGraph graph = Chain(kChain, 4096, /*forward_us=*/1, /*backward_us=*/2);
  PlannerOptions options;
  options.work = 3000000;
  const PlannerResult planned = PlanForLimit(graph, kSlots * int64_t{4096}, options);
  EXPECT_TRUE(planned.feasible);
  EXPECT_LT(planned.cost_us, 1.2 * graph.TotalCostUs());  // 1.5 where the least peak is all that is found
}

TEST(PlannerTest, CheckpointsAreTriedOnHugeGraphsThoughAllWorkIsDone) {
  // There the first start takes all of the work and finds nothing.
  const MemGraph graph = Chain(15100, 4096);
  PlannerOptions options;
  options.work = 10000000;
  const int64_t limit = Simulate(graph, Plan()).peak_bytes / 250;
  const PlannerResult planned = PlanForLimit(graph, limit, options);
  EXPECT_TRUE(planned.feasible);
  EXPECT_LT(planned.cost_us, graph.TotalCostUs());  // the least peak, which is searched next, costs more
}

TEST(PlannerTest, TheBestPlanSoFarIsTheResultWhereWorkIsUsedUp) {
  const MemGraph graph = Chain(400, 4096);
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  PlannerOptions options;
  options.work = 1;
  const PlannerResult hasty = PlanForLimit(graph, peak / 2, options);
  EXPECT_TRUE(hasty.feasible);
  EXPECT_LE(hasty.peak_bytes, peak / 2);
  EXPECT_LT(PlanForLeastPeak(graph, options).peak_bytes, peak);
  // A bound that is cut short is a bound.
  for (const int64_t most : {1, 100, 10000}) {
    WorkMeter meter(most);
    EXPECT_LE(LowerBoundUs(graph, peak / 2, &meter), LowerBoundUs(graph, peak / 2));
  }
}

TEST(PlannerTest, TheLeastPeakIsFeasibleAsABudget) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const MemGraph graph = RandomGraph(seed, 30);
    const PlannerResult least = PlanForLeastPeak(graph, kSearched);
    EXPECT_LE(least.peak_bytes, Simulate(graph, Plan()).peak_bytes);
    EXPECT_EQ(Simulate(graph, least.plan).peak_bytes, least.peak_bytes);
    EXPECT_TRUE(PlanForLimit(graph, least.peak_bytes, kSearched).feasible) << "seed " << seed;
  }
}

TEST(PlannerTest, SwapsWhatCannotBeRecomputed) {
  MemGraph graph = Chain(20, 4096, 10, 20);
  for (MemOp& op : graph.ops) op.recomputable = false;
  for (MemBuffer& buffer : graph.buffers) buffer.evictable = false;
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  EXPECT_FALSE(PlanForLimit(graph, peak / 2, kSearched).feasible);
  PlannerOptions options = kSearched;
  options.link = Link(4096, false);  // a buffer in a microsecond
  const PlannerResult result = PlanForLimit(graph, peak / 2, options);
  ASSERT_TRUE(result.feasible) << result.peak_bytes << " of " << peak / 2;
  EXPECT_EQ(ValidatePlan(graph, result.plan), "");
  EXPECT_EQ(Simulate(graph, result.plan).peak_bytes, result.peak_bytes);
  EXPECT_TRUE(result.plan.steps.empty());
  EXPECT_EQ(result.cost_us, 0);  // all of it is hidden
  EXPECT_GT(result.transfer_us, 0);
}

TEST(PlannerTest, ASlowLinkIsLeftAlone) {
  const MemGraph graph = Chain(20, 4096, 10, 20);
  PlannerOptions options = kSearched;
  options.link = Link(1, true);  // four milliseconds a buffer, in a step of less than one
  const int64_t limit = Simulate(graph, Plan()).peak_bytes / 2;
  const PlannerResult with = PlanForLimit(graph, limit, options);
  const PlannerResult without = PlanForLimit(graph, limit, kSearched);
  ASSERT_TRUE(with.feasible && without.feasible);
  EXPECT_TRUE(with.plan.swap_outs.empty());
  EXPECT_EQ(with.cost_us, without.cost_us);
}

// Whatever the link, both ways together are never dearer than either of them.
TEST(PlannerTest, TheMixIsNoWorseThanSwappingOrRecomputingAlone) {
  int better = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const MemGraph graph = RandomGraph(seed, 30);
    const int64_t peak = Simulate(graph, Plan()).peak_bytes;
    const int64_t limit = graph.ResidentBytes() + (peak - graph.ResidentBytes()) * 6 / 10;
    PlannerOptions mix = kSearched;
    mix.work *= 7;  // of which each way alone has its share
    mix.link = Link(50 << (seed % 8), seed % 2 == 0);
    PlannerOptions swap = mix;
    swap.recompute = false;
    const PlannerResult both = PlanForLimit(graph, limit, mix);
    EXPECT_EQ(ValidatePlan(graph, both.plan), "") << seed;
    EXPECT_EQ(Simulate(graph, both.plan).peak_bytes, both.peak_bytes) << seed;
    const PlannerResult alone[] = {PlanForLimit(graph, limit, swap), PlanForLimit(graph, limit, kSearched)};
    bool beats = true;
    for (const PlannerResult& one : alone) {
      if (!one.feasible) continue;
      EXPECT_TRUE(both.feasible) << seed;
      EXPECT_LE(both.cost_us, one.cost_us + 1e-6) << seed;
      beats = beats && both.cost_us < 0.98 * one.cost_us;
    }
    better += beats && both.feasible ? 1 : 0;
    EXPECT_TRUE(alone[0].plan.steps.empty()) << seed;
    EXPECT_TRUE(alone[1].plan.swap_outs.empty()) << seed;
  }
  EXPECT_GT(better, 0);
}

TEST(PlannerTest, RulesOfSwappingAreKept) {
  MemGraph graph = Chain(20, 4096, 10, 20);
  const int64_t limit = Simulate(graph, Plan()).peak_bytes * 6 / 10;
  PlannerOptions options = kSearched;
  options.recompute = false;
  options.link = Link(4096, false);
  options.swap_rules.most_tensors = 3;
  EXPECT_LE(PlanForLimit(graph, limit, options).plan.swap_outs.size(), 3u);
  options.swap_rules = {};
  options.swap_rules.least_gap = 15;
  const PlannerResult far = PlanForLimit(graph, limit, options);
  for (const SwapIn& swap : far.plan.swap_ins) {
    EXPECT_GE(swap.before - graph.buffers[swap.buffer].producer, 15 - 1) << "less than the least gap";
  }
  options.swap_rules = {};
  options.link.capacity_bytes = 2 * 4096;
  EXPECT_LE(PlanForLimit(graph, limit, options).plan.swap_outs.size(), 2u);
  options.link.capacity_bytes = 1 << 20;
  options.swap_rules.wait_for_out = options.swap_rules.wait_for_in = true;
  const PlannerResult waiting = PlanForLimit(graph, limit, options);
  ASSERT_TRUE(waiting.feasible);
  for (const SwapIn& swap : waiting.plan.swap_ins) {
    const std::vector<BufferId>& inputs = graph.ops[swap.before].inputs;
    EXPECT_NE(std::find(inputs.begin(), inputs.end(), swap.buffer), inputs.end());
  }
  // Also where a swap takes the place of a recomputation.
  options.swap_rules = {};
  options.swap_rules.ahead = 0;
  options.recompute = true;
  options.work = 400000;
  const PlannerResult mixed = PlanForLimit(graph, Simulate(graph, Plan()).peak_bytes * 7 / 10, options);
  EXPECT_FALSE(mixed.plan.swap_ins.empty());
  for (const SwapIn& swap : mixed.plan.swap_ins) {
    const auto reads = [&](OpId op) {
      const std::vector<BufferId>& inputs = graph.ops[op].inputs;
      return std::find(inputs.begin(), inputs.end(), swap.buffer) != inputs.end();
    };
    EXPECT_TRUE(reads(swap.before) ||
                std::any_of(mixed.plan.steps.begin(), mixed.plan.steps.end(),
                            [&](const RecomputeStep& step) { return step.before == swap.before && reads(step.op); }));
  }
}

TEST(PlannerTest, WhatIsStoredCountsInWholePages) {
  const MemGraph graph = Chain(20, 4097, 10, 20);
  const int64_t limit = Simulate(graph, Plan()).peak_bytes * 6 / 10;
  PlannerOptions options = kSearched;
  options.recompute = false;
  options.link = Link(4096, false);
  options.link.capacity_bytes = 5 * 8192 - 1;
  EXPECT_EQ(PlanForLimit(graph, limit, options).plan.swap_outs.size(), 4u);
}

}  // namespace
}  // namespace lms
