// Recomputations as late as their first readers.
//
// What recomputes a whole stage before the first op that reads any of it holds all of the stage until then. Here each
// step goes just before the first op that reads what it provides, with what it is itself made of: as-late-as-possible
// scheduling, one closure slot after the other.

#ifndef LMS_CC_CORE_SEARCH_DELAY_H_
#define LMS_CC_CORE_SEARCH_DELAY_H_

#include "cc/core/search/plan_state.h"

namespace lms {

// Delays where that costs nothing and the peak from there on does not rise, in one commit per closure slot, from the
// last to the first. O(steps * log n) commits' work. True where anything was delayed.
bool DelayRecomputations(PlanState* state);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_DELAY_H_
