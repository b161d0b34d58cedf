// Is the graph one that TensorFlow could run? Asked before anything else looks at it.
//
// Shape inference, cost estimates and the library of functions are TensorFlow's own code, of which parts end the
// process (CHECK) where a graph is not what they expect, and no caller can catch that. A graph that comes from a
// running program passes always; one that another optimizer has left broken is declined here, with the reason, and
// training goes on (or fails with TensorFlow's own message).
//
// Checked of every node, whether it runs or not: names can be referred to and are unique; inputs exist and come before
// control inputs; the op is known; its attributes are there (or have defaults) with values that its OpDef accepts, and
// shapes and constants are no nonsense; inputs are as many as the op takes and of its types; no cycle but through a
// Merge. Of internal ops (their names begin with "_") attributes need only be of the right kind, and be there where the
// types of inputs and outputs depend on them: TensorFlow's own passes make them, and TensorFlow asks no more of these.
//
// A cycle alone is FailedPrecondition, all else InvalidArgument: Grappler's own optimizers leave one now and then (of a
// loop in a branch that is never taken), and TensorFlow then drops all that its optimizers have made of the graph.
// Linear in the graph. Thread-safe.

#ifndef LMS_CC_TF_GRAPH_GRAPH_CHECK_H_
#define LMS_CC_TF_GRAPH_GRAPH_CHECK_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

absl::Status CheckGraph(const tensorflow::GraphDef& graph);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_GRAPH_CHECK_H_
