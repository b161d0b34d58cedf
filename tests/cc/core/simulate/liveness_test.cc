#include "cc/core/simulate/liveness.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::OutputOf;

TEST(Liveness, AChainHoldsAnInputAndAnOutput) {
  MemGraph graph;
  const BufferId weights = AddBuffer(&graph, 1000, kNone);
  const OpId a = AddOp(&graph, {weights}, 10);
  const OpId b = AddOp(&graph, {OutputOf(graph, a)}, 20);
  AddOp(&graph, {OutputOf(graph, b)}, 40);
  const MemoryProfile profile = Simulate(graph, Plan());
  EXPECT_EQ(profile.resident_bytes, 1000);
  // 10; 10 + 20; 20 + 40, with 1000 resident.
  EXPECT_EQ(profile.op_bytes, (std::vector<int64_t>{1010, 1030, 1060}));
  EXPECT_EQ(profile.peak_bytes, 1060);
  EXPECT_EQ(profile.peak_op, 2);
}

TEST(Liveness, AnEmptyGraphHoldsNothing) {
  const MemoryProfile profile = Simulate(MemGraph(), Plan());
  EXPECT_EQ(profile.peak_bytes, 0);
  EXPECT_EQ(profile.peak_op, kNone);
}

TEST(Liveness, WorkspaceIsHeldWhileItsOpRuns) {
  MemGraph graph;
  const OpId a = AddOp(&graph, {}, 10);
  graph.ops[a].workspace_bytes = 500;
  AddOp(&graph, {OutputOf(graph, a)}, 20);
  EXPECT_EQ(Simulate(graph, Plan()).op_bytes, (std::vector<int64_t>{510, 30}));
}

TEST(Liveness, WhatNobodyReadsGoesAtOnceAndWhatEscapesStays) {
  for (const bool escapes : {false, true}) {
    MemGraph graph;
    const OpId a = AddOp(&graph, {}, 10);
    graph.buffers[OutputOf(graph, a)].escapes = escapes;
    AddOp(&graph, {}, 20);
    EXPECT_EQ(Simulate(graph, Plan()).op_bytes, (std::vector<int64_t>{10, escapes ? 30 : 20}));
  }
}

TEST(Liveness, AnOutputTakesOverTheStorageOfADyingInputOfItsSize) {
  const auto bytes_at_op = [](bool forwardable, int64_t output_bytes, bool read_later) {
    MemGraph graph;
    const OpId a = AddOp(&graph, {}, 100);
    const OpId b = AddOp(&graph, {OutputOf(graph, a)}, output_bytes);
    if (forwardable) graph.ops[b].forwardable = {OutputOf(graph, a)};
    if (read_later) AddOp(&graph, {OutputOf(graph, a)}, 1);
    return Simulate(graph, Plan()).op_bytes[b];
  };
  EXPECT_EQ(bytes_at_op(true, 100, false), 100);
  EXPECT_EQ(bytes_at_op(false, 100, false), 200);  // not an op that does
  EXPECT_EQ(bytes_at_op(true, 50, false), 150);    // another size
  EXPECT_EQ(bytes_at_op(true, 100, true), 200);    // somebody else reads it yet
}

TEST(Liveness, StorageIsTakenOverOnce) {
  // Two outputs as large as the one input that dies: one takes it over.
  MemGraph graph;
  const OpId a = AddOp(&graph, {}, 100);
  const OpId b = AddOp(&graph, {OutputOf(graph, a)}, 100);
  graph.ops[b].outputs.push_back(AddBuffer(&graph, 100, b));
  graph.ops[b].forwardable = {OutputOf(graph, a)};
  EXPECT_EQ(Simulate(graph, Plan()).op_bytes[b], 200);
}

// f0 f1 f2 b2 b1 b0 with 100 bytes each. Buffers: 0 resident, 1..3 of f0..f2, 4..6 of b2..b0 (6 escapes).
// Each backward op reads the gradient and its forward op's input: b2 reads 3 and 2, b1 reads 4 and 1, b0 reads 5 and 0.
TEST(Liveness, ARecomputationEndsOneInstanceAndBeginsAnother) {
  const MemGraph graph = testing::Chain(3, 100);
  const MemoryProfile before = Simulate(graph, Plan());
  EXPECT_EQ(before.op_bytes, (std::vector<int64_t>{200, 300, 400, 500, 400, 300}));
  Plan plan;
  plan.steps.push_back({4, 0, {1}, false});  // f0's output again before b1, its only late reader
  ASSERT_EQ(ValidatePlan(graph, plan), "");
  const MemoryProfile after = Simulate(graph, plan);
  // f1 frees it: f2 has 2, 3; b2 has 2, 3, 4; then the copy beside 4; then b1 has 4, 1, 5.
  EXPECT_EQ(after.op_bytes, (std::vector<int64_t>{200, 300, 300, 400, 400, 300}));
  EXPECT_EQ(after.step_bytes, (std::vector<int64_t>{300}));
  EXPECT_EQ(before.peak_bytes - after.peak_bytes, 100);
}

TEST(Liveness, ThePeakMayBeAtARecomputation) {
  const MemGraph graph = [] {
    MemGraph g = testing::Chain(3, 100);
    g.ops[0].workspace_bytes = 1000;
    return g;
  }();
  Plan plan;
  plan.steps.push_back({4, 0, {1}, false});
  const MemoryProfile profile = Simulate(graph, plan);
  EXPECT_EQ(profile.step_bytes, (std::vector<int64_t>{1300}));  // 100 resident, 4, the copy, the workspace
  EXPECT_EQ(profile.peak_bytes, 1300);
  EXPECT_EQ(profile.peak_op, 4);  // the op that it is before
}

TEST(Liveness, OtherOutputsOfARecomputedOpAreScratch) {
  MemGraph graph;
  const OpId a = AddOp(&graph, {}, 100);
  graph.ops[a].outputs.push_back(AddBuffer(&graph, 30, a));
  const OpId b = AddOp(&graph, {graph.ops[a].outputs[0], graph.ops[a].outputs[1]}, 10);
  AddOp(&graph, {OutputOf(graph, b)}, 10);
  AddOp(&graph, {graph.ops[a].outputs[0], OutputOf(graph, 2)}, 10);
  Plan plan;
  plan.steps.push_back({3, a, {graph.ops[a].outputs[0]}, false});
  const MemoryProfile profile = Simulate(graph, plan);
  // a: 130; b: 130 + 10; 10 + 10; the copy beside op 2's output: 10 + 130, of which 30 go; 10 + 100 + 10.
  EXPECT_EQ(profile.op_bytes, (std::vector<int64_t>{130, 140, 20, 120}));
  EXPECT_EQ(profile.step_bytes, (std::vector<int64_t>{140}));
}

TEST(Liveness, AMovedOpLeavesItsPlaceEmpty) {
  MemGraph graph;
  const OpId early = AddOp(&graph, {}, 100);
  const OpId middle = AddOp(&graph, {}, 10);
  AddOp(&graph, {OutputOf(graph, early), OutputOf(graph, middle)}, 1);
  Plan plan;
  plan.steps.push_back({2, early, {OutputOf(graph, early)}, true});
  ASSERT_EQ(ValidatePlan(graph, plan), "");
  const MemoryProfile profile = Simulate(graph, plan);
  EXPECT_EQ(profile.op_bytes, (std::vector<int64_t>{0, 10, 111}));
  EXPECT_EQ(profile.step_bytes, (std::vector<int64_t>{110}));
  EXPECT_EQ(Simulate(graph, Plan()).op_bytes, (std::vector<int64_t>{100, 110, 111}));
}

TEST(Liveness, ALaterReaderTakesTheNewestInstance) {
  // a is read at 1, 3 and 5; a copy before 3 serves both later reads, a second one before 5 the last alone.
  MemGraph graph;
  const OpId a = AddOp(&graph, {}, 100);
  const BufferId value = OutputOf(graph, a);
  for (int i = 1; i <= 5; ++i) {
    std::vector<BufferId> reads{OutputOf(graph, i - 1)};
    if (i > 1 && i % 2 == 1) reads.push_back(value);
    AddOp(&graph, reads, 1);
  }
  Plan one;
  one.steps.push_back({3, a, {value}, false});
  Plan two = one;
  two.steps.push_back({5, a, {value}, false});
  // Op 4 reads no copy: with one copy it is held over op 4, with two it is not.
  EXPECT_EQ(Simulate(graph, one).op_bytes[4], 102);
  EXPECT_EQ(Simulate(graph, two).op_bytes[4], 2);
  EXPECT_EQ(Simulate(graph, two).step_bytes, (std::vector<int64_t>{101, 101}));
}

}  // namespace
}  // namespace lms
