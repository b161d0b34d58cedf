#include "cc/core/search/pareto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddOp;
using testing::Chain;
using testing::OutputOf;
using testing::RandomGraph;

// Little of the local search: the table is the point here, not how good the plans are.
PlannerOptions Unhurried() {
  PlannerOptions options;
  options.work = 50000;
  return options;
}

TEST(ParetoTest, EachPointIsAPlanAndNoneIsDominated) {
  int points = 0;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const MemGraph graph = RandomGraph(seed, 10 + static_cast<int>(seed));
    const std::vector<ParetoPoint> table = ParetoTable(graph, {12, Unhurried()});
    ASSERT_FALSE(table.empty());
    EXPECT_LE(table.front().budget_bytes, Simulate(graph, Plan()).peak_bytes);
    EXPECT_EQ(table.front().added_us, 0);
    EXPECT_LE(table.back().peak_bytes, PlanForLeastPeak(graph, Unhurried()).peak_bytes);
    for (size_t i = 0; i < table.size(); ++i) {
      const ParetoPoint& point = table[i];
      EXPECT_EQ(ValidatePlan(graph, point.plan), "");
      EXPECT_EQ(Simulate(graph, point.plan).peak_bytes, point.peak_bytes);
      EXPECT_EQ(point.plan.CostUs(graph), point.added_us);
      EXPECT_LE(point.peak_bytes, point.budget_bytes);
      if (i == 0) continue;
      EXPECT_LT(point.budget_bytes, table[i - 1].budget_bytes);
      EXPECT_LT(point.peak_bytes, table[i - 1].peak_bytes);
      EXPECT_GT(point.added_us, table[i - 1].added_us);
    }
    points += static_cast<int>(table.size());
  }
  EXPECT_GT(points, 100);
}

TEST(ParetoTest, IsNeverWorseThanThePlannerAtItsBudgets) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    const MemGraph graph = RandomGraph(seed, 20);
    const int64_t most = Simulate(graph, Plan()).peak_bytes;
    const int64_t least = PlanForLeastPeak(graph, Unhurried()).peak_bytes;
    const std::vector<ParetoPoint> table = ParetoTable(graph, {5, Unhurried()});
    for (const double share : {0.75, 0.5, 0.25}) {
      const int64_t budget = least + static_cast<int64_t>(share * static_cast<double>(most - least));
      const PlannerResult alone = PlanForLimit(graph, budget, Unhurried());
      ASSERT_TRUE(alone.feasible);
      double cheapest = graph.TotalCostUs() * 1000;
      for (const ParetoPoint& point : table) {
        if (point.peak_bytes <= budget) cheapest = std::min(cheapest, point.added_us);
      }
      EXPECT_LE(cheapest, alone.cost_us) << "seed " << seed << " at " << share;
    }
  }
}

TEST(ParetoTest, AChainGoesFromNothingToTheLeastPeak) {
  const MemGraph graph = Chain(40, 4096);
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  const std::vector<ParetoPoint> table = ParetoTable(graph, {8, Unhurried()});
  EXPECT_GE(table.size(), 6u);
  EXPECT_EQ(table.front().budget_bytes, peak);
  EXPECT_TRUE(table.front().plan.steps.empty());
  EXPECT_LT(table.back().peak_bytes, peak / 2);
}

TEST(ParetoTest, WhereNothingHelpsThereIsOnePoint) {
  MemGraph graph;
  const BufferId made = OutputOf(graph, AddOp(&graph, {}, 100));
  AddOp(&graph, {made}, 50);
  const std::vector<ParetoPoint> table = ParetoTable(graph, {10, Unhurried()});
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0].budget_bytes, Simulate(graph, Plan()).peak_bytes);
  EXPECT_EQ(table[0].added_us, 0);
}

}  // namespace
}  // namespace lms
