#include "cc/tf/runtime/swap_handle.h"

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/framework/variant.h"

namespace lms {

SwapContent::~SwapContent() {
  if (pinned != nullptr) pinned->bytes.LeaveToCopy();
}

std::string SwapHandle::DebugString() const {
  if (content_ == nullptr) return "a swapped tensor that is gone";
  return "a swapped tensor: " + tensorflow::DataTypeString(content_->dtype) + " " + content_->shape.DebugString();
}

void SwapHandle::Encode(tensorflow::VariantTensorData* data) const { data->set_type_name(TypeName()); }

void SetSwapHandle(tensorflow::OpKernelContext* context, std::shared_ptr<const SwapContent> content) {
  tensorflow::Tensor* output = nullptr;
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  const absl::Status status = context->allocate_output(0, tensorflow::TensorShape(), &output, on_host);
  if (status.ok()) {
    output->scalar<tensorflow::Variant>()() = SwapHandle(std::move(content));
  } else {
    context->SetStatus(status);
  }
}

std::shared_ptr<const SwapContent> SwapContentOf(tensorflow::OpKernelContext* context, int index) {
  const tensorflow::Tensor& input = context->input(index);
  if (input.dtype() != tensorflow::DT_VARIANT || input.NumElements() != 1) return nullptr;
  const auto* const handle = input.flat<tensorflow::Variant>()(0).get<SwapHandle>();
  return handle == nullptr ? nullptr : handle->content();
}

absl::Status GetSwapContent(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                            std::shared_ptr<const SwapContent>* content) {
  std::shared_ptr<const SwapContent> found = SwapContentOf(context, 0);
  if (found == nullptr) {
    return absl::InvalidArgumentError(context->op_kernel().name() + ": the handle is not the output of a LmsSwapOut");
  }
  if (found->dtype != dtype) {
    return absl::InvalidArgumentError(context->op_kernel().name() + ": a tensor of " +
                                      tensorflow::DataTypeString(found->dtype) + " was swapped out, not " +
                                      tensorflow::DataTypeString(dtype));
  }
  *content = std::move(found);
  return absl::OkStatus();
}

absl::Status SwapStatus(const tensorflow::OpKernelContext& context, const SpillStatus& status) {
  const std::string message = context.op_kernel().name() + ": " + status.message;
  switch (status.code) {
    case SpillCode::kOk:
      return absl::OkStatus();
    case SpillCode::kFull:
      return absl::ResourceExhaustedError(message);
    case SpillCode::kDamaged:
      return absl::DataLossError(message);
    case SpillCode::kCancelled:
      return absl::CancelledError(message);
    case SpillCode::kFailed:
      break;
  }
  return absl::InternalError(message);  // the executor replaces Unavailable by this one
}

absl::Status CheckSwappable(tensorflow::DataType dtype) {
  if (tensorflow::DataTypeCanUseMemcpy(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError("a tensor of type " + tensorflow::DataTypeString(dtype) +
                                    " cannot be swapped: it is more than its bytes");
}

SpillRequest StepRequest(tensorflow::OpKernelContext* context, int64_t deadline) {
  SpillRequest request;
  request.deadline = deadline;
  tensorflow::CancellationManager* const manager = context->cancellation_manager();
  // The step outlives its ops, and the op has not ended while its transfer may still ask.
  if (manager != nullptr) request.cancelled = [manager] { return manager->IsCancelled(); };
  return request;
}

}  // namespace lms
