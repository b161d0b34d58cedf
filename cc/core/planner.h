// Planning: (MemGraph in execution order, byte limit) -> Plan with the least added time that was found.
//
// Gap eviction. Start from "keep everything". While memory exceeds the limit, evict the gap between two reads of a
// buffer that costs least per byte of excess removed; the buffer is computed again just before its next use, together
// with the inputs that are gone by then (its closure: small inputs are kept longer, others are recomputed too). Finish
// with reverse delete: take recomputations back, dearest first, wherever the limit still holds. Several starts differ
// in how cost is weighed against bytes and in what a closure keeps; the cheapest plan under the limit wins.
//
// Deterministic: the same graph and limit give the same plan, as long as the time limit is not hit (the number of
// starts is fixed, and the clock is only read between them). One start is O(rounds * gaps * closure + changes * log n).

#ifndef LMS_CC_CORE_PLANNER_H_
#define LMS_CC_CORE_PLANNER_H_

#include <cstdint>

#include "cc/core/mem_graph.h"
#include "cc/core/plan.h"

namespace lms {

struct PlannerOptions {
  bool recompute = true;
  bool move = true;    // ops may run later than in the graph's own order where that saves recomputing them
  double seconds = 1;  // no further start begins after this
};

struct PlannerResult {
  Plan plan;
  bool feasible = false;   // peak_bytes <= the limit
  int64_t peak_bytes = 0;  // with the plan, resident included
  double cost_us = 0;      // added by the plan
};

// `limit_bytes` bounds the bytes in use, resident included. Where no plan was found under it, the plan with the lowest
// peak that was met on the way is returned, with feasible == false.
PlannerResult PlanForLimit(const MemGraph& graph, int64_t limit_bytes, const PlannerOptions& options);

// The lowest peak for which a plan was found, and that plan: a search over limits. Always feasible (in the sense that
// its peak is its limit).
PlannerResult PlanForLeastPeak(const MemGraph& graph, const PlannerOptions& options);

// No plan can go below this: the largest amount that a single op needs by itself, resident included.
int64_t LowerBoundBytes(const MemGraph& graph);

}  // namespace lms

#endif  // LMS_CC_CORE_PLANNER_H_
