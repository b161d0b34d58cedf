#include "cc/tf/runtime/swap_cpu.h"

#include <memory>
#include <utility>

#include "cc/core/spill/spill_store.h"
#include "cc/tf/runtime/swap_handle.h"

namespace lms {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

CpuSwapOut::CpuSwapOut(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  std::string tier;
  OP_REQUIRES_OK(construction, construction->GetAttr("tier", &tier));
  OP_REQUIRES_OK(construction, construction->GetAttr("directory", &directory_));
  OP_REQUIRES_OK(construction, construction->GetAttr("deadline", &deadline_));
  OP_REQUIRES_OK(construction, construction->GetAttr("limit", &limit_));
  OP_REQUIRES(construction, tier == "disk",
              absl::InvalidArgumentError(name() + ": the memory of a CPU is the host's: it is swapped to \"disk\""));
  OP_REQUIRES_OK(construction, CheckSwappable(input_type(0)));
}

void CpuSwapOut::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  const Tensor& tensor = context->input(0);
  auto content = std::make_shared<SwapContent>();
  content->dtype = tensor.dtype();
  content->shape = tensor.shape();
  content->store = &SharedSpillStore(directory_);
  SpillRequest request = StepRequest(context, deadline_);
  request.limit = limit_;
  const absl::string_view bytes = tensor.tensor_data();
  SpillStore* const store = content->store;
  store->Write(bytes.data(), static_cast<int64_t>(bytes.size()), std::move(request),
               [context, done = std::move(done), content = std::move(content)](const SpillStatus& status,
                                                                               SpillHandle entry) mutable {
                 if (status.ok()) {
                   content->entry = std::move(entry);
                   SetSwapHandle(context, std::move(content));
                 } else {
                   context->SetStatus(SwapStatus(*context, status));
                 }
                 done();
               });
}

CpuSwapIn::CpuSwapIn(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("deadline", &deadline_));
  OP_REQUIRES_OK(construction, CheckSwappable(output_type(0)));
}

void CpuSwapIn::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  std::shared_ptr<const SwapContent> content;
  OP_REQUIRES_OK_ASYNC(context, GetSwapContent(context, output_type(0), &content), done);
  OP_REQUIRES_ASYNC(context, content->store != nullptr,
                    absl::InvalidArgumentError(name() + ": the tensor was swapped out on another device"), done);
  Tensor* output = nullptr;
  OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, content->shape, &output), done);
  SpillStore* const store = content->store;
  SpillHandle entry = content->entry;
  content.reset();  // from now on only the input holds it, and goes when this op has ended
  store->Read(std::move(entry), const_cast<char*>(output->tensor_data().data()), StepRequest(context, deadline_),
              [context, done = std::move(done)](const SpillStatus& status) {
                if (!status.ok()) context->SetStatus(SwapStatus(*context, status));
                done();
              });
}

}  // namespace lms
