// Repeated blocks: which buffers play the same part in equal layers of a network?
//
// Two ops are alike when they have the same type, cost, flags and output sizes, and so have what they read and who
// reads them, a few steps around (colour refinement, after Weisfeiler and Leman). Buffers that alike ops make in the
// same place form a group. A decision for one of a group can be made for all of it: a network of 200 equal blocks is
// planned like one of a few.

#ifndef LMS_CC_CORE_GRAPH_REPEATS_H_
#define LMS_CC_CORE_GRAPH_REPEATS_H_

#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

// Groups of evictable buffers, each in order of production; single ones are groups of one. Sorted by first member.
// Near linear in ops and reads.
std::vector<std::vector<BufferId>> FindRepeats(const MemGraph& graph);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_REPEATS_H_
