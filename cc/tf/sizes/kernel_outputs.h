// Outputs whose shape a kernel of the CPU decides: shape inference leaves them open.
//
// A batch normalization of four dimensions keeps something for its gradient (output 5, held until then). TensorFlow's
// own kernel makes a number that nobody reads, oneDNN's an empty vector; with a Relu in it (_FusedBatchNormEx, while it
// trains) oneDNN's has to know where the result was positive. That is a bit for each element where its kernels with
// AVX2 run (NHWC, whole vectors of channels: 8 in float; 16 in bfloat16, with AVX-512), else a byte; and of as many
// elements as that has bytes TensorFlow makes a tensor of float, four times as large. Measured with 2.21, processors
// with AVX-512 and, by ONEDNN_MAX_CPU_ISA, AVX2, AVX and SSE 4.1; after core/kernels/mkl/mkl_fused_batch_norm_op.cc.

#ifndef LMS_CC_TF_SIZES_KERNEL_OUTPUTS_H_
#define LMS_CC_TF_SIZES_KERNEL_OUTPUTS_H_

#include <optional>

#include "cc/tf/sizes/cpu_kernels.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace lms {

// The output of such an op whose shape the kernel decides; -1 where it has none.
int KernelDecides(const tensorflow::NodeDef& node);

// The shape of that output, of an op on a CPU whose first input has this shape; nothing where that is not known.
std::optional<tensorflow::TensorShapeProto> ShapeByKernel(const tensorflow::NodeDef& node,
                                                          const tensorflow::TensorShapeProto& input,
                                                          const CpuKernels& kernels);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_KERNEL_OUTPUTS_H_
