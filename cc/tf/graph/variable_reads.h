// Who holds the storage of a variable: ReadVariableOp hands it out as it is, and views hand it on.
//
// One relation, followed in both directions. The two are not quite each other's inverse, as each errs on the side that
// its callers can afford:
//   - back from a tensor, each port is followed by itself, through ops that change it in place too: their result is the
//     same storage. It is asked who holds a variable while the step runs, wherever that is;
//   - forward from a read, nodes are followed (all readers of an IdentityN count, of its other tensors too), an op that
//     changes the tensor in place is the last of its readers, and loops, branches, control flow and results are left
//     out. It is asked who might be waited for.
//
// The functions are thread-safe.

#ifndef LMS_CC_TF_GRAPH_VARIABLE_READS_H_
#define LMS_CC_TF_GRAPH_VARIABLE_READS_H_

#include <map>
#include <utility>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Does the node run once in every step, outside of loops and branches?
bool RunsInEveryStep(const NodeIndex& node);

// Remembers what it has found: linear in all the views that it is asked about, once. Not for several threads.
class ReadFinder {
 public:
  // `index` belongs to the graph; both must outlive this.
  ReadFinder(const tensorflow::GraphDef& graph, const GraphIndex& index) : graph_(graph), index_(index) {}

  // The ReadVariableOp behind a tensor that is one, or a view of one; -1 for others.
  int ReadBehind(TensorRef tensor);

 private:
  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  std::map<std::pair<int, int>, int> known_;  // by node and port of views
};

// The same for one tensor. Linear in the views in between.
int ReadBehind(const tensorflow::GraphDef& graph, const GraphIndex& index, TensorRef tensor);

// The nodes that read what a ReadVariableOp hands out, through views too, and that an update of the variable might wait
// for. In the order in which they are met; one may be met several times. Linear in the readers of the views.
std::vector<int> ReadersToWaitFor(const tensorflow::GraphDef& graph, const GraphIndex& index, int read);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_VARIABLE_READS_H_
