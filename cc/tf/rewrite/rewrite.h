// Applies a plan to a graph: adds the recomputations and the swaps and points the readers at them. Decides nothing.
//
// Each recomputation is a copy of its op, on its device, that reads what the plan says and waits, through control
// inputs, for its place in the schedule: for the op that makes the last other input of the op it serves, and, where
// `enforce_order` is set, for the ops before it that free large buffers (the executor would else run ahead of the
// plan). The control inputs also keep later passes from merging a copy with its original. Copies that read a variable
// are ordered before every update of it. In a loop the next iteration waits for all of this one. All edges agree with
// the plan's order, so the graph stays acyclic. Tensors that are fetched, fed or preserved by name are never replaced.
// What has an effect still runs where all that waited for it is left out (effects.h).
//
// A swap-out reads the newest instance of its buffer at its place, waits for nothing else, and is read by all swap-ins
// of the buffer. A swap-in waits, too, for the op before its place and for what order asks for. Both say when they are
// due, as a number in the order of the plan's events: a swap-out by its place, a swap-in by its first reader.

#ifndef LMS_CC_TF_REWRITE_REWRITE_H_
#define LMS_CC_TF_REWRITE_REWRITE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "cc/core/graph/plan.h"
#include "cc/core/graph/swap_target.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

struct RewriteOptions {
  // Order is enforced at every large allocation, or, with a limit, where memory could exceed that otherwise. A limit
  // also says that the imported graph may be in another order than the executor's own.
  bool enforce_order = false;
  int64_t order_limit_bytes = 0;
  SwapTarget swap;
  Deadline deadline;                       // TooMuch is thrown where it passes...
  int64_t order_bytes = int64_t{1} << 28;  // ...and where keeping the order would take more memory than this
  int64_t serialize_bytes = 0;             // ops whose results take as much run one after the other; 0: none have to
};

// An op that waits for a node only because of the order.
struct OrderEdge {
  OpId op;
  std::string waits_for;
};

struct RewriteResult {
  std::vector<std::string> step_nodes;        // per plan step: the node that was added
  std::vector<std::string> step_triggers;     // per plan step: the node that it waits for
  std::vector<std::string> swap_out_nodes;    // per swap-out
  std::vector<std::string> swap_in_nodes;     // per swap-in
  std::vector<std::string> swap_in_triggers;  // per swap-in: the node that it waits for; "" where that is the swap-out
  std::vector<OrderEdge> order_edges;         // by which ops at their own place wait
  std::vector<OpId> untimed;  // ops that were to run again where nothing in their region tells when: a failure
};

// `graph` is the one that `imported` and `index` were made from; it is changed in place, and useless after a failure.
absl::Status RewriteGraph(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan,
                          const RewriteOptions& options, tensorflow::GraphDef* graph, RewriteResult* result);

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_REWRITE_H_
