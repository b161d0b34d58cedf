#include <gtest/gtest.h>

#include <vector>

#include "cc/core/search/strategy.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddFixedOp;
using testing::AddOp;
using testing::OutputOf;

constexpr int kDepth = 200;
constexpr int64_t kSaved = 4096, kSlope = 4000;

// Forward and backward, and each layer's update at the end of the step: until then its slope waits. What is saved is
// given up as the slopes come, so the peak is that of any order.
MemGraph LateUpdates() {
  MemGraph graph;
  std::vector<BufferId> forward{AddBuffer(&graph, kSaved, kNone)}, slopes;
  for (int i = 0; i < kDepth; ++i) forward.push_back(OutputOf(graph, AddOp(&graph, {forward.back()}, kSaved)));
  BufferId slope = forward.back();
  for (int i = kDepth - 1; i >= 0; --i) {
    slope = OutputOf(graph, AddFixedOp(&graph, {slope, forward[i]}, kSlope));
    slopes.push_back(slope);
  }
  for (const BufferId late : slopes) AddFixedOp(&graph, {late}, 0);
  return graph;
}

TEST(StrategyOrder, WhereItLowersWhatCheckpointsReachAnotherOrderIsPlannedIn) {
  const MemGraph graph = LateUpdates();
  const int64_t resident = graph.ResidentBytes();
  const int64_t activations = Simulate(graph, Plan()).peak_bytes - resident;
  const int64_t limit = resident + activations / 4;
  EXPECT_FALSE(PlanForLimit(graph, limit, PlannerOptions()).feasible);
  const Strategy chosen = ChooseForLimit(graph, limit, StrategyOptions());
  EXPECT_TRUE(chosen.planned.feasible);
  EXPECT_FALSE(chosen.order.empty());
  EXPECT_LE(Simulate(Reordered(graph, chosen.order), chosen.planned.plan).peak_bytes, limit);
  const Strategy least = ChooseForLeastPeak(graph, StrategyOptions());
  EXPECT_LT(least.planned.peak_bytes - resident, activations / 10);
  StrategyOptions own;
  own.order = false;
  EXPECT_FALSE(ChooseForLimit(graph, limit, own).planned.feasible);
}

}  // namespace
}  // namespace lms
