// One deterministic execution order, close to the one that TensorFlow's executor takes.
//
// The executor starts a node as soon as its inputs are ready, so ops are taken first come, first served: an op joins
// the queue when its last dependency has run, and ops that become ready together keep the order of the graph. Linear in
// ops and dependencies.

#ifndef LMS_CC_CORE_GRAPH_SCHEDULE_H_
#define LMS_CC_CORE_GRAPH_SCHEDULE_H_

#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

// Ids of all ops in execution order; shorter than the graph when dependencies form a cycle (the ops on it are missing).
std::vector<OpId> ExecutionOrder(const MemGraph& graph);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_SCHEDULE_H_
