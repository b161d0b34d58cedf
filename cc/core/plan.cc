#include "cc/core/plan.h"

#include <algorithm>
#include <utility>

namespace lms {

double Plan::CostUs(const MemGraph& graph) const {
  double cost_us = 0;
  for (const RecomputeStep& step : steps) cost_us += graph.ops[step.op].cost_us;
  return cost_us;
}

std::string ValidatePlan(const MemGraph& graph, const Plan& plan) {
  const OpId n = static_cast<OpId>(graph.ops.size());
  std::pair<OpId, OpId> previous{kNone, kNone};
  for (const RecomputeStep& step : plan.steps) {
    if (step.op < 0 || step.op >= n || step.before < 0 || step.before >= n) return "a step names an op out of range";
    const MemOp& op = graph.ops[step.op];
    if (step.before <= step.op) return op.name + " would be recomputed before it has run";
    if (std::make_pair(step.before, step.op) <= previous) return "the steps are not in order at " + op.name;
    previous = {step.before, step.op};
    if (!op.recomputable) return op.name + " must not be recomputed: " + op.keep_reason;
    if (step.provides.empty()) return op.name + " would be recomputed for nothing";
    for (const BufferId b : step.provides) {
      if (std::find(op.outputs.begin(), op.outputs.end(), b) == op.outputs.end()) {
        return op.name + " does not produce a buffer that it is to provide";
      }
      if (!graph.buffers[b].evictable) return graph.buffers[b].name + " must stay: " + graph.buffers[b].keep_reason;
    }
    for (const BufferId b : op.inputs) {
      for (const OpId writer : graph.buffers[b].overwritten_by) {
        if (writer < step.before) return op.name + " would read " + graph.buffers[b].name + " after it was overwritten";
      }
    }
  }
  return "";
}

}  // namespace lms
