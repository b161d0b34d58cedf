// LmsSwapOut and LmsSwapIn on a GPU: through TensorFlow's own copy streams to pinned memory and back, and on to a spill
// file for the tier "disk". No CUDA code: the device's context copies, asynchronously, and says when it has.
//
// Out: a pinned tensor is taken (counted; over `limit` on the tier "host" the step fails and names the option), the
// device copies into it, and the handle exists when that has ended; for the disk the store then writes it, and it is
// let go. In: the output is allocated, and what the handle holds is copied into it (read into a pinned tensor before,
// from a disk). Inputs and handles stay until the last byte has been copied: the op has not ended before. Errors as in
// swap_cpu.h, those of the device as they come. Thread-safety: as all kernels.

#ifndef LMS_CC_TF_RUNTIME_SWAP_GPU_H_
#define LMS_CC_TF_RUNTIME_SWAP_GPU_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace lms {

struct SwapContent;

class GpuSwapOut : public tensorflow::AsyncOpKernel {
 public:
  explicit GpuSwapOut(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;
  bool IsExpensive() override { return false; }  // it only hands the copy over

 private:
  // The pinned copy is complete.
  void Spill(tensorflow::OpKernelContext* context, std::shared_ptr<SwapContent> content, DoneCallback done) const;

  bool disk_ = false;
  std::string directory_;
  int64_t deadline_ = 0;
  int64_t limit_ = 0;
};

class GpuSwapIn : public tensorflow::AsyncOpKernel {
 public:
  explicit GpuSwapIn(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;
  bool IsExpensive() override { return false; }  // it only hands the copy over

 private:
  int64_t deadline_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SWAP_GPU_H_
