#include "cc/core/simulate/overlap.h"

#include <gtest/gtest.h>

#include <vector>

#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

std::vector<RunEvent> OneByOne(const MemGraph& graph) {
  std::vector<RunEvent> run;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    run.push_back({op, false});
    run.push_back({op, true});
  }
  return run;
}

// Op `id` reads `inputs` and makes one buffer of so many bytes.
void AddReader(MemGraph* graph, const std::vector<BufferId>& inputs, int64_t bytes) {
  MemOp op;
  op.name = "op" + std::to_string(graph->ops.size());
  op.inputs = inputs;
  MemBuffer buffer;
  buffer.name = op.name + ":0";
  buffer.bytes = bytes;
  buffer.producer = static_cast<OpId>(graph->ops.size());
  op.outputs = {static_cast<BufferId>(graph->buffers.size())};
  for (const BufferId b : inputs) {
    if (graph->buffers[b].producer != kNone) op.deps.push_back(graph->buffers[b].producer);
  }
  graph->buffers.push_back(buffer);
  graph->ops.push_back(op);
}

TEST(OverlapTest, OneByOneIsWhatLivenessComputes) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const MemGraph graph = testing::RandomGraph(seed, 40);
    const MemoryProfile plain = Simulate(graph, Plan());
    const MemoryProfile run = SimulateRun(graph, OneByOne(graph), {});
    EXPECT_EQ(run.peak_bytes, plain.peak_bytes) << seed;
    EXPECT_EQ(run.op_bytes, plain.op_bytes) << seed;
    EXPECT_EQ(run.resident_bytes, plain.resident_bytes) << seed;
  }
}

TEST(OverlapTest, WhatRunsSideBySideIsHeldAtOnce) {
  MemGraph graph;
  AddReader(&graph, {}, 10);
  AddReader(&graph, {0}, 100);  // read by nobody: gone when it ends
  AddReader(&graph, {0}, 100);
  EXPECT_EQ(SimulateRun(graph, OneByOne(graph), {}).peak_bytes, 110);
  EXPECT_EQ(SimulateRun(graph, {{0, false}, {0, true}, {1, false}, {2, false}, {1, true}, {2, true}}, {}).peak_bytes,
            210);
}

TEST(OverlapTest, WhatIsNotTakenHoldsNothing) {
  // Two branches of 100 and 50 bytes, side by side, and what merges them.
  MemGraph graph;
  AddReader(&graph, {}, 10);
  AddReader(&graph, {0}, 100);
  AddReader(&graph, {0}, 50);
  AddReader(&graph, {1, 2}, 1);
  const std::vector<RunEvent> run = {{0, false}, {0, true}, {1, false}, {2, false},
                                     {2, true},  {1, true}, {3, false}, {3, true}};
  EXPECT_EQ(SimulateRun(graph, run, {}).peak_bytes, 160);
  EXPECT_EQ(SimulateRun(graph, run, {}, {false, false, true, false}).peak_bytes, 110);
  EXPECT_EQ(SimulateRun(graph, run, {}, {false, true, false, false}).peak_bytes, 60);
  // All have their turn, and nothing is left behind: 1 byte beside what the branch that is taken made.
  const MemoryProfile taken = SimulateRun(graph, run, {}, {false, true, false, false});
  EXPECT_EQ(taken.order, (std::vector<OpId>{0, 1, 2, 3}));
  EXPECT_EQ(taken.op_bytes.back(), 51);
}

TEST(OverlapTest, AnInputThatAnotherOpIsStillReadingIsNotTakenOver) {
  MemGraph graph;
  AddReader(&graph, {}, 100);
  AddReader(&graph, {0}, 1);
  AddReader(&graph, {0}, 100);
  graph.ops[2].forwardable = {0};
  EXPECT_EQ(SimulateRun(graph, OneByOne(graph), {}).peak_bytes, 101);
  EXPECT_EQ(SimulateRun(graph, {{0, false}, {0, true}, {1, false}, {2, false}, {1, true}, {2, true}}, {}).peak_bytes,
            201);
}

// A variable of 1000 bytes, read by op 0; op 1 reads what op 0 has read; op 2 updates the variable.
class VariableTest : public ::testing::Test {
 protected:
  VariableTest() {
    MemBuffer variable;
    variable.name = "variable";
    variable.bytes = 1000;
    variable.resident = true;
    variable.overwritten_by = {2};
    graph_.buffers.push_back(variable);
    for (int i = 0; i < 3; ++i) graph_.ops.emplace_back();
    graph_.ops[1].inputs = {0};
  }

  int64_t Peak(const std::vector<RunEvent>& run) const { return SimulateRun(graph_, run, {{0, 0, 1}}).peak_bytes; }

  MemGraph graph_;
};

TEST_F(VariableTest, AnUpdateAfterItsReadersIsInPlace) {
  EXPECT_EQ(Peak({{0, false}, {0, true}, {1, false}, {1, true}, {2, false}, {2, true}}), 1000);
}

TEST_F(VariableTest, AnUpdateBeforeAReaderHasEndedCopies) {
  EXPECT_EQ(Peak({{0, false}, {0, true}, {1, false}, {2, false}, {2, true}, {1, true}}), 2000);
  EXPECT_EQ(Peak({{0, false}, {0, true}, {2, false}, {2, true}, {1, false}, {1, true}}), 2000);
}

TEST_F(VariableTest, TheOldContentsGoWithTheirLastReader) {
  // Another op, of 1500 bytes, after the reader: 1000 + 1500, no more.
  AddReader(&graph_, {}, 1500);
  EXPECT_EQ(Peak({{0, false}, {0, true}, {2, false}, {2, true}, {1, false}, {1, true}, {3, false}, {3, true}}), 2500);
  EXPECT_EQ(Peak({{0, false}, {0, true}, {2, false}, {2, true}, {1, false}, {3, false}, {3, true}, {1, true}}), 3500);
}

TEST_F(VariableTest, WhatIsReadAfterAnUpdateIsNotHeldAgainstIt) {
  EXPECT_EQ(Peak({{2, false}, {2, true}, {0, false}, {0, true}, {1, false}, {1, true}}), 1000);
}

}  // namespace
}  // namespace lms
