#include <gtest/gtest.h>

#include <string>
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

constexpr int kLayers = 8;
constexpr int64_t kTensor = 100, kWeight = 60;

// Forward, backward, and a gradient for each layer. All gradients become one tensor. Of that two chains of three ops
// lead to each weight's updates, and the executor runs the first op of all chains, then the second of all, and so on.
struct Packed {
  Packed() {
    const BufferId x = AddBuffer(&graph, kTensor, kNone);
    std::vector<BufferId> forward{x}, gradients;
    for (int i = 0; i < kLayers; ++i) forward.push_back(OutputOf(graph, AddOp(&graph, {forward.back()}, kTensor)));
    BufferId slope = OutputOf(graph, AddOp(&graph, {forward.back()}, kTensor));
    for (int i = kLayers - 1; i >= 0; --i) {
      gradients.push_back(OutputOf(graph, AddOp(&graph, {slope, forward[i]}, kWeight)));
      slope = OutputOf(graph, AddOp(&graph, {slope, forward[i]}, kTensor));
    }
    const BufferId pack = Made(AddFixedOp(&graph, gradients, kLayers * kWeight));
    std::vector<BufferId> first, second;
    for (int i = 0; i < kLayers; ++i) {
      first.push_back(OutputOf(graph, AddOp(&graph, {pack}, kWeight)));
      second.push_back(OutputOf(graph, AddOp(&graph, {pack}, kWeight)));
    }
    for (int turn = 0; turn < 2; ++turn) {
      for (int i = 0; i < kLayers; ++i) {
        first[i] = InPlace(first[i]);
        second[i] = InPlace(second[i]);
      }
    }
    for (int i = 0; i < kLayers; ++i) AddFixedOp(&graph, {first[i]}, 0);
    for (int i = 0; i < kLayers; ++i) AddFixedOp(&graph, {second[i]}, 0);
  }

  BufferId InPlace(BufferId input) {
    const OpId op = AddOp(&graph, {input}, kWeight);
    graph.ops[op].forwardable = {input};
    return OutputOf(graph, op);
  }
  BufferId Made(OpId op) const { return OutputOf(graph, op); }

  MemGraph graph;
};

constexpr int64_t kPack = kLayers * kWeight;

TEST(StrategyTail, WhatFollowsTheRecomputationsIsPutIntoAnotherOrder) {
  const Packed step;
  const int64_t resident = step.graph.ResidentBytes();
  const Strategy chosen = ChooseForLeastPeak(step.graph, StrategyOptions());
  const PlannerResult planned = PlanForLeastPeak(step.graph, PlannerOptions());
  EXPECT_GE(planned.peak_bytes, resident + 3 * kPack);
  // The pack and its parts, while it is made.
  EXPECT_EQ(chosen.planned.peak_bytes, resident + 2 * kPack);
  ASSERT_EQ(chosen.order.size(), step.graph.ops.size());
  const MemGraph ordered = Reordered(step.graph, chosen.order);
  EXPECT_EQ(Simulate(ordered, chosen.planned.plan).peak_bytes, chosen.planned.peak_bytes);
}

}  // namespace
}  // namespace lms
