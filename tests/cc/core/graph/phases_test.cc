#include "cc/core/graph/phases.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::OutputOf;

constexpr Phase kF = Phase::kForward;
constexpr Phase kB = Phase::kBackward;
constexpr Phase kU = Phase::kUpdate;

TEST(PhasesTest, NamesOfAutomaticDifferentiation) {
  EXPECT_TRUE(IsGradientName("gradient_tape/model/dense/MatMul"));
  EXPECT_TRUE(IsGradientName("StatefulPartitionedCall/gradient_tape/MatMul"));
  EXPECT_TRUE(IsGradientName("gradients/dense/MatMul_grad/MatMul"));
  EXPECT_TRUE(IsGradientName("training/SGD/gradients_1/AddN"));
  EXPECT_FALSE(IsGradientName("model/dense/MatMul"));
  EXPECT_FALSE(IsGradientName("gradients"));  // an op of that name
  EXPECT_FALSE(IsGradientName("clip_gradients/mul"));
  EXPECT_FALSE(IsGradientName("gradientsX/mul"));
  EXPECT_FALSE(IsGradientName(""));
}

// Two layers with a weight each, a loss that is returned, gradients of both, their updates, a moving average that is
// updated in the forward pass, and a learning rate. `name`: of the gradients' scope.
class StepTest : public ::testing::Test {
 protected:
  void Build(const std::string& scope) {
    const BufferId w1 = AddBuffer(&graph_, 10, kNone);
    const BufferId w2 = AddBuffer(&graph_, 10, kNone);
    const BufferId average = AddBuffer(&graph_, 10, kNone);
    const BufferId rate = AddBuffer(&graph_, 4, kNone);
    x1_ = AddOp(&graph_, {w1}, 100);  // layer 1
    average_ = AddOp(&graph_, {OutputOf(graph_, x1_), average}, 10);
    assign_ = AddOp(&graph_, {OutputOf(graph_, average_), average}, 0);
    rate_ = AddOp(&graph_, {rate}, 4);                       // read early
    x2_ = AddOp(&graph_, {OutputOf(graph_, x1_), w2}, 100);  // layer 2
    loss_ = AddOp(&graph_, {OutputOf(graph_, x2_)}, 4);
    graph_.buffers[OutputOf(graph_, loss_)].escapes = true;
    d2_ = AddOp(&graph_, {OutputOf(graph_, x2_)}, 100);  // of the loss
    dw2_ = AddOp(&graph_, {OutputOf(graph_, d2_), OutputOf(graph_, x1_)}, 10);
    d1_ = AddOp(&graph_, {OutputOf(graph_, d2_), w2}, 100);
    dw1_ = AddOp(&graph_, {OutputOf(graph_, d1_)}, 10);
    clip_ = AddOp(&graph_, {OutputOf(graph_, dw1_)}, 10);
    u2_ = AddOp(&graph_, {OutputOf(graph_, dw2_), OutputOf(graph_, rate_), w2}, 0);
    u1_ = AddOp(&graph_, {OutputOf(graph_, clip_), OutputOf(graph_, rate_), w1}, 0);
    graph_.buffers[average].overwritten_by = {assign_};
    graph_.buffers[w1].overwritten_by = {u1_};
    graph_.buffers[w2].overwritten_by = {u2_};
    if (!scope.empty()) {
      for (const OpId op : {d2_, dw2_, d1_, dw1_}) graph_.ops[op].name = scope + "/" + graph_.ops[op].name;
    }
  }

  MemGraph graph_;
  OpId x1_, average_, assign_, rate_, x2_, loss_, d2_, dw2_, d1_, dw1_, clip_, u2_, u1_;
};

TEST_F(StepTest, ByName) {
  Build("gradient_tape");
  //                                              x1  avg assign rate x2  loss d2  dw2 d1  dw1 clip u2  u1
  EXPECT_EQ(PhasesOf(graph_), (std::vector<Phase>{kF, kF, kF, kU, kF, kF, kB, kB, kB, kB, kU, kU, kU}));
}

// Without names what is done to gradients on their way to the update is not told from the backward pass.
TEST_F(StepTest, ByDependency) {
  Build("");
  EXPECT_EQ(PhasesOf(graph_), (std::vector<Phase>{kF, kF, kF, kU, kF, kF, kB, kB, kB, kB, kB, kU, kU}));
}

TEST_F(StepTest, WithoutUpdatesAllIsForward) {
  Build("");
  for (MemBuffer& buffer : graph_.buffers) buffer.overwritten_by.clear();
  EXPECT_EQ(PhasesOf(graph_), std::vector<Phase>(graph_.ops.size(), kF));
}

TEST(PhasesTest, ACounterIsUpdatedWhereverItWaits) {
  MemGraph graph;
  const BufferId counter = AddBuffer(&graph, 8, kNone);
  const OpId x = AddOp(&graph, {}, 100);
  const OpId gradient = AddOp(&graph, {OutputOf(graph, x)}, 100);
  graph.ops[gradient].name = "gradients/x";
  const OpId early = AddOp(&graph, {counter}, 0);
  const OpId late = AddOp(&graph, {counter}, 0);
  graph.ops[late].deps = {gradient};
  graph.buffers[counter].overwritten_by = {early, late};
  EXPECT_EQ(PhasesOf(graph), (std::vector<Phase>{kF, kB, kF, kU}));
}

TEST(PhasesTest, AnEmptyGraphHasNone) { EXPECT_TRUE(PhasesOf(MemGraph()).empty()); }

}  // namespace
}  // namespace lms
