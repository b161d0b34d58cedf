// Convolutions and pools as a GPU has them: in NCHW as well as NHWC, and with no workspace of the CPU's kernels in the
// device's memory. Computes on transposed copies in the host's memory.

#ifndef LMS_TESTS_STANDIN_IMAGES_H_
#define LMS_TESTS_STANDIN_IMAGES_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace standin {

// The kernel for the node that is constructed; null where it is no such op. Errors go to the construction.
tensorflow::OpKernel* MakeImageKernel(tensorflow::OpKernelConstruction* construction);

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_IMAGES_H_
