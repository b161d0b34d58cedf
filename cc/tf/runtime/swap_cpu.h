// LmsSwapOut and LmsSwapIn on a CPU: to a spill file and back (spill_store.h).
//
// The bytes go straight from the tensor's memory into the store's buffers, and back into the output, which is allocated
// when the swap-in begins. The input stays with the op until the copy has ended; the executor lets go of it before what
// waits for the op runs. A full disk is ResourceExhausted, a damaged file DataLoss, a cancelled step Cancelled, any
// other error Internal; each names the node. Thread-safety: as all kernels.

#ifndef LMS_CC_TF_RUNTIME_SWAP_CPU_H_
#define LMS_CC_TF_RUNTIME_SWAP_CPU_H_

#include <cstdint>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace lms {

class CpuSwapOut : public tensorflow::AsyncOpKernel {
 public:
  explicit CpuSwapOut(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;
  bool IsExpensive() override { return false; }  // it only hands the copy over

 private:
  std::string directory_;
  int64_t deadline_ = 0;
  int64_t limit_ = 0;
};

class CpuSwapIn : public tensorflow::AsyncOpKernel {
 public:
  explicit CpuSwapIn(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;
  bool IsExpensive() override { return false; }  // it only hands the copy over

 private:
  int64_t deadline_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SWAP_CPU_H_
