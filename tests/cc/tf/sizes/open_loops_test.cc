// Loops of which only the run decides how often they go round.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cc/core/options/options.h"
#include "cc/core/options/recorded_shapes.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/sizes/dimensions.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tests/cc/tf/loops/gradient_loop_builder.h"

namespace lms {
namespace {

using testing::GradientLoopBuilder;

// What is known of the lists of a loop and its gradient, by what earlier steps have recorded. `change`: of the graph.
struct Known {
  template <typename Change>
  Known(const RecordedShapes& recorded, const Change& change) {
    GradientLoopBuilder b;
    tensorflow::GraphDef graph = b.item().graph;
    change(&graph);
    const tensorflow::grappler::GrapplerItem item = b.item().WithGraph(std::move(graph));
    Options options;
    options.recorded = recorded;
    const Dimensions dimensions(item, options);
    TensorSizes sizes(&dimensions);
    EXPECT_TRUE(sizes.Infer().ok());
    GraphIndex index;
    EXPECT_TRUE(index.Build(item).ok());
    const Loops loops(item.graph, index);
    const TensorLists lists(item.graph, index, sizes, loops);
    forward = lists.Trips(index[index.Find("product")].frame);
    backward = lists.Trips(index[index.Find("slope")].frame);
    std::set<int> groups;
    for (const char* push : {"y_push", "product_push", "squashed_push"}) groups.insert(lists.GroupOf(index.Find(push)));
    known = true;
    bytes = 0;
    for (const int group : groups) {
      known = known && lists.group(group).known;
      bytes += lists.group(group).bytes;
    }
    open = lists.OpenLoops();
    lines = sizes.RecordedLoops();
  }

  int64_t forward;
  int64_t backward;
  bool known;
  int64_t bytes;
  std::vector<TensorLists::OpenLoop> open;
  std::vector<std::string> lines;
};

constexpr int64_t kElement = 256 * 64 * sizeof(float);

// The bound comes with the call.
void Open(tensorflow::GraphDef* graph) {
  tensorflow::NodeDef* const rounds = testing::Node(graph, "rounds");
  rounds->set_op("Placeholder");
  rounds->mutable_attr()->erase("value");
}

TEST(OpenLoops, AConstantBoundIsNotRecorded) {
  const Known known({{TripsKey("cond"), {99}}}, [](tensorflow::GraphDef*) {});
  EXPECT_EQ(known.forward, testing::kRounds);
  EXPECT_TRUE(known.open.empty());
}

TEST(OpenLoops, WhatFillsListsUpToAnOpenEndIsToBeRecorded) {
  const Known known({}, Open);
  EXPECT_EQ(known.forward, -1);
  EXPECT_FALSE(known.known);
  ASSERT_EQ(known.open.size(), 1);  // the gradient fills none
  EXPECT_EQ(known.open[0].loop, "cond");
  EXPECT_EQ(known.open[0].counter, "i_switch");
  // The product, and what is made of it, which is the state of the next iteration.
  EXPECT_EQ(known.open[0].step_bytes, 2 * kElement);
}

TEST(OpenLoops, EarlierStepsTellTheLoopAndItsGradient) {
  const Known known({{TripsKey("cond"), {7}}}, Open);
  EXPECT_EQ(known.forward, 7);
  EXPECT_EQ(known.backward, 7);
  EXPECT_TRUE(known.known);
  EXPECT_EQ(known.bytes, 7 * 2 * kElement);
  ASSERT_EQ(known.open.size(), 1);  // it goes on being recorded
  ASSERT_EQ(known.lines.size(), 1);
  EXPECT_EQ(known.lines[0], "cond = 7 iterations (earlier steps)");
}

TEST(OpenLoops, WithoutACounterThereIsNothingToRecord) {
  const auto by_two = [](tensorflow::GraphDef* graph) {
    Open(graph);
    testing::Node(graph, "i_add")->set_input(1, "i_switch:1");
  };
  EXPECT_TRUE(Known({}, by_two).open.empty());
}

}  // namespace
}  // namespace lms
