// Pinned memory that swapped tensors take in this process: counted, and bounded where a swap says by how much.
//
// Thread-safety: InUse, Peak and ResetPeak, and different objects.

#ifndef LMS_CC_TF_RUNTIME_HOST_BYTES_H_
#define LMS_CC_TF_RUNTIME_HOST_BYTES_H_

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"

namespace lms {

class HostBytes {
 public:
  HostBytes() = default;
  ~HostBytes() { Release(); }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  // False, and nothing is taken, where all together would exceed `limit` (0: none).
  bool Take(int64_t bytes, int64_t limit);
  void Release();

  static int64_t InUse();
  static int64_t Peak();
  static void ResetPeak();

 private:
  int64_t bytes_ = 0;
};

// What an op says that cannot take another `bytes` below `limit`, swap_host_limit.
absl::Status HostBytesExceeded(const tensorflow::OpKernelContext& context, int64_t bytes, int64_t limit);

// Pinned memory of the op's device. `wait`: for some seconds where there is none at the moment, as other ops do.
absl::Status AllocatePinned(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                            const tensorflow::TensorShape& shape, bool wait, tensorflow::Tensor* tensor);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_HOST_BYTES_H_
