// Rewritten graphs are run: the same bits as before, in the memory that was asked for.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "cc/tf/runtime/memory_counter.h"
#include "cc/tf/verify/verify.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session.h"
#include "tensorflow/core/public/version.h"
#include "tests/cc/tf/swap_plan.h"

namespace lms {
namespace {

using tensorflow::Tensor;
using testing::GraphBuilder;
using testing::Imported;
using testing::kTile;
using testing::Swapped;

constexpr int kLayers = 12;

struct Outcome {
  std::string bits;        // of the loss in each step, and of the weights after the last one
  int64_t peak_bytes = 0;  // of the steps after the first, over what was in use before
};

// Trains a TrainChain for three steps, on so many threads of each kind.
Outcome Train(tensorflow::GraphDef graph, int threads) {
  GraphBuilder more;
  more.item().graph = std::move(graph);
  std::vector<std::string> init;
  std::vector<std::string> updates;
  std::vector<std::string> weights;
  more.ShapeConstant("init/shape", {64, 64});
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i);
    more.Add("init/value_" + n, "RandomUniform", {"init/shape"},
             {testing::Type("T", tensorflow::DT_INT32), testing::Float32("dtype"), testing::Int("seed", i + 1),
              testing::Int("seed2", 5)});
    more.Add("init/" + n, "AssignVariableOp", {"w_" + n, "init/value_" + n}, {testing::Float32("dtype")});
    more.Read("after_" + n, "w_" + n);
    init.push_back("init/" + n);
    updates.push_back("update_" + n);
    weights.push_back("after_" + n);
  }
  tensorflow::SessionOptions options;
  options.config.set_intra_op_parallelism_threads(threads);
  options.config.set_inter_op_parallelism_threads(threads);
  options.config.set_use_per_session_threads(true);
  auto* graph_options = options.config.mutable_graph_options();
  graph_options->mutable_rewrite_options()->set_disable_meta_optimizer(true);
  graph_options->mutable_optimizer_options()->set_opt_level(tensorflow::OptimizerOptions::L0);
  const std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(options));
  Outcome run;
  const auto expect_ok = [](const absl::Status& status) { ASSERT_TRUE(status.ok()) << status.message(); };
  more.item().graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
  expect_ok(session->Create(more.item().graph));
  expect_ok(session->Run({}, {}, init, nullptr));
  Tensor x(tensorflow::DT_FLOAT, tensorflow::TensorShape({256, 64}));
  for (int i = 0; i < x.NumElements(); ++i) x.flat<float>()(i) = static_cast<float>(i % 97) / 97 - 0.5F;
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> loss;
    const int64_t before = BytesInUse();
    ResetPeak();
    expect_ok(session->Run({{"x", x}}, {"loss:0"}, updates, &loss));
    if (loss.empty()) return run;
    if (step > 0) run.peak_bytes = std::max(run.peak_bytes, PeakBytes() - before);
    run.bits += std::string(loss[0].tensor_data());
  }
  std::vector<Tensor> after;
  expect_ok(session->Run({}, weights, {}, &after));
  for (const Tensor& weight : after) run.bits += std::string(weight.tensor_data());
  return run;
}

class RunSwaps : public ::testing::Test {
 protected:
  RunSwaps() : step_(testing::TrainChain(kLayers)) {
    EXPECT_EQ(StartCounting(), "");
    options_.enforce_order = true;
    options_.swap.tier = "disk";
    link_.out_bytes_per_us = link_.in_bytes_per_us = 2000;
  }

  void Check(const Swapped& out, int threads) {
    ASSERT_TRUE(out.status.ok()) << out.status.message();
    MemoryProfile profile;
    const absl::Status status =
        VerifyRewrite(step_.item(), step_.index(), out.item, step_.sizes(), threads, link_, &profile);
    ASSERT_TRUE(status.ok()) << status.message();
    predicted_bytes_ = profile.peak_bytes - profile.resident_bytes;
    const Outcome before = Train(step_.item().graph, threads);
    const Outcome after = Train(out.item.graph, threads);
    EXPECT_GT(before.bits.size(), 3 * sizeof(float));
    EXPECT_TRUE(before.bits == after.bits);
    before_bytes_ = before.peak_bytes;
    after_bytes_ = after.peak_bytes;
  }

  Imported step_;
  RewriteOptions options_;
  SwapLink link_;
  int64_t predicted_bytes_ = 0;
  int64_t before_bytes_ = 0;
  int64_t after_bytes_ = 0;
};

TEST_F(RunSwaps, APlanByHand) {
  Plan plan;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    plan.swap_outs.push_back({step_.OpOf("tanh_" + std::to_string(i + 2)), step_.BufferIdOf("tanh_" + n)});
  }
  for (int i = 5; i >= 0; --i) {
    plan.swap_ins.push_back(
        {step_.OpOf("tanh_grad_" + std::to_string(i + 2)), step_.BufferIdOf("tanh_" + std::to_string(i))});
  }
  Check(Swapped(step_, plan, options_), 1);
  EXPECT_LE(after_bytes_, before_bytes_ - 3 * kTile);
}

TEST_F(RunSwaps, APlanOfThePlannersStaysUnderItsLimit) {
  PlannerOptions planner;
  planner.recompute = false;
  planner.move = false;
  planner.link = link_;
  const MemoryProfile before = Simulate(step_.graph(), Plan());
  const int64_t activations = before.peak_bytes - before.resident_bytes;
  const int64_t limit = before.resident_bytes + activations * 6 / 10;
  const PlannerResult planned = PlanForLimit(step_.graph(), limit, planner);
  ASSERT_TRUE(planned.feasible);
  ASSERT_FALSE(planned.plan.swap_outs.empty());
  options_.order_limit_bytes = limit;
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(threads);
    Check(Swapped(step_, planned.plan, options_), threads);
    // Beside the activations: numbers of a few bytes.
    EXPECT_GE(before_bytes_, activations);
    EXPECT_LE(after_bytes_, limit - before.resident_bytes + 4096);
    EXPECT_LE(predicted_bytes_, limit - before.resident_bytes + 4096);
  }
}

// Layers 3, 6 and 9 are computed again from what comes back of the layers before them.
TEST_F(RunSwaps, RecomputationsReadWhatComesBack) {
  Plan plan;
  const auto name = [](const std::string& op, int layer) { return op + "_" + std::to_string(layer); };
  for (const int i : {3, 6, 9}) {
    plan.swap_outs.push_back({step_.OpOf(name("tanh", i)), step_.BufferIdOf(name("tanh", i - 1))});
  }
  for (const int i : {9, 6, 3}) {
    plan.swap_ins.push_back({step_.OpOf(name("tanh_grad", i + 1)), step_.BufferIdOf(name("tanh", i - 1))});
    for (const std::string& op : {name("matmul", i), name("tanh", i)}) {
      plan.steps.push_back({step_.OpOf(name("weight_grad", i + 1)), step_.OpOf(op), {step_.BufferIdOf(op)}});
    }
  }
  const Swapped out(step_, plan, options_);
  Check(out, 1);
  EXPECT_TRUE(out.Has(RecomputeName(0, "matmul_9"), SwapInName(0, "tanh_8")));
  EXPECT_LE(after_bytes_, before_bytes_ - 4 * kTile);
}

}  // namespace
}  // namespace lms
