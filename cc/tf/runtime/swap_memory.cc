#include "cc/tf/runtime/swap_memory.h"

#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/tf/runtime/host_bytes.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"

namespace lms {

absl::Status HostBytesExceeded(const tensorflow::OpKernelContext& context, int64_t bytes, int64_t limit) {
  return absl::ResourceExhaustedError(context.op_kernel().name() + ": swapped tensors take " +
                                      FormatBytes(HostBytes::InUse()) + " of pinned memory; another " +
                                      FormatBytes(bytes) + " exceed swap_host_limit, " + FormatBytes(limit) +
                                      ". Raise swap_host_limit, or swap less");
}

absl::Status AllocatePinned(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                            const tensorflow::TensorShape& shape, bool wait, tensorflow::Tensor* tensor) {
  tensorflow::AllocatorAttributes pinned;
  pinned.set_on_host(true);
  pinned.set_gpu_compatible(true);
  absl::Status status = Allocate(context, dtype, shape, pinned, wait, tensor);
  if (!absl::IsResourceExhausted(status)) return status;
  const int64_t bytes = shape.num_elements() * tensorflow::DataTypeSize(dtype);
  return absl::ResourceExhaustedError(
      context->op_kernel().name() + ": no pinned memory for a swapped tensor of " + FormatBytes(bytes) +
      ": the machine has no more, or TensorFlow's pool is full, of which swapped tensors take " +
      FormatBytes(HostBytes::InUse()) +
      ". Raise TF_GPU_HOST_MEM_LIMIT_IN_MB before Python starts, set swap_host_limit to less, or swap_to=\"disk\"");
}

absl::Status Allocate(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                      const tensorflow::TensorShape& shape, tensorflow::AllocatorAttributes where, bool wait,
                      tensorflow::Tensor* tensor) {
  const tensorflow::AllocationAttributes how(/*retry_on_failure=*/wait, /*allocation_will_be_logged=*/false, nullptr);
  return context->allocate_temp(dtype, shape, tensor, where, how);
}

void AllocateBehind(const std::function<absl::Status(bool wait)>& allocate,
                    std::function<void(const absl::Status&)> ready) {
  const absl::Status status = allocate(/*wait=*/false);
  if (!absl::IsResourceExhausted(status)) return ready(status);
  tensorflow::Env::Default()->SchedClosure([allocate, ready = std::move(ready)] { ready(allocate(/*wait=*/true)); });
}

}  // namespace lms
