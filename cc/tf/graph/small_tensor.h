// Values of constants in a graph that are asked for: axes, lengths, shapes.

#ifndef LMS_CC_TF_GRAPH_SMALL_TENSOR_H_
#define LMS_CC_TF_GRAPH_SMALL_TENSOR_H_

#include <cstdint>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace lms {

// False where it has more than `most` elements, or is broken. A few bytes may claim to be a tensor of any size, filled
// with one value: that size is looked at before anything is allocated.
bool ReadSmallTensor(const tensorflow::TensorProto& proto, int64_t most, tensorflow::Tensor* tensor);

// The whole number that the constant is, of 32 or 64 bits; -1 for all other nodes.
int64_t WholeConstant(const tensorflow::NodeDef& node);

// Is it a constant without dimensions?
bool IsScalarConstant(const tensorflow::NodeDef& node);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_SMALL_TENSOR_H_
