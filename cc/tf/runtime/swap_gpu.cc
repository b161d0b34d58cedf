#include "cc/tf/runtime/swap_gpu.h"

#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/core/spill/spill_store.h"
#include "cc/tf/runtime/swap_handle.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/cancellation.h"

namespace lms {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using DoneCallback = ::tensorflow::AsyncOpKernel::DoneCallback;

tensorflow::Device* DeviceOf(OpKernelContext* context) { return static_cast<tensorflow::Device*>(context->device()); }

absl::Status AllocatePinned(OpKernelContext* context, tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
                            Tensor* tensor) {
  tensorflow::AllocatorAttributes pinned;
  pinned.set_on_host(true);
  pinned.set_gpu_compatible(true);
  return context->allocate_temp(dtype, shape, tensor, pinned);
}

absl::Status CheckNotCancelled(OpKernelContext* context) {
  const tensorflow::CancellationManager* const manager = context->cancellation_manager();
  if (manager == nullptr || !const_cast<tensorflow::CancellationManager*>(manager)->IsCancelled()) {
    return absl::OkStatus();
  }
  return SwapStatus(*context, SpillStatus::Cancelled());
}

// From pinned memory, which `host_owner` keeps, into the output.
void CopyIn(OpKernelContext* context, const Tensor* host, std::shared_ptr<const void> host_owner, Tensor* output,
            DoneCallback done) {
  if (host->TotalBytes() == 0) {
    done();
    return;
  }
  context->op_device_context()->CopyCPUTensorToDevice(
      host, DeviceOf(context), output,
      [context, host_owner = std::move(host_owner), done = std::move(done)](const absl::Status& status) mutable {
        if (!status.ok()) context->SetStatus(status);
        host_owner.reset();
        done();
      });
}

// A pinned tensor on the way between device and disk.
struct Staging {
  Tensor host;
  HostBytes host_bytes;
};

}  // namespace

GpuSwapOut::GpuSwapOut(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  std::string tier;
  OP_REQUIRES_OK(construction, construction->GetAttr("tier", &tier));
  OP_REQUIRES_OK(construction, construction->GetAttr("directory", &directory_));
  OP_REQUIRES_OK(construction, construction->GetAttr("deadline", &deadline_));
  OP_REQUIRES_OK(construction, construction->GetAttr("limit", &limit_));
  OP_REQUIRES_OK(construction, CheckSwappable(input_type(0)));
  disk_ = tier == "disk";
}

void GpuSwapOut::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  const Tensor& tensor = context->input(0);
  const auto bytes = static_cast<int64_t>(tensor.TotalBytes());
  auto content = std::make_shared<SwapContent>();
  content->dtype = tensor.dtype();
  content->shape = tensor.shape();
  OP_REQUIRES_ASYNC(
      context, content->host_bytes.Take(bytes, disk_ ? 0 : limit_),
      absl::ResourceExhaustedError(name() + ": swapped tensors take " + FormatBytes(HostBytes::InUse()) +
                                   " of pinned memory; another " + FormatBytes(bytes) + " exceed swap_host_limit, " +
                                   FormatBytes(limit_) + ". Raise swap_host_limit, or swap less"),
      done);
  OP_REQUIRES_OK_ASYNC(context, AllocatePinned(context, tensor.dtype(), tensor.shape(), &content->host), done);
  if (bytes == 0) {
    Spill(context, std::move(content), std::move(done));
    return;
  }
  Tensor* const host = &content->host;
  context->op_device_context()->CopyDeviceTensorToCPU(
      &tensor, "lms_swap_out", DeviceOf(context), host,
      [this, context, content = std::move(content), done = std::move(done)](const absl::Status& copied) mutable {
        const absl::Status status = copied.ok() ? CheckNotCancelled(context) : copied;
        if (status.ok()) {
          Spill(context, std::move(content), std::move(done));
          return;
        }
        context->SetStatus(status);
        content.reset();
        done();
      });
}

void GpuSwapOut::Spill(OpKernelContext* context, std::shared_ptr<SwapContent> content, DoneCallback done) const {
  if (!disk_) {
    SetSwapHandle(context, std::move(content));
    done();
    return;
  }
  content->store = &SharedSpillStore(directory_);
  SpillRequest request = StepRequest(context, deadline_);
  request.limit = limit_;
  const absl::string_view bytes = content->host.tensor_data();
  SpillStore* const store = content->store;
  store->Write(bytes.data(), static_cast<int64_t>(bytes.size()), std::move(request),
               [context, content = std::move(content), done = std::move(done)](const SpillStatus& status,
                                                                               SpillHandle entry) mutable {
                 if (status.ok()) {
                   content->host = Tensor();
                   content->host_bytes.Release();
                   content->entry = std::move(entry);
                   SetSwapHandle(context, std::move(content));
                 } else {
                   context->SetStatus(SwapStatus(*context, status));
                   content.reset();
                 }
                 done();
               });
}

GpuSwapIn::GpuSwapIn(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("deadline", &deadline_));
  OP_REQUIRES_OK(construction, CheckSwappable(output_type(0)));
}

void GpuSwapIn::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  std::shared_ptr<const SwapContent> content;
  OP_REQUIRES_OK_ASYNC(context, GetSwapContent(context, output_type(0), &content), done);
  Tensor* output = nullptr;
  OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, content->shape, &output), done);
  if (content->store == nullptr) {
    const Tensor* const host = &content->host;
    CopyIn(context, host, std::move(content), output, std::move(done));
    return;
  }
  auto staging = std::make_shared<Staging>();
  staging->host_bytes.Take(static_cast<int64_t>(output->TotalBytes()), 0);
  OP_REQUIRES_OK_ASYNC(context, AllocatePinned(context, content->dtype, content->shape, &staging->host), done);
  char* const target = const_cast<char*>(staging->host.tensor_data().data());
  SpillStore* const store = content->store;
  SpillHandle entry = content->entry;
  content.reset();  // from now on only the input holds it, and goes when this op has ended
  store->Read(
      std::move(entry), target, StepRequest(context, deadline_),
      [context, staging = std::move(staging), output, done = std::move(done)](const SpillStatus& status) mutable {
        if (!status.ok()) {
          context->SetStatus(SwapStatus(*context, status));
          staging.reset();
          done();
          return;
        }
        const Tensor* const host = &staging->host;
        CopyIn(context, host, std::move(staging), output, std::move(done));
      });
}

}  // namespace lms
