#include "cc/core/graph/repeats.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::OutputOf;

// Blocks of two ops, a wide one and a narrow one.
MemGraph Blocks(int blocks) {
  MemGraph graph;
  BufferId x = AddBuffer(&graph, 100, kNone);
  for (int i = 0; i < blocks; ++i) {
    const BufferId wide = OutputOf(graph, AddOp(&graph, {x}, 400, 5));
    x = OutputOf(graph, AddOp(&graph, {wide}, 100, 2));
  }
  AddOp(&graph, {x}, 0);
  return graph;
}

TEST(RepeatsTest, BuffersOfEqualBlocksAreOneGroup) {
  const MemGraph graph = Blocks(12);
  size_t widest = 0;
  size_t members = 0;
  for (const std::vector<BufferId>& group : FindRepeats(graph)) {
    for (const BufferId b : group) EXPECT_EQ(graph.buffers[b].bytes, graph.buffers[group[0]].bytes);
    EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
    widest = std::max(widest, group.size());
    members += group.size();
  }
  // All but the blocks at the ends, whose neighbours differ.
  EXPECT_GE(widest, 8u);
  EXPECT_EQ(members, 24u);
}

TEST(RepeatsTest, CostsTellOpsApart) {
  MemGraph graph = Blocks(12);
  for (size_t i = 0; i < graph.ops.size(); ++i) graph.ops[i].cost_us = static_cast<double>(i);
  for (const std::vector<BufferId>& group : FindRepeats(graph)) EXPECT_EQ(group.size(), 1u);
}

TEST(RepeatsTest, AGraphWithoutOps) { EXPECT_TRUE(FindRepeats(MemGraph()).empty()); }

}  // namespace
}  // namespace lms
