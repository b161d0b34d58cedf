// Lists made of a tensor that take no memory of their own: their elements are the tensor's rows, where they lie.
//
// What a loop goes through, and the gradient of what it has made, is a tensor at first, of which TensorFlow copies each
// row into a list (TensorListFromTensor). Here the node gets lms' own kernel (own_ops.h). A list of a tensor that is
// reversed along its first dimension (go_backwards, Bidirectional) is made of the rows of that tensor, from the last
// one on, and the reversed one is gone where nobody else reads it.

#ifndef LMS_CC_TF_LOOPS_SHARE_ROWS_H_
#define LMS_CC_TF_LOOPS_SHARE_ROWS_H_

#include <cstdint>
#include <string>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Changes the graph of `index` in place, which keeps its nodes and their order; returns the bytes that are no longer
// copied. Lists on `device` alone, whose elements stay the tensor's own: a list in which a loop puts others would keep
// the tensor as long. Nothing of a variable's, which an update would have to copy, and no terms of sums whose last bits
// depend on who holds them. Linear in nodes and edges.
int64_t ShareRows(const GraphIndex& index, const TensorSizes& sizes, const std::vector<NodeTypes>& types,
                  const std::string& device, tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_SHARE_ROWS_H_
