// By which means a step meets its limit: another order, recomputation, or both.
//
// The cheapest first: an order that meets the limit by itself costs nothing but freedom of the executor. Where none
// does, recomputation is planned in the executor's own order and, if that gains anything, in another one; the cheaper
// plan is taken. The other one has the lowest peak or, where a limit is below what checkpoints reach, the lowest of all
// that cannot be computed again. Where the plan's peak is still too high, behind all that is computed again, the ops
// there are put into another order, and the step is planned once more.
//
// Deterministic, as the planners are. Thread-safe: plain functions of their arguments.

#ifndef LMS_CC_CORE_SEARCH_STRATEGY_H_
#define LMS_CC_CORE_SEARCH_STRATEGY_H_

#include <cstdint>
#include <vector>

#include "cc/core/search/planner.h"

namespace lms {

struct StrategyOptions {
  PlannerOptions planner;
  bool order = true;        // another order than the executor's is allowed
  bool order_alone = true;  // and may do without recomputation where it meets the limit
};

struct Strategy {
  PlannerResult planned;    // for the graph in the order below; its work is that of all that was tried
  std::vector<OpId> order;  // of the ops of the graph that was given; empty: as they are
};

// For a limit in bytes, resident included. planned.feasible is false where no way was found.
Strategy ChooseForLimit(const MemGraph& graph, int64_t limit_bytes, const StrategyOptions& options);

// The lowest peak that was found by any way.
Strategy ChooseForLeastPeak(const MemGraph& graph, const StrategyOptions& options);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_STRATEGY_H_
