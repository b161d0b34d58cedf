// Lists that a loop's gradient does without: its body computes their elements again.
//
// The pushes and pops of such a list are made nodes that do nothing, and the list is handed on empty, or made a list of
// other elements that the copies need; where they need more, there are new lists that go the same way. What read an
// element reads the copy of the op that made it: in the gradient's body, on the same device, of what other lists bring
// and of what is the same in all iterations.

#ifndef LMS_CC_TF_LOOPS_RECOMPUTE_IN_LOOPS_H_
#define LMS_CC_TF_LOOPS_RECOMPUTE_IN_LOOPS_H_

#include "absl/status/status.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/loops/kept_lists.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// `graph` is the one that `index` and `cut` were made from. It is changed in place, and useless after a failure.
absl::Status RecomputeInLoops(const ListCut& cut, const GraphIndex& index, tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_RECOMPUTE_IN_LOOPS_H_
