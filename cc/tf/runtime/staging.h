// Pinned memory for a tensor on its way between a GPU and a disk.
//
// All of it counts as HostBytes. Where `limit` (swap_host_limit), TensorFlow's pool or the machine leaves no room, a
// request waits until others have given theirs back, the most urgent one first; where nobody has any, it fails. Whoever
// has staging must end without anything that could wait for staging: transfers under way do, an op that waits for
// device memory may not (it gives its staging back first). So every wait ends.
//
// Thread-safety: all of it.

#ifndef LMS_CC_TF_RUNTIME_STAGING_H_
#define LMS_CC_TF_RUNTIME_STAGING_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "cc/tf/runtime/host_bytes.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace lms {

// Given back with the last reference.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const tensorflow::Tensor& host() const { return host_; }
  tensorflow::Tensor* mutable_host() { return &host_; }

 private:
  friend class StagingQueue;

  tensorflow::Tensor host_;
  HostBytes bytes_;
  bool counted_ = false;
};

struct StagingRequest {
  tensorflow::OpKernelContext* context = nullptr;  // of the op, which has not ended before it has been answered
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  int64_t limit = 0;     // bytes of pinned memory in all; 0: a part of what the machine has left
  int64_t deadline = 0;  // smaller is more urgent
};

// `ready` is called once, here or in the thread that gives other staging back; it must not block.
void TakeStaging(StagingRequest request, std::function<void(const absl::Status&, std::shared_ptr<Staging>)> ready);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_STAGING_H_
