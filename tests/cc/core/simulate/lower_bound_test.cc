#include "cc/core/simulate/lower_bound.h"

#include <gtest/gtest.h>

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

TEST(LowerBoundTest, NothingIsKnownWhereTheStepFits) {
  const MemGraph graph = Chain(10, 4096);
  EXPECT_EQ(LowerBoundUs(graph, Simulate(graph, Plan()).peak_bytes), 0);
  EXPECT_EQ(LowerBoundUs(MemGraph(), 0), 0);
}

TEST(LowerBoundTest, IsWhatTheCheapestHalfCosts) {
  // Four buffers of one size wait across the peak, and two of them must go: at least the two cheapest are made again.
  MemGraph graph;
  const BufferId input = AddBuffer(&graph, 8, kNone);
  std::vector<BufferId> made;
  for (const double cost_us : {7.0, 3.0, 11.0, 5.0}) {
    made.push_back(OutputOf(graph, AddOp(&graph, {input}, 1000, cost_us)));
  }
  // Something that needs them all comes first, so that none can simply be made later.
  const BufferId sum = OutputOf(graph, AddOp(&graph, made, 8, 1));
  const OpId large = AddOp(&graph, {sum}, 5000, 1);
  AddOp(&graph, {OutputOf(graph, large), sum}, 0);
  const OpId end = AddOp(&graph, {sum}, 0);
  for (const BufferId b : made) AddOp(&graph, {b, sum}, 0);
  for (OpId reader = end; reader < static_cast<OpId>(graph.ops.size()); ++reader)
    graph.ops[reader].deps.push_back(large);
  ASSERT_EQ(graph.Validate(), "");
  const int64_t limit = Simulate(graph, Plan()).peak_bytes - 2000;
  EXPECT_NEAR(LowerBoundUs(graph, limit), 3 + 5, 0.01);
  const PlannerResult plan = PlanForLimit(graph, limit, PlannerOptions());
  ASSERT_TRUE(plan.feasible);
  EXPECT_EQ(plan.cost_us, 8);
}

TEST(LowerBoundTest, CountsWhatARecomputationNeeds) {
  // Of a chain nearly all is dropped at the turn: what comes back comes from its beginning, not each link from nothing.
  const MemGraph graph = Chain(50, 4096);
  const double bound_us = LowerBoundUs(graph, 12 * 4096);
  EXPECT_GT(bound_us, 35);
  EXPECT_LE(bound_us, PlanForLimit(graph, 12 * 4096, PlannerOptions()).cost_us);
}

TEST(LowerBoundTest, IsNeverAboveAPlan) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const MemGraph graph = RandomGraph(seed, 4 + static_cast<int>(seed % 20));
    const int64_t peak = Simulate(graph, Plan()).peak_bytes;
    const int64_t low = LowerBoundBytes(graph);
    for (const double share : {0.8, 0.5, 0.2}) {
      const int64_t limit = low + static_cast<int64_t>(share * static_cast<double>(peak - low));
      const PlannerResult plan = PlanForLimit(graph, limit, {true, true, /*work=*/20000});
      if (!plan.feasible) continue;
      EXPECT_LE(LowerBoundUs(graph, limit), plan.cost_us + 1e-6) << "seed " << seed << " at " << share;
    }
  }
}

TEST(LowerBoundTest, BytesAreWhatASingleOpNeeds) {
  const MemGraph graph = Chain(20, 4096);
  // A backward op: the gradient, the saved input, the new gradient; and the resident input.
  EXPECT_EQ(LowerBoundBytes(graph), 4 * 4096);
}

}  // namespace
}  // namespace lms
