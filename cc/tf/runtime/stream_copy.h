// A copy between a device and pinned memory that nobody waits for on the host.
//
// It runs on a stream of lms' own, behind what the compute stream was given before, and a copy back behind the copy
// out. Large copies of one direction follow each other; a small one does not wait for them. The compute stream waits
// for it where Wait says so, and from then on the device's tensor is free for whoever comes next on that stream: what
// TensorFlow's allocator hands out on the host is used in the order of the compute stream. A copy out holds the
// device's tensor until Wait, though it may have ended long before: when it ends differs from step to step, and memory
// that is free sooner in one than in another is handed out otherwise. Some seconds after its end the tensor is let go
// all the same: a step that lacks memory waits for so long. A copy in holds it, and either holds the owner of the
// pinned memory, until it has ended: whatever becomes of the step, neither is handed on while the copy may touch it.
//
// Thread-safety: all functions.

#ifndef LMS_CC_TF_RUNTIME_STREAM_COPY_H_
#define LMS_CC_TF_RUNTIME_STREAM_COPY_H_

#include <memory>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace lms {

class StreamCopy {
 public:
  // Has the op's device streams that can wait for each other?
  static bool CanRun(tensorflow::OpKernelContext* context);

  // Both tensors have bytes. `copy` is set where the copy has begun; after an error nothing is copied any more.
  static absl::Status Out(tensorflow::OpKernelContext* context, const tensorflow::Tensor& device,
                          const tensorflow::Tensor& host, std::shared_ptr<const void> host_owner,
                          std::shared_ptr<StreamCopy>* copy);
  // `out`: the copy that fills `host`, which may be under way; null where that has ended.
  static absl::Status In(tensorflow::OpKernelContext* context, const tensorflow::Tensor& host,
                         std::shared_ptr<const void> host_owner, StreamCopy* out, const tensorflow::Tensor& device,
                         std::shared_ptr<StreamCopy>* copy);

  ~StreamCopy();
  StreamCopy(const StreamCopy&) = delete;
  StreamCopy& operator=(const StreamCopy&) = delete;

  // What the compute stream is given from now on comes after the copy. May be called again.
  absl::Status Wait();

 private:
  class Held;
  struct Streams;
  struct State;
  enum class Way { kOut, kIn };

  explicit StreamCopy(std::unique_ptr<State> state);
  static Streams* StreamsOf(tensorflow::OpKernelContext* context);
  static absl::Status Begin(Way way, tensorflow::OpKernelContext* context, const tensorflow::Tensor& host,
                            std::shared_ptr<const void> host_owner, StreamCopy* after, const tensorflow::Tensor& device,
                            std::shared_ptr<StreamCopy>* copy);
  void Ended();
  void LetGo();  // the device's tensor

  const std::unique_ptr<State> state_;
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_STREAM_COPY_H_
