// What the checks of changed loops have in common: a graph as it came and the one that was made of it, in which the
// nodes of the old one keep their numbers and others stand behind them.

#ifndef LMS_CC_TF_LOOPS_COMPARE_NODES_H_
#define LMS_CC_TF_LOOPS_COMPARE_NODES_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// What is wrong with a graph that lms has made.
inline absl::Status Unsound(const std::string& what) { return absl::InternalError(what); }

// The first error that a node gives: an old one, which has its name still, or one that was added.
absl::Status CompareNodes(const tensorflow::GraphDef& before, const tensorflow::GraphDef& after,
                          const std::function<absl::Status(int node)>& check_old,
                          const std::function<absl::Status(int node)>& check_new);

// Is the old node in the loop and branch where it was, and does it wait for all that it waited for?
absl::Status CheckStays(const tensorflow::GraphDef& before, const GraphIndex& old_index, const GraphIndex& new_index,
                        int node);

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_COMPARE_NODES_H_
