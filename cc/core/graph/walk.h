// What happens in a step while a plan is carried out, one event after the other: the one place that says in which
// order.
//
// Just before op i come the swap-ins before it, then the steps before it; then op i itself, unless a step moves it;
// after it the swap-outs that must have ended by it. Whoever validates, simulates, applies or shows a plan walks so.
//
// Pure functions; linear in the ops and the plan. The plan's lists are sorted and in range (plan.h).

#ifndef LMS_CC_CORE_GRAPH_WALK_H_
#define LMS_CC_CORE_GRAPH_WALK_H_

#include <cstddef>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"

namespace lms {

struct PlanEvent {
  enum class Kind {
    kOp,         // an op at its own place
    kMovedAway,  // the place of an op that a step moves: nothing runs
    kStep,
    kSwapIn,
    kSwapOut,
  };

  Kind kind;
  int index;   // of the op, or in the plan's list of that kind
  OpId place;  // the op before, at or after which it happens

  // Does it run an op, at its own place or again?
  bool Runs() const { return kind == Kind::kOp || kind == Kind::kStep; }
};

// The op that the event runs; kNone where it runs none.
inline OpId OpAt(const Plan& plan, const PlanEvent& event) {
  if (event.kind == PlanEvent::Kind::kOp) return event.index;
  return event.kind == PlanEvent::Kind::kStep ? plan.steps[event.index].op : kNone;
}

// The buffer that the event swaps; kNone where it swaps none.
inline BufferId SwappedAt(const Plan& plan, const PlanEvent& event) {
  if (event.kind == PlanEvent::Kind::kSwapIn) return plan.swap_ins[event.index].buffer;
  return event.kind == PlanEvent::Kind::kSwapOut ? plan.swap_outs[event.index].buffer : kNone;
}

// The buffers that get a new instance from an event that runs an op.
inline const std::vector<BufferId>& MadeAt(const MemGraph& graph, const Plan& plan, const PlanEvent& event) {
  return event.kind == PlanEvent::Kind::kStep ? plan.steps[event.index].provides : graph.ops[event.index].outputs;
}

// Calls visit(event) for each event.
template <typename Visit>
void Walk(const MemGraph& graph, const Plan& plan, const Visit& visit) {
  using Kind = PlanEvent::Kind;
  const std::vector<bool> moved = MovedOps(graph, plan);
  size_t step = 0;
  size_t in = 0;
  size_t out = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    for (; in < plan.swap_ins.size() && plan.swap_ins[in].before == op; ++in) {
      visit(PlanEvent{Kind::kSwapIn, static_cast<int>(in), op});
    }
    for (; step < plan.steps.size() && plan.steps[step].before == op; ++step) {
      visit(PlanEvent{Kind::kStep, static_cast<int>(step), op});
    }
    visit(PlanEvent{moved[op] ? Kind::kMovedAway : Kind::kOp, op, op});
    for (; out < plan.swap_outs.size() && plan.swap_outs[out].by == op; ++out) {
      visit(PlanEvent{Kind::kSwapOut, static_cast<int>(out), op});
    }
  }
}

// All events, in order.
std::vector<PlanEvent> EventsOf(const MemGraph& graph, const Plan& plan);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_WALK_H_
