#include "cc/core/graph/plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/core/graph/walk.h"

namespace lms {
namespace {

// Follows a plan and checks that everything is there when it is needed.
class Follower {
 public:
  Follower(const MemGraph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        moved_(MovedOps(graph, plan)),
        ran_(graph.ops.size(), false),
        made_(graph.buffers.size(), false),
        stored_(graph.buffers.size(), false),
        waits_(graph.ops.size(), 0),
        dependents_(graph.ops.size()) {
    for (size_t b = 0; b < graph.buffers.size(); ++b) made_[b] = graph.buffers[b].producer == kNone;
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      for (const OpId dep : graph.ops[i].deps) {
        dependents_[dep].push_back(static_cast<OpId>(i));
        ++waits_[i];
      }
    }
  }

  std::string Check() {
    for (OpId i = 0; i < static_cast<OpId>(graph_.ops.size()); ++i) {
      if (waits_[i] == 0 && IsFree(graph_, i)) Done(i);
    }
    std::string wrong;
    Walk(graph_, plan_, [&](const PlanEvent& event) {
      if (wrong.empty()) wrong = Check(event);
    });
    for (size_t b = 0; b < graph_.buffers.size() && wrong.empty(); ++b) {
      const MemBuffer& buffer = graph_.buffers[b];
      if (buffer.escapes && buffer.producer != kNone && moved_[buffer.producer]) {
        wrong = buffer.name + " outlives the step: what makes it must not be moved";
      }
    }
    return wrong;
  }

 private:
  std::string Check(const PlanEvent& event) {
    switch (event.kind) {
      case PlanEvent::Kind::kSwapOut: {
        const BufferId b = SwappedAt(plan_, event);
        if (!made_[b]) return graph_.buffers[b].name + " would be swapped out before it is made";
        stored_[b] = true;
        return "";
      }
      case PlanEvent::Kind::kSwapIn: {
        const BufferId b = SwappedAt(plan_, event);
        return stored_[b] ? "" : graph_.buffers[b].name + " would be swapped in before it is swapped out";
      }
      case PlanEvent::Kind::kMovedAway:
        return "";
      default:
        return CheckOp(event);
    }
  }

  std::string CheckOp(const PlanEvent& event) {
    const OpId op = OpAt(plan_, event);
    bool first = true;
    if (event.kind == PlanEvent::Kind::kStep) {
      first = plan_.steps[event.index].moves;
      if (first && ran_[op]) return graph_.ops[op].name + " would be moved after it has run";
      if (!first && !ran_[op]) return graph_.ops[op].name + " would be recomputed before it has run";
    } else if (IsFree(graph_, op)) {
      return "";
    }
    std::string wrong = CheckReads(op);
    if (wrong.empty() && first) wrong = First(op);
    if (!wrong.empty()) return wrong;
    for (const BufferId b : MadeAt(graph_, plan_, event)) made_[b] = true;
    ran_[op] = true;
    return "";
  }

  std::string CheckReads(OpId op) const {
    for (const BufferId b : graph_.ops[op].inputs) {
      // What is made later than it is read comes around a loop.
      if (!made_[b] && graph_.buffers[b].producer < op)
        return graph_.buffers[b].name + " is missed by " + graph_.ops[op].name;
    }
    return "";
  }

  std::string First(OpId op) {
    if (waits_[op] > 0) return graph_.ops[op].name + " would run before an op that it waits for";
    Done(op);
    return "";
  }

  // Views and markers run as soon as what they wait for has run.
  void Done(OpId op) {
    std::vector<OpId> done{op};
    for (size_t i = 0; i < done.size(); ++i) {
      for (const OpId dependent : dependents_[done[i]]) {
        if (--waits_[dependent] == 0 && IsFree(graph_, dependent)) done.push_back(dependent);
      }
    }
  }

  const MemGraph& graph_;
  const Plan& plan_;
  std::vector<bool> moved_;
  std::vector<bool> ran_;     // per op
  std::vector<bool> made_;    // per buffer: there is an instance of it
  std::vector<bool> stored_;  // per buffer: it has been swapped out
  std::vector<int> waits_;    // per op: for how many ops that have not run
  std::vector<std::vector<OpId>> dependents_;
};

// What is wrong with the swaps, each by itself.
std::string CheckSwaps(const MemGraph& graph, const Plan& plan) {
  const OpId n = static_cast<OpId>(graph.ops.size());
  const BufferId buffers = static_cast<BufferId>(graph.buffers.size());
  std::pair<OpId, BufferId> previous{kNone, kNone};
  std::vector<bool> out(graph.buffers.size(), false);
  for (const SwapOut& swap : plan.swap_outs) {
    if (swap.buffer < 0 || swap.buffer >= buffers || swap.by < 0 || swap.by >= n) return "a swap-out is out of range";
    const MemBuffer& buffer = graph.buffers[swap.buffer];
    if (std::make_pair(swap.by, swap.buffer) <= previous) return "the swap-outs are not in order at " + buffer.name;
    previous = {swap.by, swap.buffer};
    if (out[swap.buffer]) return buffer.name + " would be swapped out twice";
    out[swap.buffer] = true;
    if (!buffer.swappable || buffer.resident) return buffer.name + " must not be swapped";
    if (buffer.no_more_readers) return "a swap-out would be one reader too many of " + buffer.name;
    if (swap.by == buffer.producer) return buffer.name + " cannot have been swapped out by the op that makes it";
  }
  previous = {kNone, kNone};
  for (const SwapIn& swap : plan.swap_ins) {
    if (swap.buffer < 0 || swap.buffer >= buffers || swap.before < 0 || swap.before >= n) {
      return "a swap-in is out of range";
    }
    const MemBuffer& buffer = graph.buffers[swap.buffer];
    if (std::make_pair(swap.before, swap.buffer) <= previous) return "the swap-ins are not in order at " + buffer.name;
    previous = {swap.before, swap.buffer};
    if (!out[swap.buffer]) return buffer.name + " would be swapped in, but never out";
  }
  return "";
}

}  // namespace

double Plan::CostUs(const MemGraph& graph) const {
  double cost_us = 0;
  for (const RecomputeStep& step : steps) {
    if (!step.moves) cost_us += graph.ops[step.op].cost_us;
  }
  return cost_us;
}

std::vector<bool> MovedOps(const MemGraph& graph, const Plan& plan) {
  std::vector<bool> moved(graph.ops.size(), false);
  for (const RecomputeStep& step : plan.steps) moved[step.op] = moved[step.op] || step.moves;
  return moved;
}

bool IsFree(const MemGraph& graph, OpId op) {
  const MemOp& o = graph.ops[op];
  return o.outputs.empty() &&
         std::all_of(o.inputs.begin(), o.inputs.end(), [&graph](BufferId b) { return graph.buffers[b].resident; });
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
      if (graph.buffers[b].no_more_readers) {
        return op.name + " would be one reader too many of " + graph.buffers[b].name;
      }
      for (const OpId writer : graph.buffers[b].overwritten_by) {
        if (writer < step.before) return op.name + " would read " + graph.buffers[b].name + " after it was overwritten";
      }
    }
  }
  const std::string wrong = CheckSwaps(graph, plan);
  return wrong.empty() ? Follower(graph, plan).Check() : wrong;
}

}  // namespace lms
