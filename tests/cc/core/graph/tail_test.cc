#include "cc/core/graph/tail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/core/graph/plan.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

TEST(Tail, TakesWhatTheWholeTakesThere) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const MemGraph graph = seed % 2 == 0 ? testing::RandomGraph(seed, 12) : testing::RandomBranches(seed, 40);
    const std::vector<int64_t> whole = Simulate(graph, Plan()).op_bytes;
    for (OpId first = 1; first <= static_cast<OpId>(graph.ops.size()); first += 3) {
      const MemGraph tail = TailOf(graph, first);
      ASSERT_EQ(tail.Validate(), "") << seed << " " << first;
      const std::vector<int64_t> bytes = Simulate(tail, Plan()).op_bytes;
      ASSERT_EQ(bytes.size(), whole.size() - first + 1);
      EXPECT_TRUE(std::equal(bytes.begin() + 1, bytes.end(), whole.begin() + first)) << seed << " " << first;
    }
  }
}

TEST(Tail, WritersAndOrderAreThoseOfTheWhole) {
  MemGraph graph = testing::Chain(3, 100);  // six ops
  graph.buffers[0].overwritten_by = {1, 4};
  EXPECT_EQ(TailOf(graph, 3).buffers[0].overwritten_by, std::vector<OpId>{2});
  EXPECT_EQ(OrderWithTail(3, {0, 2, 1, 3}), (std::vector<OpId>{0, 1, 2, 4, 3, 5}));
}

}  // namespace
}  // namespace lms
