// What TensorFlow's CPU kernels allocate for themselves: convolutions, matrix products, pooling, batch norm,
// reductions.
//
// Which kernel runs depends on the machine: oneDNN's has one for float, and for bfloat16 and half where the processor
// has instructions for them; other types, and all of them with TF_ENABLE_ONEDNN_OPTS=0, get TensorFlow's own. These
// hold patches of images (gradients of convolutions), or copies as float (products of half). What oneDNN's kernels take
// depends on the processor and is small, a few hundred KB; it counts nothing here.
//
// The rules were read from the kernels (2.21), and measured op by op with lms.memory (benchmarks/workspace.py).

#ifndef LMS_CC_TF_KERNEL_WORKSPACE_H_
#define LMS_CC_TF_KERNEL_WORKSPACE_H_

#include <cstdint>
#include <string>

#include "cc/tf/sized_op.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

struct CpuKernels {
  int threads = 1;  // that share an op
  bool onednn_float = false;
  bool onednn_bfloat16 = false;
  bool onednn_half = false;

  // Of this process.
  static CpuKernels Here(int threads);
  bool OneDnn(tensorflow::DataType type) const;
};

// May KernelWorkspace() of such an op be above 0? Looks at the type of the op alone.
bool HasKernelWorkspace(const std::string& op);

// Bytes that the op's kernel allocates besides its outputs, and holds to its end.
int64_t KernelWorkspace(const SizedOp& op, const CpuKernels& kernels);

}  // namespace lms

#endif  // LMS_CC_TF_KERNEL_WORKSPACE_H_
