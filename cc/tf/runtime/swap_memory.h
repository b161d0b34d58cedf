// How swaps allocate: pinned memory, and the device's.

#ifndef LMS_CC_TF_RUNTIME_SWAP_MEMORY_H_
#define LMS_CC_TF_RUNTIME_SWAP_MEMORY_H_

#include <cstdint>
#include <functional>

#include "tensorflow/core/framework/op_kernel.h"

namespace lms {

// What an op says that cannot take another `bytes` below `limit`, swap_host_limit.
absl::Status HostBytesExceeded(const tensorflow::OpKernelContext& context, int64_t bytes, int64_t limit);

// Memory of the op's device, or of the host. `wait`: for some seconds where there is none at the moment, as other ops
// do.
absl::Status Allocate(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                      const tensorflow::TensorShape& shape, tensorflow::AllocatorAttributes where, bool wait,
                      tensorflow::Tensor* tensor);

// The same of pinned memory; the error names what to set.
absl::Status AllocatePinned(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                            const tensorflow::TensorShape& shape, bool wait, tensorflow::Tensor* tensor);

// Calls `allocate` at once, and where that is ResourceExhausted once more in a thread of its own, where it may wait:
// the executor's thread goes on, with ops that free memory. `ready` is called last, here or there, with what came of
// it.
void AllocateBehind(const std::function<absl::Status(bool wait)>& allocate,
                    std::function<void(const absl::Status&)> ready);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SWAP_MEMORY_H_
