// What the user's hints (MemBuffer::hint) ask of a plan, carried out before anything else is decided.
//
// A tensor that is to be recomputed, or swapped, is dropped while the step turns from its forward part to its backward
// part (turn.h), whether memory is short or not; one that was named itself and is not held then, in its widest gap. A
// recomputation takes what is gone by then along: of what the user hinted likewise everything; the rest is kept for it,
// but for a tensor that was named itself, whose large inputs are recomputed too. From the last tensor to the first, so
// that a region is computed again as a whole, once, from what was made outside of it.

#ifndef LMS_CC_CORE_SEARCH_HINTED_PLAN_H_
#define LMS_CC_CORE_SEARCH_HINTED_PLAN_H_

#include <string>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/search/plan_state.h"

namespace lms {

struct RefusedHint {
  BufferId buffer = kNone;
  std::string reason;
};

struct AppliedHints {
  std::vector<BufferId> evicted;
  std::vector<RefusedHint> refused;  // of those that were named themselves, or are to be swapped
};

// Are there any that change a plan by themselves?
bool HasEvictionHints(const MemGraph& graph);

// On a state with nothing decided. What it decides is pinned, and no part of the history. O(closures * log n).
AppliedHints ApplyHints(PlanState* state);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_HINTED_PLAN_H_
