#include "cc/core/graph/takeovers.h"

#include <gtest/gtest.h>

#include "cc/core/simulate/liveness.h"

namespace lms {
namespace {

// A stack of three rows of 10 bytes: `make` makes it, `a` and `b` each make 10 bytes of a row of it, `end` reads both.
MemGraph Rows() {
  MemGraph graph;
  graph.buffers.resize(4);
  const int64_t bytes[] = {30, 10, 10, 0};
  for (size_t b = 0; b < 4; ++b) graph.buffers[b].bytes = bytes[b];
  graph.ops.resize(4);
  for (OpId op = 0; op < 4; ++op) {
    graph.ops[op].outputs = {op};
    graph.buffers[op].producer = op;
  }
  graph.ops[1].inputs = graph.ops[2].inputs = {0};
  graph.ops[1].deps = graph.ops[2].deps = {0};
  graph.ops[3].inputs = {1, 2};
  graph.ops[3].deps = {1, 2};
  return graph;
}

std::vector<Takeover> Both() { return {{1, 10, {{0, true}}}, {2, 10, {{0, true}}}}; }

TEST(Takeovers, TheLastReaderHoldsAllOfTheStorage) {
  MemGraph graph = Rows();
  ApplyTakeovers(Both(), {0, 1, 2, 3}, &graph);
  EXPECT_EQ(graph.buffers[1].bytes, 10);
  EXPECT_EQ(graph.buffers[2].bytes, 30);
  EXPECT_EQ(Simulate(graph, Plan()).op_bytes, (std::vector<int64_t>{30, 40, 40, 40}));
}

TEST(Takeovers, AnotherOrderHasAnotherLastReader) {
  MemGraph graph = Rows();
  ApplyTakeovers(Both(), {0, 1, 2, 3}, &graph);
  ApplyTakeovers(Both(), {0, 2, 1, 3}, &graph);
  EXPECT_EQ(graph.buffers[1].bytes, 30);
  EXPECT_EQ(graph.buffers[2].bytes, 10);
}

TEST(Takeovers, WhatStaysIsNotTakenOver) {
  for (const bool resident : {true, false}) {
    MemGraph graph = Rows();
    (resident ? graph.buffers[0].resident : graph.buffers[0].escapes) = true;
    ApplyTakeovers(Both(), {0, 1, 2, 3}, &graph);
    EXPECT_EQ(graph.buffers[2].bytes, 10);
    EXPECT_TRUE(graph.ops[2].forwardable.empty());
  }
}

TEST(Takeovers, WhatHoldsAllIsHandedOn) {
  MemGraph graph = Rows();
  std::vector<Takeover> takeovers = Both();
  takeovers.push_back({3, 10, {{1, false}, {2, false}}});
  ApplyTakeovers(takeovers, {0, 1, 2, 3}, &graph);
  EXPECT_EQ(graph.buffers[3].bytes, 10);  // in the place of the first result
  ApplyTakeovers(takeovers, {0, 2, 1, 3}, &graph);
  EXPECT_EQ(graph.buffers[3].bytes, 30);
}

}  // namespace
}  // namespace lms
