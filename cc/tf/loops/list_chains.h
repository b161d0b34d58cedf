// Lists that lead from a loop to the loop of its gradient.
//
// TensorFlow's gradient of a while loop gives the forward loop one list for each tensor that the gradient reads: empty
// at first, with one push in each iteration; the gradient's loop has the list as a variable of its own and pops one
// element in each iteration, the last one first. (tensorflow/python/ops/while_v2.py.) What is found here is such a list
// that serves nothing else: all nodes that it goes through are known, and none of them has another reader.
//
// Linear in nodes and edges.

#ifndef LMS_CC_TF_LOOPS_LIST_CHAINS_H_
#define LMS_CC_TF_LOOPS_LIST_CHAINS_H_

#include <cstdint>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Nodes, in the order in which the list goes through them.
struct ListChain {
  int maker;  // EmptyTensorList
  int enter;  // of the forward loop
  int merge;
  int fork;  // its Switch
  int push;
  int next;
  int exit;
  int back_enter;  // of the gradient's
  int back_merge;
  int back_fork;
  int pop;
  int back_next;
};

// A loop and its gradient. All that is pushed in one iteration is popped in one iteration of the gradient: each of the
// lists is pushed once in every iteration, and popped once, and all of them begin empty.
struct GradientLoop {
  int forward;  // frames
  int backward;
  int forward_region;  // of what runs in every iteration
  int backward_region;
  std::vector<ListChain> chains;
};

// `index` and `loops` belong to the graph. Loops that draw random numbers in any order are left out, as any change in
// them may change which is drawn first.
std::vector<GradientLoop> FindGradientLoops(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                            const Loops& loops);

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_LIST_CHAINS_H_
