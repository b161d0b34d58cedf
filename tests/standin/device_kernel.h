// A kernel of the stand-in: the CPU's kernel for the same op, run as a GPU's would be.
//
// In the stream (kInStream), which is what most do: Compute takes the outputs from the device's arena and returns; the
// CPU's kernel runs later, on the thread of the compute stream. Like a CUDA kernel it holds nothing: its inputs may be
// freed and handed on before it has run, which is right as long as everything that follows is ordered after it. What it
// allocates besides outputs comes from the host. How large the outputs are, and which share memory with an input, is
// found out by a rehearsal: for each new combination of shapes (and of what the host's inputs hold) a second CPU kernel
// runs once, on copies.
// After the stream (kAfterStream): kernels of resources, of variants and the like, and those whose outputs' sizes
// depend on data. Compute waits for the stream and computes itself, with the outputs and temporaries in the arena. At
// once (kAtOnce): kernels that never touch the device's memory.
//
// Without computing (STANDIN_COMPUTE=0) the first kind takes its outputs and does nothing, and rehearses only where
// shapes do not say what its outputs are (outputs.h): a card's sizes at well under a second a step, with tensors that
// hold nothing.
//
// An error that shows in the stream is that of the next Compute. A kernel that allocates otherwise than in its
// rehearsal ends the process and says which op it was.

#ifndef LMS_TESTS_STANDIN_DEVICE_KERNEL_H_
#define LMS_TESTS_STANDIN_DEVICE_KERNEL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace standin {

// How the outputs of a kernel came about.
struct Outputs;

class DeviceKernel : public tensorflow::OpKernel {
 public:
  // The CPU's kernel for the node that is constructed; where there is none, null, and an error in the construction.
  using MakeCpuKernel = std::function<std::unique_ptr<tensorflow::OpKernel>(tensorflow::OpKernelConstruction*)>;

  DeviceKernel(tensorflow::OpKernelConstruction* construction, const MakeCpuKernel& make);
  ~DeviceKernel() override;
  void Compute(tensorflow::OpKernelContext* context) override;
  bool IsExpensive() override { return false; }

 private:
  enum class Mode { kInStream, kAfterStream, kAtOnce };
  struct Host;

  static Mode ModeOf(const tensorflow::OpKernel& kernel);
  void ComputeInStream(tensorflow::OpKernelContext* context);
  std::vector<tensorflow::Tensor> Whole(tensorflow::OpKernelContext* context) const;
  std::vector<tensorflow::Tensor> SmallInputs(tensorflow::OpKernelContext* context) const;
  std::shared_ptr<const Outputs> WithoutComputing(tensorflow::OpKernelContext* context, const std::vector<bool>& sole);
  absl::Status Rehearse(const std::vector<tensorflow::Tensor>& originals, const std::vector<bool>& sole,
                        tensorflow::OpKernelContext* context, std::shared_ptr<const Outputs>* outputs);

  const Mode mode_;
  const std::shared_ptr<Host> host_;
  const std::unique_ptr<tensorflow::OpKernel> rehearsal_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Outputs>> rehearsed_;  // guarded by mutex_
};

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_DEVICE_KERNEL_H_
