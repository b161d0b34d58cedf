// What has entered a loop when it begins, and what comes later.
//
// TensorFlow begins a loop as soon as what it goes on by is there; the rest may enter later. Where results depend on
// how far iterations run ahead of one another (Loops::DependsOnOverlap()), they depend on what comes late, too: numbers
// that several iterations draw from one kernel are drawn in the order in which these get so far. So what is there at
// first in the graph as it came must be there in a rewritten one, and what comes late must come in the same order.

#ifndef LMS_CC_TF_STOCK_LOOP_STARTS_H_
#define LMS_CC_TF_STOCK_LOOP_STARTS_H_

#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/stock/node_wait.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Waits for the nodes that make what enters such loops: of an Enter that the loop goes on by for those that are there
// when it begins, and of each that is late for the one before; as it is in most of several runs of the executor's
// model. Where a control-flow node makes what is late, the Enters that take it wait in its place. None where runs
// differ, or for loops within loops. Linear in the graph, for each run; nothing is run where there is no such loop.
// Throws TooMuch where the deadline passes.
std::vector<NodeWait> FindStartWaits(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops,
                                     bool onednn, const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_LOOP_STARTS_H_
