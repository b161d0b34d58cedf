// Where a step turns from computing forwards to visiting what it has saved.

#ifndef LMS_CC_CORE_GRAPH_TURN_H_
#define LMS_CC_CORE_GRAPH_TURN_H_

#include "cc/core/graph/mem_graph.h"

namespace lms {

// The last op of the forward part: the place that most bytes wait across, where each buffer that may be evicted (or may
// not because of a hint) is taken to wait in its widest gap. Where nothing waits, 0. Linear in the graph's reads.
OpId TurnOf(const MemGraph& graph);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_TURN_H_
