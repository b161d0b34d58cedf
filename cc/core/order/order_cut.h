// What should have run before an op, so that least is in use while it runs?
//
// Any order splits the ops into those before op p and those after it. The split must hold p's ancestors on one side and
// its descendants on the other; of all others each may be on either side, as long as what an op depends on is on its
// side or earlier. A buffer is held while p runs if it is made before p and read by p or after it. The split with the
// fewest bytes held is a minimum cut. No order at all has less in use while p runs; and if two orders' splits at p and
// at another place are crossed, memory at that other place does not grow (the bytes held are a submodular function):
// so orders are made better by putting such splits into them one by one.

#ifndef LMS_CC_CORE_ORDER_ORDER_CUT_H_
#define LMS_CC_CORE_ORDER_ORDER_CUT_H_

#include <cstdint>
#include <vector>

#include "cc/core/order/order_space.h"

namespace lms {

struct OrderCut {
  std::vector<OpId> postponed;  // run before the op in the order, after it in the cut; in the order's order
  std::vector<OpId> hastened;   // the other way round
  int64_t bytes = 0;            // in use while the op runs then, resident left out
  int64_t bound_bytes = 0;      // in no order less; 0 where the cut was sought in a part of the order only
  int64_t work = 0;
};

// `place` is the inverse of `order`; ops further than `window` places from that of `op` stay on their side. Of equal
// cuts one that moves few ops. Memory and time grow with the window, not with the graph.
class OrderCutter {
 public:
  explicit OrderCutter(const OrderSpace& space);

  // `most_work`: where the cut would take more, none is found.
  OrderCut Find(const std::vector<OpId>& order, const std::vector<int>& place, OpId op, int window, int64_t most_work);

 private:
  enum class Side : char { kFree, kBefore, kAfter };

  const OrderSpace& space_;
  std::vector<Side> side_;  // per op; meaningful in the window only
  std::vector<int> node_;   // per op: in the flow network
  std::vector<int> seen_;   // per buffer: the search that has met it
  int search_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_ORDER_ORDER_CUT_H_
