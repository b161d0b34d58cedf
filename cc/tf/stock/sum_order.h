// Sums that TensorFlow adds up in the order of arrival, held to the order of stock TensorFlow.
//
// Grappler turns an AddN of large tensors into a temporary variable and one AssignAdd per term, each of which runs when
// its term is there. The last bits then depend on the order of arrival, which any change to a graph may change. Before
// anything is planned, these AssignAdds are therefore chained by control edges in the order in which stock TensorFlow
// runs them with one thread. From then on they are edges like any others: schedule, planner, rewrite and verifier keep
// to them, and so does TensorFlow, with any number of threads.
//
// Even one thread does not fix the order of every sum (see executor_model.h). A number of runs of the model are
// compared; the edges all come from one of them, so they agree with each other and with the graph. A sum is held to its
// order in that run if that is the order of most runs. Otherwise stock TensorFlow has none of its own, one run differs
// from the next, and the terms stay free: waiting would cost memory for nothing.

#ifndef LMS_CC_TF_STOCK_SUM_ORDER_H_
#define LMS_CC_TF_STOCK_SUM_ORDER_H_

#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

struct SumOrder {
  int held = 0;    // sums that got an order
  int free = 0;    // sums of which stock TensorFlow itself has no order
  int hidden = 0;  // sums of which one term may be added when another one is not: no edge is added
  // Sums of which the model knows no order. Nothing is held where there is one.
  int behind = 0;  // a term comes out of a branch, and the model runs all branches
  int ahead = 0;   // in a loop whose iterations run ahead of one another, and the model has one iteration
};

// Is there anything that HoldSums may have to do? One pass over the nodes.
bool AddsInOrderOfArrival(const tensorflow::GraphDef& graph);

// Adds the edges to item->graph. Fails where the graph cannot be indexed, and leaves it as it is then. Throws TooMuch
// where the deadline passes.
absl::Status HoldSums(tensorflow::grappler::GrapplerItem* item, SumOrder* result,
                      const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_SUM_ORDER_H_
