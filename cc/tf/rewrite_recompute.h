// Applies a plan to a graph: adds the recomputations and points the readers at them. Decides nothing.
//
// Each recomputation is a copy of its op, on its device, that reads what the plan says and waits, through control
// inputs, for its place in the schedule: for the op that makes the last other input of the op it serves, and, where
// `enforce_order` is set, for the ops before it that free large buffers (the executor would else run ahead of the
// plan). The control inputs also keep later passes from merging a copy with its original. Copies that read a variable
// are ordered before every update of it. In a loop the next iteration waits for all of this one. All edges agree with
// the plan's order, so the graph stays acyclic. Tensors that are fetched, fed or preserved by name are never replaced.

#ifndef LMS_CC_TF_REWRITE_RECOMPUTE_H_
#define LMS_CC_TF_REWRITE_RECOMPUTE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/plan.h"
#include "cc/tf/graph_index.h"
#include "cc/tf/import.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// An op that waits for a node only because of the order.
struct OrderEdge {
  OpId op;
  std::string waits_for;
};

struct RewriteResult {
  std::vector<std::string> step_nodes;     // per plan step: the node that was added
  std::vector<std::string> step_triggers;  // per plan step: the node that it waits for
  std::vector<OrderEdge> order_edges;      // by which ops at their own place wait
};

// `graph` is the one that `imported` and `index` were made from; it is changed in place, and useless after a failure.
// Order is enforced at every large allocation, or, with a limit, where memory could exceed that otherwise. A limit also
// says that the imported graph may be in another order than the executor's own: then the readers of what a sum's order
// depends on keep theirs by edges.
absl::Status RewriteForRecompute(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan,
                                 bool enforce_order, tensorflow::GraphDef* graph, RewriteResult* result,
                                 int64_t order_limit_bytes = 0);

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_RECOMPUTE_H_
