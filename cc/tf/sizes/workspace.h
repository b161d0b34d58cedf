// What kernels allocate for themselves while they run, besides their outputs: on a CPU, as far as it was measured.
//
// Bytes asked of TensorFlow's allocator. What kernels take from malloc is not in it, as it is in no measured peak.
// Everything that is not listed here counts 0.

#ifndef LMS_CC_TF_SIZES_WORKSPACE_H_
#define LMS_CC_TF_SIZES_WORKSPACE_H_

#include <cstdint>
#include <vector>

#include "cc/tf/sizes/cpu_kernels.h"
#include "cc/tf/sizes/sized_op.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

// May OpWorkspace() be above 0? Does not look at shapes.
bool HasWorkspace(const tensorflow::NodeDef& node);

// Of a kernel of its own.
int64_t OpWorkspace(const SizedOp& op, const CpuKernels& kernels);

// Of a function that XLA compiled as one kernel.
int64_t CompiledWorkspace(const std::vector<SizedOp>& body);

// Is CompiledWorkspace() all that such a function takes on a CPU? So it is of convolutions of images, forward or
// backward, with nothing else in the function.
bool KnowsCompiledWorkspace(const std::vector<const tensorflow::NodeDef*>& body);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_WORKSPACE_H_
