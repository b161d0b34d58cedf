// What the output of LmsSwapOut holds: a tensor's type, its shape, and its bytes on a tier.
//
// SwapHandle is the value of the Variant; copies of it share one SwapContent, which gives back what it holds with the
// last of them. It never leaves its process: it cannot be encoded. Thread-safety: a SwapContent does not change once
// its handle exists, but for `spill`, which is thread-safe.

#ifndef LMS_CC_TF_RUNTIME_SWAP_HANDLE_H_
#define LMS_CC_TF_RUNTIME_SWAP_HANDLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/spill/spill_store.h"
#include "cc/tf/runtime/host_bytes.h"
#include "cc/tf/runtime/pending_spill.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace lms {

struct SwapContent {
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  // One of the three.
  SpillStore* store = nullptr;  // of a CPU, with `entry`
  SpillHandle entry;
  tensorflow::Tensor host;              // of a GPU
  HostBytes host_bytes;                 // of `host`
  std::unique_ptr<PendingSpill> spill;  // of a GPU, on a disk or on its way there
};

class SwapHandle {
 public:
  SwapHandle() = default;
  explicit SwapHandle(std::shared_ptr<const SwapContent> content) : content_(std::move(content)) {}

  const std::shared_ptr<const SwapContent>& content() const { return content_; }

  std::string TypeName() const { return "lms::SwapHandle"; }
  std::string DebugString() const;
  void Encode(tensorflow::VariantTensorData* data) const;
  bool Decode(const tensorflow::VariantTensorData& /*data*/) { return false; }

 private:
  std::shared_ptr<const SwapContent> content_;
};

// Sets output 0 to the handle, or the error.
void SetSwapHandle(tensorflow::OpKernelContext* context, std::shared_ptr<const SwapContent> content);

// The content of input 0, which has to be of `dtype`; an error where there is none.
absl::Status GetSwapContent(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                            std::shared_ptr<const SwapContent>* content);

// The step's error for it, with the name of the node.
absl::Status SwapStatus(const tensorflow::OpKernelContext& context, const SpillStatus& status);

// An error unless the bytes of such tensors can be copied.
absl::Status CheckSwappable(tensorflow::DataType dtype);

// A request of this step: it is cancelled with the step.
SpillRequest StepRequest(tensorflow::OpKernelContext* context, int64_t deadline);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SWAP_HANDLE_H_
