#include "cc/tf/predict/held_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/predict/execution.h"
#include "lms_build_facts.h"
#include "tests/cc/tf/swap_plan.h"

namespace lms {
namespace {

using testing::Imported;
using testing::kGpu;
using testing::SwappedStep;

// Where in the run the op begins or ends.
int At(const std::vector<RunEvent>& run, OpId op, bool ends) {
  const auto same = [&](const RunEvent& event) { return event.op == op && event.ends == ends; };
  EXPECT_EQ(std::count_if(run.begin(), run.end(), same), 1);
  return static_cast<int>(std::find_if(run.begin(), run.end(), same) - run.begin());
}

std::vector<RunEvent> OneByOne(const Imported& step) {
  std::vector<RunEvent> run;
  for (OpId op = 0; op < static_cast<OpId>(step.graph().ops.size()); ++op) {
    run.push_back({op, false});
    run.push_back({op, true});
  }
  return run;
}

std::vector<OpId> WaitersOf(const Imported& step, const std::string& node) {
  std::vector<OpId> waiters;
  for (int i = 0; i < step.index().size(); ++i) {
    const std::vector<int>& controls = step.index()[i].controls;
    const bool waits = std::find(controls.begin(), controls.end(), step.index().Find(node)) != controls.end();
    if (waits) waiters.push_back(step.imported().op_of_node[i]);
  }
  return waiters;
}

TEST(HeldCopiesTest, ASwapOutToTheHostEndsWhereTheFirstNodeBeginsThatWaitsForIt) {
  if (LMS_TF_VERSION_NUMBER < 2021) GTEST_SKIP() << "this TensorFlow has no streams that could wait";
  const Imported step(SwappedStep(kGpu, "host"));
  const std::string name = SwapOutName(0, "tanh_1");
  const OpId out = step.OpOf(name);
  const std::vector<OpId> waiters = WaitersOf(step, name);
  ASSERT_FALSE(waiters.empty());
  const std::vector<RunEvent> run = OneByOne(step);
  const std::vector<RunEvent> held = HeldCopies(step.item().graph, step.index(), step.imported()).HoldIn(run);
  ASSERT_EQ(held.size(), run.size());
  const OpId first = *std::min_element(waiters.begin(), waiters.end());
  ASSERT_GT(first, out + 1);  // others run between
  EXPECT_EQ(At(held, out, /*ends=*/true), At(held, first, /*ends=*/false) - 1);
  EXPECT_LT(At(held, out, /*ends=*/false), At(held, out, /*ends=*/true));
}

TEST(HeldCopiesTest, OneThatNobodyWaitsForEndsWhereItsSwapInBegins) {
  if (LMS_TF_VERSION_NUMBER < 2021) GTEST_SKIP() << "this TensorFlow has no streams that could wait";
  tensorflow::grappler::GrapplerItem item = SwappedStep(kGpu, "host");
  for (tensorflow::NodeDef& node : *item.graph.mutable_node()) {
    auto* const inputs = node.mutable_input();
    inputs->erase(std::remove(inputs->begin(), inputs->end(), "^" + SwapOutName(0, "tanh_1")), inputs->end());
  }
  const Imported step(item);
  const std::vector<RunEvent> run = OneByOne(step);
  const std::vector<RunEvent> held = HeldCopies(step.item().graph, step.index(), step.imported()).HoldIn(run);
  ASSERT_EQ(held.size(), run.size());
  const int begin = At(held, step.OpOf(SwapInName(0, "tanh_1")), /*ends=*/false);
  EXPECT_EQ(At(held, step.OpOf(SwapOutName(0, "tanh_1")), /*ends=*/true), begin - 1);
}

TEST(HeldCopiesTest, OthersEndWhereTheCopyDoes) {
  for (const auto& [device, tier] : {std::pair<std::string, std::string>{kGpu, "disk"}, {testing::kCpu, "host"}}) {
    const Imported step(SwappedStep(device, tier));
    const std::vector<RunEvent> run = OneByOne(step);
    const std::vector<RunEvent> held = HeldCopies(step.item().graph, step.index(), step.imported()).HoldIn(run);
    ASSERT_EQ(held.size(), run.size());
    for (size_t i = 0; i < run.size(); ++i) {
      EXPECT_EQ(held[i].op, run[i].op) << device << " " << tier;
      EXPECT_EQ(held[i].ends, run[i].ends) << device << " " << tier;
    }
  }
}

// However fast the link is said to be.
TEST(HeldCopiesTest, ThePredictionCountsWhatIsHeld) {
  if (LMS_TF_VERSION_NUMBER < 2021) GTEST_SKIP() << "this TensorFlow has no streams that could wait";
  const Imported step(SwappedStep(kGpu, "host"));
  const MemoryProfile profile = PredictMemory(step.item().graph, step.index(), step.imported(), 1);
  const OpId out = step.OpOf(SwapOutName(0, "tanh_1"));
  const std::vector<OpId> waiters = WaitersOf(step, SwapOutName(0, "tanh_1"));
  const auto at = [&](OpId op) { return std::find(profile.order.begin(), profile.order.end(), op); };
  const auto first = std::min_element(waiters.begin(), waiters.end(), [&](OpId a, OpId b) { return at(a) < at(b); });
  ASSERT_LT(at(out), at(*first));
  const int64_t tanh = step.graph().buffers[step.BufferIdOf("tanh_1")].bytes;
  const OpId before = *(at(*first) - 1);
  EXPECT_EQ(profile.op_bytes[*first] - profile.op_bytes[before],
            step.graph().buffers[step.graph().ops[*first].outputs.at(0)].bytes - tanh);
}

}  // namespace
}  // namespace lms
