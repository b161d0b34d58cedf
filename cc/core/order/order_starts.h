// Whole orders made from scratch, to start the search for a better one from.

#ifndef LMS_CC_CORE_ORDER_ORDER_STARTS_H_
#define LMS_CC_CORE_ORDER_ORDER_STARTS_H_

#include <vector>

#include "cc/core/order/order_space.h"

namespace lms {

// List scheduling: of the ops that may run, the one that adds least to what is in use afterwards; of equal ones the
// first of the graph. So sums are made as their terms arrive, weights are updated as soon as their gradient is there,
// and what makes something large waits. O(n log n) in ops and reads.
std::vector<OpId> LeastGrowthOrder(const OrderSpace& space);

// On demand: the ops that nobody waits for, in the order of the graph, each right after all that it needs and that has
// not run. So branches run one at a time. What it needs runs in the order of the graph, or the largest branch first
// (branches by the bytes that they need at once, less what they leave). Linear, but for sorting.
std::vector<OpId> OnDemandOrder(const OrderSpace& space, bool largest_first);

}  // namespace lms

#endif  // LMS_CC_CORE_ORDER_ORDER_STARTS_H_
