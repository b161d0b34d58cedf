#include "cc/core/plan.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lms {
namespace {

// Per step: may it move its op? It must be the op's first one, nothing may read the op's results before it, and it must
// provide every result that anybody reads.
std::vector<bool> PossibleMoves(const MemGraph& graph, const Plan& plan) {
  std::vector<int> first_step(graph.ops.size(), -1);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    int& first = first_step[plan.steps[s].op];
    if (first < 0) first = static_cast<int>(s);
  }
  std::vector<bool> possible(plan.steps.size(), false);
  for (const int s : first_step) {
    if (s >= 0) possible[s] = true;
  }
  const auto forbid = [&](BufferId b, OpId reader_place, OpId reader) {
    const OpId producer = graph.buffers[b].producer;
    if (producer == kNone || first_step[producer] < 0) return;
    const RecomputeStep& step = plan.steps[first_step[producer]];
    const bool provided = std::find(step.provides.begin(), step.provides.end(), b) != step.provides.end();
    // Within one closure slot steps run in the order of their ops, and ops come after all steps of their slot.
    const bool after = reader_place > step.before || (reader_place == step.before && reader > step.op);
    if (!provided || !after) possible[first_step[producer]] = false;
  };
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (const BufferId b : graph.ops[i].inputs) forbid(b, static_cast<OpId>(i), static_cast<OpId>(i));
  }
  for (const RecomputeStep& step : plan.steps) {
    for (const BufferId b : graph.ops[step.op].inputs) forbid(b, step.before, step.op);
  }
  // Nor may an op that waits for it in another way come before. Views may: they wait with it, and whoever waits for
  // them.
  std::vector<std::vector<OpId>> hangs_on(graph.ops.size());  // per view: the moved ops that it waits for
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const OpId op = static_cast<OpId>(i);
    std::vector<OpId> moved;
    for (const OpId dep : graph.ops[i].deps) {
      if (first_step[dep] >= 0) moved.push_back(dep);
      moved.insert(moved.end(), hangs_on[dep].begin(), hangs_on[dep].end());
    }
    if (IsFree(graph, op)) {
      std::sort(moved.begin(), moved.end());
      moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
      hangs_on[i] = std::move(moved);
      continue;
    }
    for (const OpId m : moved) {
      if (op < plan.steps[first_step[m]].before) possible[first_step[m]] = false;
    }
  }
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const BufferId b : graph.ops[plan.steps[s].op].outputs) {
      if (graph.buffers[b].escapes) possible[s] = false;
    }
  }
  return possible;
}

// Takes out what no op and no other step reads: true if there was any.
bool DropUnread(const MemGraph& graph, Plan* plan) {
  std::vector<bool> moved(graph.ops.size(), false);
  for (const RecomputeStep& step : plan->steps) moved[step.op] = moved[step.op] || step.moves;
  std::vector<int> newest(graph.buffers.size(), -1);  // the step that made the newest instance
  std::vector<std::vector<BufferId>> read(plan->steps.size());
  const auto note_reads = [&](OpId op) {
    for (const BufferId b : graph.ops[op].inputs) {
      if (newest[b] >= 0) read[newest[b]].push_back(b);
    }
  };
  size_t next = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (; next < plan->steps.size() && plan->steps[next].before == static_cast<OpId>(i); ++next) {
      note_reads(plan->steps[next].op);
      for (const BufferId b : plan->steps[next].provides) newest[b] = static_cast<int>(next);
    }
    if (!moved[i]) note_reads(static_cast<OpId>(i));
  }
  bool any = false;
  std::vector<RecomputeStep> kept;
  for (size_t s = 0; s < plan->steps.size(); ++s) {
    RecomputeStep step = plan->steps[s];
    std::vector<BufferId> provides;
    for (const BufferId b : step.provides) {
      if (std::find(read[s].begin(), read[s].end(), b) != read[s].end()) provides.push_back(b);
    }
    any |= provides.size() != step.provides.size();
    step.provides = std::move(provides);
    if (!step.provides.empty()) kept.push_back(std::move(step));
  }
  plan->steps = std::move(kept);
  return any;
}

}  // namespace

double Plan::CostUs(const MemGraph& graph) const {
  double cost_us = 0;
  for (const RecomputeStep& step : steps) {
    if (!step.moves) cost_us += graph.ops[step.op].cost_us;
  }
  return cost_us;
}

bool IsFree(const MemGraph& graph, OpId op) {
  const MemOp& o = graph.ops[op];
  return o.outputs.empty() &&
         std::all_of(o.inputs.begin(), o.inputs.end(), [&graph](BufferId b) { return graph.buffers[b].resident; });
}

void MarkMoves(const MemGraph& graph, Plan* plan) {
  do {
    const std::vector<bool> possible = PossibleMoves(graph, *plan);
    for (size_t s = 0; s < plan->steps.size(); ++s) plan->steps[s].moves = possible[s];
    // What served only the first run of a moved op is not read any more.
  } while (DropUnread(graph, plan));
}

std::string ValidatePlan(const MemGraph& graph, const Plan& plan) {
  const OpId n = static_cast<OpId>(graph.ops.size());
  for (const RecomputeStep& step : plan.steps) {
    if (step.op < 0 || step.op >= n || step.before < 0 || step.before >= n) return "a step names an op out of range";
  }
  const std::vector<bool> may_move = PossibleMoves(graph, plan);
  std::pair<OpId, OpId> previous{kNone, kNone};
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const RecomputeStep& step = plan.steps[s];
    if (step.moves && !may_move[s]) return graph.ops[step.op].name + " is missed before the place it was moved to";
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
      if (graph.buffers[b].no_more_readers)
        return op.name + " would be one reader too many of " + graph.buffers[b].name;
      for (const OpId writer : graph.buffers[b].overwritten_by) {
        if (writer < step.before) return op.name + " would read " + graph.buffers[b].name + " after it was overwritten";
      }
    }
  }
  return "";
}

}  // namespace lms
