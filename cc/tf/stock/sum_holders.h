// Who is done with a term before a sum takes it, and who comes after.
//
// AddN puts the first term whose storage it may take over in front, so the last bits of a sum of three or more depend
// on who else holds its terms when it runs. Where neither of the first two terms is the sum's alone, a rewrite must
// keep each of their other readers on the side of the sum on which it is in the graph as it came. So must loops and
// branches be that a term enters: they begin after the sum, or have ended before it. Where a loop's first iteration, or
// a branch, has read the term and goes on, no edge can tell the sum so, and there is none. Nor are there any for sums
// in loops: iterations may have a loop or branch within on different sides of the sum.

#ifndef LMS_CC_TF_STOCK_SUM_HOLDERS_H_
#define LMS_CC_TF_STOCK_SUM_HOLDERS_H_

#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "cc/tf/stock/node_wait.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// One wait for each reader of a term, of the sum for it or of it for the sum, where most of several runs of the
// executor's model (executor_model.h) on one thread agree; stock has no order of its own where they do not. All waits
// come from one run, so they agree with each other and with the graph. Only between nodes of one region that may carry
// edges, and between a sum and the Enters and Exits of a loop there, or the Switch and the Merges of branches. Linear
// in the graph, for each run; nothing is run where there is no such sum. Throws TooMuch where the deadline passes, or
// there are millions of waits.
std::vector<NodeWait> FindSumWaits(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes,
                                   bool onednn, const Deadline& deadline = Deadline());

// Per node: does a tensor of it lie in the storage of a term of such a sum, by the way that leads to the term? Who
// holds one of these meanwhile must not change. Linear in the terms and the views that lead to them.
std::vector<bool> OnWayToSums(const tensorflow::GraphDef& graph, const GraphIndex& index);

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_SUM_HOLDERS_H_
