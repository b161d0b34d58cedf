// Updates of variables, and who should be done before them.
//
// An update of a variable copies it while somebody still holds what was read of it: a weight's gradient is often done,
// and the weight updated, before the op that reads the weight to pass the gradient on has run. Where a step is
// rewritten anyway, large variables are updated after such readers instead, which costs no time and saves the copy.

#ifndef LMS_CC_TF_VARIABLE_WAITS_H_
#define LMS_CC_TF_VARIABLE_WAITS_H_

#include <vector>

#include "cc/core/deadline.h"
#include "cc/tf/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

struct VariableWait {
  int update;  // node
  int reader;  // that it waits for
};

// The waits that the graph lacks, in the order of its nodes, none of which closes a cycle by itself. Nothing in loops
// and branches. Roughly linear: who might depend on an update is followed for some thousand nodes at most.
std::vector<VariableWait> FindVariableWaits(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                            const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_VARIABLE_WAITS_H_
