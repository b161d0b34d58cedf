// Pinned memory that swapped tensors take in this process: counted, and bounded where a swap says by how much. And how
// swaps allocate it, and the device's.
//
// Thread-safety: InUse, Peak and ResetPeak, and different objects.

#ifndef LMS_CC_TF_RUNTIME_HOST_BYTES_H_
#define LMS_CC_TF_RUNTIME_HOST_BYTES_H_

#include <cstdint>
#include <functional>

#include "tensorflow/core/framework/op_kernel.h"

namespace lms {

class HostBytes {
 public:
  enum class Taken {
    kYes,
    kNo,     // all together would exceed the limit
    kLater,  // only copies that nobody waits for keep room taken, and they end
  };

  HostBytes() = default;
  ~HostBytes() { Release(); }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  // False, and nothing is taken, where all together would exceed `limit` (0: none).
  bool Take(int64_t bytes, int64_t limit);
  // The same for who may come while the copies of those before are still under way: the host runs ahead of the device,
  // into steps to come, and may not take more for that than steps took that waited. kLater: nothing is taken; with
  // `wait` it waits instead.
  Taken TakeBehindCopies(int64_t bytes, int64_t limit, bool wait);
  // From now on a copy that is under way is all that keeps them.
  void LeaveToCopy();
  void Release();

  static int64_t InUse();
  static int64_t Peak();
  static void ResetPeak();

 private:
  int64_t bytes_ = 0;
  bool left_to_copy_ = false;
};

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

#endif  // LMS_CC_TF_RUNTIME_HOST_BYTES_H_
