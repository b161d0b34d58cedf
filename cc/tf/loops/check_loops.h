// Is a graph whose gradients of loops compute elements of lists again the same computation as the graph that came?
//
// Nothing of what made it is trusted: both graphs are indexed, and the lists of the new one found, afresh.

#ifndef LMS_CC_TF_LOOPS_CHECK_LOOPS_H_
#define LMS_CC_TF_LOOPS_CHECK_LOOPS_H_

#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// An error says what is unsound. A node of the old graph must be what it was, in the loop and branch where it was, and
// read what it read, but for readers of elements of lists: these may read another value that is the same in each
// iteration, as what is said to compute it again does so by the same ops of the same values, which other lists bring,
// or which do not change in the loop. Pushes and pops may have become nodes that do nothing. Added nodes, behind the
// others, run in bodies of gradients alone. Throws TooMuch where the deadline passes.
absl::Status CheckLoops(const tensorflow::GraphDef& before, const GraphIndex& old_index,
                        const tensorflow::GraphDef& after, const GraphIndex& new_index,
                        const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_CHECK_LOOPS_H_
