// Gives the gradients of loops a loop of their own, which fills lists for a segment of iterations at a time.
//
// Forward loop: a counter; for each state a list, in which iteration t stores the state at (t + k - 1) / k, so that
// what stays at e is the state of iteration e * k; pushes of what nothing computes again alone. Gradient: the same
// counter, downwards; before the pops a loop, which goes on from the iteration that the lists end with, up to the one
// whose turn it is: through none where the lists hold it, through all of the segment where they are empty.

#ifndef LMS_CC_TF_LOOPS_RECOMPUTE_SEGMENTS_H_
#define LMS_CC_TF_LOOPS_RECOMPUTE_SEGMENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/loops/segments.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// `graph` is the one that `index` and `loops` were made from. It is changed in place, and useless after a failure.
absl::Status RecomputeSegments(const std::vector<LoopSegments>& loops, const GraphIndex& index,
                               tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_RECOMPUTE_SEGMENTS_H_
