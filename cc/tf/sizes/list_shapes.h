// Where the shapes of what is taken out of tensor lists come from, which TensorFlow's shape inference loses on the way
// through two loops.
//
// A gradient's loop pops what the forward loop has pushed, and inference does not carry the shapes of a list's elements
// through a loop. What is taken out of a list has the shape of what is put in.

#ifndef LMS_CC_TF_SIZES_LIST_SHAPES_H_
#define LMS_CC_TF_SIZES_LIST_SHAPES_H_

#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/sizes/shape_values.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Does the graph take anything out of a list?
bool ReadsLists(const tensorflow::GraphDef& graph);

// One for each tensor that is taken out of a list into which something is put. `index` and `lists` belong to the graph,
// or to the one that it begins with. Linear in the graph, and in the way from each such tensor to where its list is
// made.
std::vector<ListLink> LinkLists(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorLists& lists);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_LIST_SHAPES_H_
