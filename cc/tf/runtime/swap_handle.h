// What the outputs of LmsSwapOut and LmsSwapFetch hold: a tensor's type, its shape, and its bytes on a tier, or on
// their way back from one.
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
#include "cc/tf/runtime/stream_copy.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace lms {

// A tensor in pinned memory.
struct Pinned {
  tensorflow::Tensor host;
  HostBytes bytes;
};

struct SwapContent {
  SwapContent() = default;
  ~SwapContent();
  SwapContent(const SwapContent&) = delete;
  SwapContent& operator=(const SwapContent&) = delete;

  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  // One of the four.
  SpillStore* store = nullptr;  // of a CPU, with `entry`
  SpillHandle entry;
  std::shared_ptr<Pinned> pinned;       // of a GPU
  std::unique_ptr<PendingSpill> spill;  // of a GPU, on a disk or on its way there
  tensorflow::Tensor device;            // of a GPU, on its way back from `pinned`
  // Of `pinned`: the way out, while that may be under way; of `device`: the way in. Null where nothing is to be waited
  // for.
  std::shared_ptr<StreamCopy> copy;
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

// The content of input `index`; null where there is none.
std::shared_ptr<const SwapContent> SwapContentOf(tensorflow::OpKernelContext* context, int index);

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
