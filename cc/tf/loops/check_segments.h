// Is a graph whose gradients of loops fill their lists a segment at a time the same computation as the graph that came?
//
// Nothing of what made it is trusted: both graphs are read afresh.

#ifndef LMS_CC_TF_LOOPS_CHECK_SEGMENTS_H_
#define LMS_CC_TF_LOOPS_CHECK_SEGMENTS_H_

#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// An error says what is unsound. A node of the old graph must be what it was, in the loop and branch where it was, and
// read what it read, but for lists that lead from a loop to its gradient: nothing is pushed on them any more, and what
// is popped comes out of a loop within the gradient, which begins at the iteration e * k where iteration t of the
// gradient belongs to segment e = t / k, with the state that the forward loop stored there, runs the ops of the forward
// body, and pushes in each iteration what was pushed in that of the same number. Throws TooMuch where the deadline
// passes.
absl::Status CheckSegments(const tensorflow::GraphDef& before, const GraphIndex& old_index,
                           const tensorflow::GraphDef& after, const GraphIndex& new_index,
                           const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_CHECK_SEGMENTS_H_
