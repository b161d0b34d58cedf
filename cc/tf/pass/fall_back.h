// What follows where no plan holds the budget: plans for less, or of another kind.

#ifndef LMS_CC_TF_PASS_FALL_BACK_H_
#define LMS_CC_TF_PASS_FALL_BACK_H_

#include <cstdint>

#include "cc/tf/pass/try_plans.h"

namespace lms {

// What would have to be asked for, at least: what a plan for the least takes that is rewritten and verified, like any
// other. With as much work as a search for it has that comes after plans for a budget.
int64_t LeastPeak(const Planning& planning);

// Does `best` add far more time than the plan that came nearest, which there is?
bool AddsFarMore(const BudgetResult& best, const Tried& tried);

// `best` holds, what was tried did not: the plan of least added time in between, by halving. There is work for another
// plan as long as it would pay in ten steps if it added no more than the one that came nearest.
BudgetResult Between(const Planning& planning, BudgetResult best, const Tried& tried);

// `best`, or a plan without swaps that holds the budget and adds less time. What is swapped comes back before it is
// read, into the pieces that are free then: recomputation alone may find room where both together do not. Looked for
// where `best` does not hold, or adds far more than the plan that came nearest, which there is. What does not hold is
// kept.
BudgetResult OrWithoutSwaps(const Planning& planning, BudgetResult best, Tried* tried);

// What holds for less: the least, with as much work as if it had been asked for, then what lies between it and what did
// not hold. Where room is short in one piece alone, plans that leave other pieces: above the least, and without swaps.
// Where none of these holds: what comes nearest, if `may_miss`, else `infeasible`.
BudgetResult FallBack(const Planning& planning, bool may_miss, Tried tried, BudgetResult infeasible);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_FALL_BACK_H_
