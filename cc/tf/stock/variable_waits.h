// Updates of variables, and who should be done before them.
//
// An update of a variable copies it while somebody still holds what was read of it: a weight's gradient is often done,
// and the weight updated, before the op that reads the weight to pass the gradient on has run. Where a step is
// rewritten anyway, large variables are updated after such readers instead, which costs no time and saves the copy.
//
// A loop over data of unknown length learns of its end from a step that fails where it takes its next element. What
// needs none of that element has been done by then in stock TensorFlow: the weights have decayed once more. Where a
// step may end so, such updates are left as they are.

#ifndef LMS_CC_TF_STOCK_VARIABLE_WAITS_H_
#define LMS_CC_TF_STOCK_VARIABLE_WAITS_H_

#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

struct VariableWait {
  int update;  // node
  int reader;  // that it waits for
};

// The waits that the graph lacks, in the order of its nodes, none of which closes a cycle by itself. Nothing in loops
// and branches. Roughly linear: who might depend on an update is followed for some thousand nodes at most.
// `before_data`: nodes that are not to wait for others, as below; empty: none.
std::vector<VariableWait> FindVariableWaits(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                            const Deadline& deadline = Deadline(),
                                            const std::vector<bool>& before_data = {});

// By node: the updates that need no more than a few nodes, and no element of an iterator; and what they need.
std::vector<bool> RunBeforeData(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_VARIABLE_WAITS_H_
