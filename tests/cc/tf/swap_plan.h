// Plans with swaps, by names, and graphs that they are applied to.

#ifndef LMS_TESTS_CC_TF_SWAP_PLAN_H_
#define LMS_TESTS_CC_TF_SWAP_PLAN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/plan.h"
#include "cc/tf/rewrite/rewrite.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::testing {

// Output `port` of a node is out by an op, or back before an op.
struct Out {
  std::string tensor;
  std::string by;
  int port = 0;
};
struct In {
  std::string tensor;
  std::string before;
  int port = 0;
};
// The node runs again before an op, for its output 0.
struct Again {
  std::string op;
  std::string before;
};

inline Plan SwapPlan(const Imported& step, const std::vector<Out>& outs, const std::vector<In>& ins,
                     const std::vector<Again>& again = {}) {
  Plan plan;
  for (const Out& o : outs) plan.swap_outs.push_back({step.OpOf(o.by), step.BufferIdOf(o.tensor, o.port)});
  for (const In& i : ins) plan.swap_ins.push_back({step.OpOf(i.before), step.BufferIdOf(i.tensor, i.port)});
  for (const Again& a : again) plan.steps.push_back({step.OpOf(a.before), step.OpOf(a.op), {step.BufferIdOf(a.op)}});
  return plan;
}

struct Swapped {
  Swapped(const Imported& step, const Plan& plan, const RewriteOptions& options = RewriteOptions())
      : item(step.item()) {
    status = RewriteGraph(step.imported(), step.index(), plan, options, &item.graph, &result);
  }
  bool Has(const std::string& node, const std::string& input) const { return HasInput(item.graph, node, input); }
  const tensorflow::NodeDef* Find(const std::string& name) const { return FindNode(item.graph, name); }
  int64_t Deadline(const std::string& name) const { return Find(name)->attr().at("deadline").i(); }

  tensorflow::grappler::GrapplerItem item;
  RewriteResult result;
  absl::Status status;
};

inline constexpr char kGpu[] = "/job:localhost/replica:0/task:0/device:GPU:0";

// A step that swaps tanh_1 from tanh_2 to weight_grad_2, on the device.
inline tensorflow::grappler::GrapplerItem SwappedStep(const std::string& device, const std::string& tier) {
  const Imported step(TrainChain(3));
  RewriteOptions options;
  options.swap.tier = tier;
  options.enforce_order = true;
  Swapped out(step, SwapPlan(step, {{"tanh_1", "tanh_2"}}, {{"tanh_1", "weight_grad_2"}}), options);
  EXPECT_TRUE(out.status.ok()) << out.status.message();
  for (tensorflow::NodeDef& node : *out.item.graph.mutable_node()) node.set_device(device);
  return out.item;
}

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_SWAP_PLAN_H_
