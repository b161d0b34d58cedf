#include "cc/core/graph/walk.h"

namespace lms {

std::vector<PlanEvent> EventsOf(const MemGraph& graph, const Plan& plan) {
  std::vector<PlanEvent> events;
  events.reserve(graph.ops.size() + plan.steps.size() + plan.swap_ins.size() + plan.swap_outs.size());
  Walk(graph, plan, [&events](const PlanEvent& event) { events.push_back(event); });
  return events;
}

}  // namespace lms
