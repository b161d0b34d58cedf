// Local search: brings a plan under a byte limit, where greedy ways fail, and makes it cheaper.
//
// Again and again a part of the plan is taken back (the recomputations of a stretch of time, or of some neighbouring
// ops), the excess that this brings is evicted anew with random noise in the scores, and reverse delete follows. A
// result that is cheaper is kept; one that is a little dearer is kept too while the search is young (simulated
// annealing). Large neighbourhood search after Shaw, "Using constraint programming and local search methods to solve
// vehicle routing problems", 1998.
//
// Deterministic for a seed and an amount of work; work is counted, not seconds.

#ifndef LMS_CC_CORE_SEARCH_LOCAL_SEARCH_H_
#define LMS_CC_CORE_SEARCH_LOCAL_SEARCH_H_

#include <cstdint>
#include <functional>

#include "cc/core/graph/plan.h"
#include "cc/core/search/plan_state.h"

namespace lms {

struct LocalSearchLimits {
  int64_t work = 0;       // that may be done (PlanState::work())
  double enough_us = 0;   // stop at this cost: nothing is left to gain
  bool recompute = true;  // allowed beside swapping
  SwapRules swap_rules;
  std::function<bool()> interrupt;  // asked between two attempts; stops the search
};

// Improves the state's plan: below `limit` (resident excluded) first, then cheaper. Afterwards the state has the best
// plan found, and no history. Returns the work done.
int64_t ImproveLocally(PlanState* state, int64_t limit, uint64_t seed, const LocalSearchLimits& limits);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_LOCAL_SEARCH_H_
