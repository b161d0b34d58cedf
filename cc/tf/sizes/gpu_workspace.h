// What convolutions allocate on a GPU while they run, besides their outputs: copies that TensorFlow's kernels make for
// cuDNN, and copies that cuDNN makes for its own kernels.
//
// TensorFlow (2.21, core/kernels/conv_*): the filter in cuDNN's order; the gradient of the input once more; and where
// padding is uneven, the input or its gradient with the padding. A filter of one place with strides of 1 and channels
// last is a product of matrices, without any of it.
//
// cuDNN: its kernels on tensor cores want channels last. Where they come first (TensorFlow's layout optimizer has
// float32 so) they copy the input, the output, and the filter once more. Which kernel runs is found out by timing them,
// so this is what is likely, not a bound. Measured op by op on an H100 (cuDNN 9.14, 120 convolutions of 16 shapes, by
// the allocator): with filters of 3 places what takes 10 MB and more took 1.00 to 1.6 times this, mostly less than 1.1,
// and once half of it. Not foreseen: a first layer of 3 channels (up to 9 times with channels last), and kernels that
// cuDNN chooses for filters of one place (up to 120 MB, where this says next to nothing). What the first call takes to
// choose a kernel, up to some GB of what is free, is not in it.

#ifndef LMS_CC_TF_SIZES_GPU_WORKSPACE_H_
#define LMS_CC_TF_SIZES_GPU_WORKSPACE_H_

#include <cstdint>

#include "cc/tf/sizes/gpu_kernels.h"
#include "cc/tf/sizes/sized_op.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

struct GpuWorkspace {
  int64_t bytes = 0;   // held to the kernel's end
  int64_t copied = 0;  // of these, those that are written and read again
};

// May WorkspaceOnGpu() of such an op be above 0?
bool HasGpuWorkspace(const tensorflow::NodeDef& node);

GpuWorkspace WorkspaceOnGpu(const SizedOp& op, const GpuKernels& kernels);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_GPU_WORKSPACE_H_
