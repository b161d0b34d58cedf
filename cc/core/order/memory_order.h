// Order as a way to save memory: the same ops in an order with a lower peak.
//
// Starting from the order that the graph comes in (what the executor does by itself), the place where most is in use is
// relieved: the best split of the ops into before and after (order_cut.h) is put into the order there, by postponing
// what makes large things that nobody needs yet, and by hastening what is the last to read others. It is kept if less
// is above the limit than before, over the whole step. So the result differs from the order given only where the limit
// needs it to. Where this gets stuck, stretches of the order around the peak are scheduled anew (order_stretch.h), and
// other orders are started from (order_starts.h).
//
// Deterministic; work is counted in steps of some nanoseconds, never timed. Results are what Simulate (liveness.h)
// says. Never worse than the order given: where nothing better is found, that is the result. Thread-safe.

#ifndef LMS_CC_CORE_ORDER_MEMORY_ORDER_H_
#define LMS_CC_CORE_ORDER_MEMORY_ORDER_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

// Work that is done in a second, on a machine that is not fast.
inline constexpr int64_t kOrderWorkPerSecond = 100000000;

struct MemoryOrder {
  std::vector<OpId> order;  // for Reordered(); the ops as they are where nothing better was found
  int64_t peak_bytes = 0;   // in this order, resident included
  int64_t bound_bytes = 0;  // no order is known to be possible below this, resident included
  bool changed = false;     // the order is another one than the graph's
  bool feasible = false;    // peak_bytes <= the limit
  int64_t work = 0;         // done
};

// An order whose peak is at most `limit_bytes` (resident included), close to the graph's own; where none was found, the
// one with the lowest peak that was met on the way.
MemoryOrder OrderForLimit(const MemGraph& graph, int64_t limit_bytes, int64_t work = kOrderWorkPerSecond / 4);

// The lowest peak that was found for any order. Always feasible.
MemoryOrder OrderForLeastPeak(const MemGraph& graph, int64_t work = kOrderWorkPerSecond / 4);

}  // namespace lms

#endif  // LMS_CC_CORE_ORDER_MEMORY_ORDER_H_
