// The rest of a step, from one of its ops on.

#ifndef LMS_CC_CORE_GRAPH_TAIL_H_
#define LMS_CC_CORE_GRAPH_TAIL_H_

#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

// The ops from `first` on, behind one op that stands for all before them: it makes what of theirs is still wanted.
// Buffers keep their ids; those that are gone by then have no bytes. Memory in use at op i of the tail is that at op
// first - 1 + i of the graph, but for op 0. `graph` is in execution order and 0 < first <= its ops. Linear.
MemGraph TailOf(const MemGraph& graph, OpId first);

// The order of the graph's ops with its tail in the order `tail`, which begins with op 0.
std::vector<OpId> OrderWithTail(OpId first, const std::vector<OpId>& tail);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_TAIL_H_
