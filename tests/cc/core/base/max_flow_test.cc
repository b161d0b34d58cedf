#include "cc/core/base/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cc/core/base/random.h"

namespace lms {
namespace {

struct Edge {
  int from;
  int to;
  double capacity;
};

// The least capacity over all ways to divide the nodes; node 0 is the source, node 1 the sink.
double LeastCut(int nodes, const std::vector<Edge>& edges) {
  double least = MaxFlow::kUnlimited;
  for (int side = 0; side < 1 << nodes; ++side) {
    if ((side & 1) == 0 || (side & 2) != 0) continue;
    double cut = 0;
    for (const Edge& e : edges) {
      if ((side >> e.from & 1) != 0 && (side >> e.to & 1) == 0) cut += e.capacity;
    }
    least = std::min(least, cut);
  }
  return least;
}

TEST(MaxFlowTest, EqualsTheLeastCutOfRandomGraphs) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const int nodes = 2 + random.Below(7);
    MaxFlow flow(nodes);
    std::vector<Edge> edges;
    for (int e = 0; e < 3 * nodes; ++e) {
      const Edge edge{random.Below(nodes), random.Below(nodes),
                      random.Below(8) == 0 ? MaxFlow::kUnlimited : random.Below(100) / 7.0};
      if (edge.from == edge.to) continue;
      edges.push_back(edge);
      flow.AddEdge(edge.from, edge.to, edge.capacity);
    }
    const double value = flow.Run(0, 1);
    const double least = LeastCut(nodes, edges);
    if (least == MaxFlow::kUnlimited) {
      EXPECT_EQ(value, MaxFlow::kUnlimited);
      continue;
    }
    ASSERT_NEAR(value, least, 1e-9);
    double cut = 0;
    for (const Edge& e : edges) {
      if (flow.OnSourceSide(e.from) && !flow.OnSourceSide(e.to)) cut += e.capacity;
    }
    EXPECT_NEAR(cut, least, 1e-9) << "the sides are those of a minimum cut";
  }
}

TEST(MaxFlowTest, CapacitiesCanBeChangedBetweenRuns) {
  MaxFlow flow(3);
  const int first = flow.AddEdge(0, 2, 5);
  flow.AddEdge(2, 1, 3);
  EXPECT_EQ(flow.Run(0, 1), 3);
  flow.SetCapacity(first, 1);
  EXPECT_EQ(flow.Run(0, 1), 1);
  flow.SetCapacity(first, 10);
  EXPECT_EQ(flow.Run(0, 1), 3);
}

}  // namespace
}  // namespace lms
