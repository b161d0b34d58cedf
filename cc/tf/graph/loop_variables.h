// Variables of loops: what carries something from one iteration to the next, or the same into all of them.
//
// All functions: `index` and `loops` belong to the graph. Constant time, but for the depth of nested loops.

#ifndef LMS_CC_TF_GRAPH_LOOP_VARIABLES_H_
#define LMS_CC_TF_GRAPH_LOOP_VARIABLES_H_

#include <cstdint>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

// A variable of a loop that changes. Nodes; `next` is what it is in the next iteration.
struct LoopVariable {
  int enter;
  int merge;
  int fork;  // its Switch
  int end;   // its NextIteration
  TensorRef next;
  TensorRef now() const { return {fork, 1}; }
};

// The variable of the loop whose Switch the node is: one that changes. False for all other nodes.
bool ReadLoopVariable(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops, int fork,
                      LoopVariable* variable);

// Does the variable count iterations: from 0, by 1, as a whole number of the type, without dimensions?
bool CountsIterations(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops,
                      const LoopVariable& variable, tensorflow::DataType type);

// The value that the node, of a loop, has in every iteration, outside of the loop: of an Enter or a Switch of a
// variable that does not change. {-1, 0} for all others.
TensorRef OutsideOf(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops,
                    const TensorRef& tensor);

// The whole number that the tensor is in every iteration, where that is a constant of the body or of what is around the
// loop, without dimensions; -1 for all others.
int64_t NumberOf(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops, TensorRef tensor);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_LOOP_VARIABLES_H_
