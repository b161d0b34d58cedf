#include "cc/core/search/checkpoint_chain.h"

#include <gtest/gtest.h>

#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::Chain;
using testing::RandomGraph;

constexpr int64_t kSlot = 4096;

int64_t Binomial(int n, int k) {
  int64_t result = 1;
  for (int i = 1; i <= k; ++i) result = result * (n - k + i) / i;
  return result;
}

// Forward steps beyond the first pass that reversing a chain of `steps` takes at least with `checkpoints` stored
// states: Griewank and Walther, "Algorithm 799: Revolve", 2000.
int64_t Revolve(int steps, int checkpoints) {
  int repetitions = 0;
  while (Binomial(checkpoints + repetitions, checkpoints) < steps) ++repetitions;
  const int64_t saved = repetitions > 0 ? Binomial(checkpoints + repetitions, checkpoints + 1) : 0;
  return static_cast<int64_t>(repetitions) * steps - saved - (steps - 1);
}

TEST(CheckpointChainTest, AHomogeneousChainIsReversedAsRevolveDoes) {
  const MemGraph graph = Chain(100, kSlot);
  CheckpointChain chain(graph, 200);
  ASSERT_EQ(chain.stages(), 100);
  chain.Solve(Simulate(graph, Plan()).peak_bytes - graph.ResidentBytes());
  // A level is a slot here; one more is resident, and two more hold the gradients of a step.
  for (int level = 3; level < chain.levels(); ++level) {
    PlanState state(graph);
    chain.Apply(level, &state);
    EXPECT_LE(state.bytes().Max(), level * kSlot) << level;
    EXPECT_EQ(state.cost_us(), Revolve(100, level - 2)) << level;
    EXPECT_EQ(ValidatePlan(graph, state.ToPlan()), "") << level;
  }
  EXPECT_EQ(chain.LeastLevel(), 3);
}

TEST(CheckpointChainTest, ThePlannerKeepsTheOptimum) {
  const MemGraph graph = Chain(100, kSlot, /*forward_us=*/1, /*backward_us=*/2);
  for (int slots = 52; slots >= 12; slots -= 4) {
    // For a hundred stages in the chain.
    const PlannerResult result = PlanForLimit(graph, slots * kSlot, {true, true, /*work=*/6000000});
    ASSERT_TRUE(result.feasible) << slots;
    EXPECT_EQ(result.cost_us, Revolve(100, slots - 3)) << slots;
    EXPECT_LE(result.bound_us, result.cost_us + 1e-6) << slots;
  }
}

TEST(CheckpointChainTest, MergedStagesStillGiveValidPlans) {
  const MemGraph graph = Chain(100, kSlot);
  CheckpointChain chain(graph, 10);
  ASSERT_TRUE(chain.usable());
  EXPECT_LE(chain.stages(), 10);
  const int64_t peak = Simulate(graph, Plan()).peak_bytes - graph.ResidentBytes();
  chain.Solve(peak);
  PlanState state(graph);
  chain.Apply(chain.LeastLevel(), &state);
  EXPECT_EQ(ValidatePlan(graph, state.ToPlan()), "");
  EXPECT_LT(state.bytes().Max(), peak / 2);
}

TEST(CheckpointChainTest, MergedStagesAreChainsOfTheirOwn) {
  // Two thousand steps in ten parts: each part is reversed by checkpoints within it, in memory that no part fits into.
  const MemGraph graph = Chain(2000, kSlot);
  CheckpointChain chain(graph, 10);
  ASSERT_EQ(chain.stages(), 10);
  EXPECT_LT(chain.LeastBytes(), 50 * kSlot);
  chain.Solve(100 * kSlot);
  for (int level = chain.LeastLevel(); level < chain.levels(); level += 10) {
    PlanState state(graph);
    chain.Apply(level, &state);
    EXPECT_EQ(ValidatePlan(graph, state.ToPlan()), "") << level;
    EXPECT_LE(state.bytes().Max(), level * kSlot) << level;
  }
}

TEST(CheckpointChainTest, TheLeastIsThatOfTheSolutions) {
  const MemGraph graph = Chain(100, kSlot);
  CheckpointChain chain(graph, 200);
  EXPECT_EQ(chain.LeastBytes(), 3 * kSlot);
  EXPECT_EQ(chain.most_bytes(), 0);
  // In place of an earlier solution, whatever that was for.
  for (const int64_t most : {4, 50, 8}) {
    chain.Solve(most * kSlot);
    EXPECT_EQ(chain.most_bytes(), most * kSlot);
    EXPECT_EQ(chain.levels(), most + 1);
    EXPECT_EQ(chain.LeastLevel(), 3);
  }
  // Fewer amounts than slots: nothing is lost but how finely they are told apart.
  chain.Solve(80 * kSlot, 20);
  EXPECT_EQ(chain.levels(), 21);
  EXPECT_LT(chain.LeastLevel(), chain.levels());
}

TEST(CheckpointChainTest, AnyGraphGivesValidPlansOrNone) {
  int usable = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const MemGraph graph = RandomGraph(seed, 3 + static_cast<int>(seed % 25));
    CheckpointChain chain(graph, 128);
    if (!chain.usable()) continue;
    chain.Solve(Simulate(graph, Plan()).peak_bytes - graph.ResidentBytes());
    for (int level = chain.LeastLevel(); level < chain.levels(); level += 7) {
      PlanState state(graph);
      chain.Apply(level, &state);
      ASSERT_EQ(ValidatePlan(graph, state.ToPlan()), "") << "seed " << seed << ", level " << level;
      ++usable;
    }
  }
  EXPECT_GT(usable, 100);
  EXPECT_FALSE(CheckpointChain(MemGraph(), 10).usable());
}

}  // namespace
}  // namespace lms
