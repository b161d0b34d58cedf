// Keeps what has an effect running when what waited for it no longer runs.
//
// A first run is left out where all of its readers have moved on to recomputations, which take over no control inputs.
// An Assert that nothing but this first run waited for would be left out with it, and the step would no longer check.
// Such a node is waited for by what reads in place of the first run.

#ifndef LMS_CC_TF_REWRITE_EFFECTS_H_
#define LMS_CC_TF_REWRITE_EFFECTS_H_

#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// `graph` is a rewrite of the graph that `index` is of: its nodes, then those that were added. `order` has the nodes
// that run, in an order that all edges of the rewrite agree with. Each node that must run once as it is
// (WhyNotRecomputable), ran before and does not any more, becomes a control input of the nearest stand-in of what
// waited for it: a recomputation of that, the first in the plan, or a reader that has been given something else to
// read. That comes later in the order, so no edge closes a cycle. Linear in the graph, and in the first runs left out
// for each such node. Throws TooMuch where the deadline passes.
void KeepEffects(const GraphIndex& index, const std::vector<int>& order, const Deadline& deadline,
                 tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_EFFECTS_H_
