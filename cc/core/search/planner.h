// Planning: (MemGraph in execution order, byte limit) -> Plan with the least added time that was found.
//
// Several starts (plan_starts.h), then local search from the best of them:
//   - gap eviction (gap_eviction.h) from "keep everything" under rules that weigh cost and bytes differently;
//   - optimal checkpointing over the chain of stages (checkpoint_chain.h), for this limit and for larger ones with gap
//     eviction on top: coarse decisions for a part of the excess, fine ones for the rest;
//   - local search (local_search.h).
// Every start ends with reverse delete. What is found is simulated afresh with the plain simulator (liveness.h).
//
// Deterministic: the same graph, limit and options give the same plan on any machine. Work is counted, never timed
// (work_meter.h): where it is used up the best plan so far is the result. Where one limit cannot be met by the starts
// up to one and a half times as much comes on top, in search of the lowest peak.

#ifndef LMS_CC_CORE_SEARCH_PLANNER_H_
#define LMS_CC_CORE_SEARCH_PLANNER_H_

#include <cstdint>

#include "cc/core/base/work_meter.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"
#include "cc/core/graph/swap_link.h"

namespace lms {

struct PlannerOptions {
  bool recompute = true;
  bool move = true;               // ops may run later than in the graph's own order where that saves recomputing them
  int64_t work = kWorkPerSecond;  // for one plan: the starts, and local search with what they have left of it
  bool single_start = false;      // gap eviction once, no more
  SwapLink link = {};             // usable(): swapping is allowed
  SwapRules swap_rules = {};
};

// Options with as much work as is done in these seconds.
PlannerOptions PlannerOptionsFor(double seconds);

struct PlannerResult {
  Plan plan;
  bool feasible = false;   // peak_bytes <= the limit
  int64_t peak_bytes = 0;  // with the plan, resident included
  double cost_us = 0;      // added by the plan: by recomputations, stalls, and copies that take processors from the ops
  double stall_us = 0;     // of these, waiting for transfers
  double transfer_us = 0;  // that the link is busy; all but stall_us of it is hidden
  double bound_us = 0;     // no plan under the limit adds less (lower_bound.h); 0: nothing is known
  int64_t work = 0;        // done: what planning took, on any machine
};

// `limit_bytes` bounds the bytes in use, resident included. Where no plan was found under it, the plan with the lowest
// peak that was met on the way is returned, with feasible == false.
PlannerResult PlanForLimit(const MemGraph& graph, int64_t limit_bytes, const PlannerOptions& options);

// The lowest peak for which a plan was found, and that plan: a search over limits. Always feasible (in the sense that
// its peak is its limit).
PlannerResult PlanForLeastPeak(const MemGraph& graph, const PlannerOptions& options);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_PLANNER_H_
