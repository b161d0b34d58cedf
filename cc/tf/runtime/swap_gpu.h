// LmsSwapOut and LmsSwapIn on a GPU: through TensorFlow's own copy streams to pinned memory and back, and on to a spill
// file for the tier "disk". No CUDA code: the device's context copies, asynchronously, and says when it has.
//
// Out: a pinned tensor is taken (counted; over swap_host_limit the step fails and names the option), the device copies
// into it, and the op ends when that has: its input goes. For the disk the store writes it behind the op
// (pending_spill.h), and where there is no room for it the op waits for what is being written and read (staging.h). In,
// from the host: the output is allocated, and what the handle holds is copied into it. From a disk: what has been
// written is read into a pinned tensor first, what has not is there still; then the output is allocated. An error of
// writing is the swap-in's. Handles stay until the last byte has been copied: the op has not ended before; without a
// handle, as when a step fails, what is not yet written is not.
// To and from the host nobody on the host waits for the copies, where the graph has been split for it (split_swaps.h)
// and the device has streams (stream_copy.h): swap-outs with `behind` and fetches end when their copies have been
// handed over, and LmsSwapWait and LmsSwapFetched let the compute stream wait. Where there is no memory at the moment,
// pinned or of the device, a thread of its own waits for some seconds, and not the executor's. Errors as in swap_cpu.h,
// those of the device as they come. Thread-safety: as all kernels.

#ifndef LMS_CC_TF_RUNTIME_SWAP_GPU_H_
#define LMS_CC_TF_RUNTIME_SWAP_GPU_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace lms {

class Staging;
struct Pinned;
struct SwapContent;

class GpuSwapOut : public tensorflow::AsyncOpKernel {
 public:
  explicit GpuSwapOut(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;
  bool IsExpensive() override { return false; }  // it only hands the copy over

 private:
  void ToHost(tensorflow::OpKernelContext* context, DoneCallback done) const;
  static void Copy(tensorflow::OpKernelContext* context, bool behind, std::shared_ptr<SwapContent> content,
                   DoneCallback done);
  void ToDisk(tensorflow::OpKernelContext* context, DoneCallback done) const;
  // The pinned copy is complete.
  void Spill(tensorflow::OpKernelContext* context, std::shared_ptr<Staging> staging) const;

  bool disk_ = false;
  bool behind_ = false;
  std::string directory_;
  int64_t deadline_ = 0;
  int64_t limit_ = 0;       // of the tier
  int64_t host_limit_ = 0;  // of pinned memory, on the way to a disk
};

class GpuSwapIn : public tensorflow::AsyncOpKernel {
 public:
  explicit GpuSwapIn(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;
  bool IsExpensive() override { return false; }  // it only hands the copy over

 private:
  int64_t deadline_ = 0;
  int64_t host_limit_ = 0;  // of pinned memory, on the way from a disk
};

class GpuSwapFetch : public tensorflow::AsyncOpKernel {
 public:
  explicit GpuSwapFetch(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;
  bool IsExpensive() override { return false; }  // it only hands the copy over

 private:
  static void Copy(tensorflow::OpKernelContext* context, std::shared_ptr<const SwapContent> content,
                   std::shared_ptr<SwapContent> fetched, DoneCallback done);

  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
};

class GpuSwapFetched : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tensorflow::OpKernelContext* context) override;
  bool IsExpensive() override { return false; }
};

class GpuSwapWait : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tensorflow::OpKernelContext* context) override;
  bool IsExpensive() override { return false; }
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SWAP_GPU_H_
