// Slices along the first dimension that copy nothing: their results are rows in the storage of what is sliced, all of
// which is held as long as one of them is.
//
// Facts of TensorFlow's kernels of Slice, StridedSlice, Split, SplitV and Unpack (slice_op.cc, strided_slice_op.cc,
// split_op.cc, split_v_op.cc, unpack_op.cc; 2.16 to 2.21, CPU and GPU): whole rows share storage where a row is a
// multiple of EIGEN_MAX_ALIGN_BYTES, and numbers in one dimension where the slice begins and ends at such a multiple.
// A slice that takes all shares it in any case. Measured for each of the five (docs/design.md).

#ifndef LMS_CC_TF_SIZES_ROW_SLICES_H_
#define LMS_CC_TF_SIZES_ROW_SLICES_H_

#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace lms {

// Is the node of a type that might slice so?
bool MaySliceRows(const tensorflow::NodeDef& node);

// The data input in whose storage all results of the node lie; -1 where they have storage of their own, and where
// shapes, or the values of begin and strides, leave it open. Shapes are to have no unknown dimensions where they are
// to say something; of inputs whose values are known, these are used.
int RowsOf(const tensorflow::NodeDef& node, const std::vector<tensorflow::OpInfo::TensorProperties>& inputs,
           const std::vector<tensorflow::OpInfo::TensorProperties>& outputs);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_ROW_SLICES_H_
