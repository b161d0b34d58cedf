#include "cc/tf/stock/loop_starts.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::LoopBuilder;
using testing::OfType;
using Names = std::set<std::pair<std::string, std::string>>;  // (node, what it waits for)

// Iterations draw numbers by `shape_of`, with a seed or without.
LoopBuilder Drawing(const std::string& shape_of, int seed = 5) {
  LoopBuilder b;
  b.Add("shape", "Shape", {shape_of}, {OfType(tensorflow::DT_FLOAT)});
  b.Add("draw", "RandomUniform", {"shape"},
        {OfType(tensorflow::DT_INT32), testing::Type("dtype", tensorflow::DT_FLOAT), testing::Int("seed", seed)});
  return b;
}

Names StartWaits(LoopBuilder* b) {
  const tensorflow::grappler::GrapplerItem& item = b->item();
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  const Loops loops(item.graph, index);
  Names waits;
  for (const NodeWait& wait : FindStartWaits(item.graph, index, loops, /*onednn=*/false)) {
    waits.emplace(item.graph.node(wait.node).name(), item.graph.node(wait.waits_for).name());
  }
  return waits;
}

// The loop counts to what is computed from y: y is there when it begins.
LoopBuilder WithAllAtTheStart(int seed) {
  LoopBuilder b = Drawing("y_switch:1", seed);
  b.Parse("y = Tanh(x)");
  b.Add("counted", "Size", {"y"}, {OfType(tensorflow::DT_FLOAT)});
  b.Carry("y", "y", "body", tensorflow::DT_FLOAT);
  b.Parse("body = AddV2(y_switch:1, draw); fetch y_exit");
  for (auto& node : *b.item().graph.mutable_node()) {
    if (node.name() == "rounds_in") node.set_input(0, "counted");
  }
  return b;
}

TEST(LoopStarts, WhatIsThereWhenALoopBeginsIsThereInAnyPlan) {
  LoopBuilder b = WithAllAtTheStart(5);
  const Names waits = StartWaits(&b);
  EXPECT_EQ(waits.count({"i_enter", "y"}) + waits.count({"rounds_in", "y"}), 1) << waits.size();
}

TEST(LoopStarts, OtherLoopsMayBeginWithoutIt) {
  LoopBuilder b = WithAllAtTheStart(0);
  EXPECT_EQ(StartWaits(&b), Names());
}

// Two chains of different length: the loop begins with neither.
TEST(LoopStarts, WhatComesLateComesInTheSameOrder) {
  LoopBuilder b = Drawing("y_switch:1");
  b.Parse("first = Tanh(x); y = Sin(first); more = Cos(y); z = Exp(more)");
  b.Carry("y", "y", "body", tensorflow::DT_FLOAT);
  b.Carry("z", "z", "other", tensorflow::DT_FLOAT);
  b.Parse("body = AddV2(y_switch:1, draw); other = Mul(z_switch:1, draw); fetch y_exit, z_exit");
  EXPECT_EQ(StartWaits(&b), Names({{"z", "y"}}));
}

// A branch's Merge decides what runs and is left as it is: what takes it waits.
TEST(LoopStarts, WhatABranchMakesLateEntersInTheSameOrder) {
  LoopBuilder b = Drawing("y_switch:1");
  b.Parse("first = Tanh(x); y = Sin(first); more = Cos(y); p = Placeholder; either = Switch(more, p)");
  b.Parse("yes = Exp(either:1); z = Merge(either, yes); last = Tanh(z)");
  b.Carry("y", "y", "body", tensorflow::DT_FLOAT);
  b.Carry("z", "z", "other", tensorflow::DT_FLOAT);
  b.Carry("w", "last", "third", tensorflow::DT_FLOAT);
  b.Parse("body = AddV2(y_switch:1, draw); other = Mul(z_switch:1, draw); third = Mul(w_switch:1, draw)");
  b.Parse("fetch y_exit, z_exit, w_exit");
  EXPECT_EQ(StartWaits(&b), Names({{"z_enter", "y"}, {"last", "y"}, {"last", "z"}}));
}

}  // namespace
}  // namespace lms
