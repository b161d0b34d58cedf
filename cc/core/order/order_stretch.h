// A stretch of an order, scheduled anew: beam search over the orders of its ops.
//
// What is before and after the stretch stays, so the same bytes are live at both of its ends. Kept, at every place, are
// the partial orders with the lowest peak so far, of equal ones those with the fewest bytes live; of those that have
// run the same ops, the best. The shorter the stretch, the wider the beam; up to some ten ops the search is nearly
// complete.

#ifndef LMS_CC_CORE_ORDER_ORDER_STRETCH_H_
#define LMS_CC_CORE_ORDER_ORDER_STRETCH_H_

#include <cstdint>
#include <vector>

#include "cc/core/order/order_space.h"

namespace lms {

struct StretchOrder {
  std::vector<OpId> order;  // all of it
  int64_t work = 0;
};

// Places `first` to `last`, both included, are scheduled; `place` is the inverse of `order`.
StretchOrder ReorderStretch(const OrderSpace& space, const std::vector<OpId>& order, const std::vector<int>& place,
                            int first, int last);

}  // namespace lms

#endif  // LMS_CC_CORE_ORDER_ORDER_STRETCH_H_
