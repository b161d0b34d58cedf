#include "cc/tf/runtime/swap_gpu.h"

#include <utility>

#include "cc/core/spill/spill_store.h"
#include "cc/tf/runtime/host_bytes.h"
#include "cc/tf/runtime/pending_spill.h"
#include "cc/tf/runtime/staging.h"
#include "cc/tf/runtime/stream_copy.h"
#include "cc/tf/runtime/swap_handle.h"
#include "cc/tf/runtime/swap_memory.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/platform/env.h"

namespace lms {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using DoneCallback = ::tensorflow::AsyncOpKernel::DoneCallback;

tensorflow::Device* DeviceOf(OpKernelContext* context) { return static_cast<tensorflow::Device*>(context->device()); }

absl::Status CheckNotCancelled(OpKernelContext* context) {
  const tensorflow::CancellationManager* const manager = context->cancellation_manager();
  if (manager == nullptr || !const_cast<tensorflow::CancellationManager*>(manager)->IsCancelled()) {
    return absl::OkStatus();
  }
  return SwapStatus(*context, SpillStatus::Cancelled());
}

// The input to pinned memory, which `done` keeps.
void CopyOut(OpKernelContext* context, Tensor* host, std::function<void(const absl::Status& status)> done) {
  const Tensor& tensor = context->input(0);
  if (tensor.TotalBytes() == 0) {
    done(absl::OkStatus());
    return;
  }
  context->op_device_context()->CopyDeviceTensorToCPU(&tensor, "lms_swap_out", DeviceOf(context), host,
                                                      [context, done = std::move(done)](const absl::Status& copied) {
                                                        done(copied.ok() ? CheckNotCancelled(context) : copied);
                                                      });
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

// The input's bytes of pinned memory, within the limit.
absl::Status TakePinned(OpKernelContext* context, int64_t limit, bool wait, Pinned* pinned) {
  const Tensor& input = context->input(0);
  const auto bytes = static_cast<int64_t>(input.TotalBytes());
  switch (pinned->bytes.TakeBehindCopies(bytes, limit, wait)) {
    case HostBytes::Taken::kNo:
      return HostBytesExceeded(*context, bytes, limit);
    case HostBytes::Taken::kLater:
      return absl::ResourceExhaustedError("");
    case HostBytes::Taken::kYes:
      break;
  }
  absl::Status status = AllocatePinned(context, input.dtype(), input.shape(), wait, &pinned->host);
  if (!status.ok()) pinned->bytes.Release();
  return status;
}

absl::Status AllocateOutput(OpKernelContext* context, tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
                            bool wait, Tensor** output) {
  Tensor tensor;
  const absl::Status status = Allocate(context, dtype, shape, context->output_alloc_attr(0), wait, &tensor);
  if (!status.ok()) return status;
  context->set_output(0, tensor);
  *output = context->mutable_output(0);
  return status;
}

// A swap-in from a disk, or from what is on its way there. The output comes last: only when the bytes are in pinned
// memory. Where the device has none left for it at that moment, staging is given back while the op waits, as any op
// does, and the bytes are fetched once more.
class DiskFetch : public std::enable_shared_from_this<DiskFetch> {
 public:
  DiskFetch(OpKernelContext* context, tensorflow::DataType dtype, int64_t deadline, int64_t host_limit,
            DoneCallback done)
      : context_(context), dtype_(dtype), deadline_(deadline), host_limit_(host_limit), done_(std::move(done)) {}

  void Begin() {
    absl::Status status = CheckNotCancelled(context_);
    std::shared_ptr<const SwapContent> content;
    if (status.ok()) status = GetSwapContent(context_, dtype_, &content);
    if (!status.ok()) return End(status);
    PendingSpill::Place place = content->spill->Now();
    if (!place.status.ok()) return End(SwapStatus(*context_, place.status));
    if (place.pinned != nullptr) return Copy(std::move(place.pinned));
    store_ = content->spill->store();
    shape_ = content->shape;
    TakeStaging({context_, dtype_, shape_, host_limit_, deadline_},
                [self = shared_from_this(), entry = std::move(place.entry)](const absl::Status& taken,
                                                                            std::shared_ptr<Staging> staging) mutable {
                  if (!taken.ok()) return self->End(taken);
                  self->Read(std::move(entry), std::move(staging));
                });
  }

 private:
  void Read(SpillHandle entry, std::shared_ptr<Staging> staging) {
    char* const target = const_cast<char*>(staging->host().tensor_data().data());
    store_->Read(std::move(entry), target, StepRequest(context_, deadline_),
                 [self = shared_from_this(), staging = std::move(staging)](const SpillStatus& status) mutable {
                   if (status.ok()) return self->Copy(std::move(staging));
                   staging.reset();
                   self->End(SwapStatus(*self->context_, status));
                 });
  }

  void Copy(std::shared_ptr<Staging> staging) {
    shape_ = staging->host().shape();
    if (output_ == nullptr && !Allocate(/*wait=*/false).ok()) {
      staging.reset();
      // Not here: this may be a thread that other transfers need.
      tensorflow::Env::Default()->SchedClosure([self = shared_from_this()] {
        const absl::Status status = self->Allocate(/*wait=*/true);
        if (!status.ok()) return self->End(status);
        self->Begin();
      });
      return;
    }
    const Tensor* const host = &staging->host();
    CopyIn(context_, host, std::move(staging), output_, std::move(done_));
  }

  absl::Status Allocate(bool wait) { return AllocateOutput(context_, dtype_, shape_, wait, &output_); }

  void End(const absl::Status& status) {
    context_->SetStatus(status);
    const DoneCallback done = std::move(done_);
    done();
  }

  OpKernelContext* const context_;
  const tensorflow::DataType dtype_;
  const int64_t deadline_;
  const int64_t host_limit_;
  DoneCallback done_;
  SpillStore* store_ = nullptr;
  tensorflow::TensorShape shape_;
  Tensor* output_ = nullptr;
};

}  // namespace

GpuSwapOut::GpuSwapOut(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  std::string tier;
  OP_REQUIRES_OK(construction, construction->GetAttr("tier", &tier));
  OP_REQUIRES_OK(construction, construction->GetAttr("directory", &directory_));
  OP_REQUIRES_OK(construction, construction->GetAttr("deadline", &deadline_));
  OP_REQUIRES_OK(construction, construction->GetAttr("limit", &limit_));
  OP_REQUIRES_OK(construction, construction->GetAttr("host_limit", &host_limit_));
  OP_REQUIRES_OK(construction, CheckSwappable(input_type(0)));
  OP_REQUIRES_OK(construction, construction->GetAttr("behind", &behind_));
  disk_ = tier == "disk";
}

void GpuSwapOut::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  if (disk_) {
    ToDisk(context, std::move(done));
  } else {
    ToHost(context, std::move(done));
  }
}

void GpuSwapOut::ToHost(OpKernelContext* context, DoneCallback done) const {
  const Tensor& tensor = context->input(0);
  auto content = std::make_shared<SwapContent>();
  content->dtype = tensor.dtype();
  content->shape = tensor.shape();
  content->pinned = std::make_shared<Pinned>();
  const bool behind = behind_ && tensor.TotalBytes() > 0 && StreamCopy::CanRun(context);
  const auto allocate = [context, limit = limit_, pinned = content->pinned.get()](bool wait) {
    return TakePinned(context, limit, wait, pinned);
  };
  AllocateBehind(allocate, [context, behind, content = std::move(content),
                            done = std::move(done)](const absl::Status& status) mutable {
    if (status.ok()) return Copy(context, behind, std::move(content), std::move(done));
    context->SetStatus(status);
    content.reset();
    done();
  });
}

void GpuSwapOut::Copy(OpKernelContext* context, bool behind, std::shared_ptr<SwapContent> content, DoneCallback done) {
  Tensor* const host = &content->pinned->host;
  if (behind) {
    absl::Status status = CheckNotCancelled(context);
    if (status.ok()) status = StreamCopy::Out(context, context->input(0), *host, content->pinned, &content->copy);
    if (status.ok()) {
      SetSwapHandle(context, std::move(content));
    } else {
      context->SetStatus(status);
      content.reset();
    }
    return done();
  }
  CopyOut(context, host,
          [context, content = std::move(content), done = std::move(done)](const absl::Status& status) mutable {
            if (status.ok()) {
              SetSwapHandle(context, std::move(content));
            } else {
              context->SetStatus(status);
              content.reset();
            }
            done();
          });
}

void GpuSwapOut::ToDisk(OpKernelContext* context, DoneCallback done) const {
  const Tensor& tensor = context->input(0);
  TakeStaging({context, tensor.dtype(), tensor.shape(), host_limit_, deadline_},
              [this, context, done = std::move(done)](const absl::Status& taken, std::shared_ptr<Staging> staging) {
                OP_REQUIRES_OK_ASYNC(context, taken, done);
                Tensor* const host = staging->mutable_host();
                CopyOut(context, host,
                        [this, context, staging = std::move(staging), done](const absl::Status& status) mutable {
                          if (status.ok()) {
                            Spill(context, std::move(staging));
                          } else {
                            context->SetStatus(status);
                            staging.reset();
                          }
                          done();
                        });
              });
}

void GpuSwapOut::Spill(OpKernelContext* context, std::shared_ptr<Staging> staging) const {
  auto content = std::make_shared<SwapContent>();
  content->dtype = staging->host().dtype();
  content->shape = staging->host().shape();
  SpillRequest request;
  request.deadline = deadline_;
  request.limit = limit_;
  content->spill =
      std::make_unique<PendingSpill>(name(), &SharedSpillStore(directory_), std::move(staging), std::move(request));
  SetSwapHandle(context, std::move(content));
}

GpuSwapIn::GpuSwapIn(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("deadline", &deadline_));
  OP_REQUIRES_OK(construction, construction->GetAttr("host_limit", &host_limit_));
  OP_REQUIRES_OK(construction, CheckSwappable(output_type(0)));
}

void GpuSwapIn::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  std::shared_ptr<const SwapContent> content;
  OP_REQUIRES_OK_ASYNC(context, GetSwapContent(context, output_type(0), &content), done);
  if (content->spill != nullptr) {
    content.reset();  // only the input holds it, and goes when this op has ended
    std::make_shared<DiskFetch>(context, output_type(0), deadline_, host_limit_, std::move(done))->Begin();
    return;
  }
  OP_REQUIRES_ASYNC(context, content->pinned != nullptr,
                    absl::InvalidArgumentError(name() + ": the tensor was swapped out on another device"), done);
  auto output = std::make_shared<Tensor*>(nullptr);
  const auto allocate = [context, output, dtype = content->dtype, shape = content->shape](bool wait) {
    return AllocateOutput(context, dtype, shape, wait, output.get());
  };
  AllocateBehind(allocate, [context, output, content = std::move(content),
                            done = std::move(done)](const absl::Status& status) mutable {
    OP_REQUIRES_OK_ASYNC(context, status, done);
    const Tensor* const host = &content->pinned->host;
    CopyIn(context, host, std::move(content), *output, std::move(done));
  });
}

GpuSwapFetch::GpuSwapFetch(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("T", &dtype_));
  OP_REQUIRES_OK(construction, CheckSwappable(dtype_));
}

void GpuSwapFetch::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  std::shared_ptr<const SwapContent> content;
  OP_REQUIRES_OK_ASYNC(context, GetSwapContent(context, dtype_, &content), done);
  OP_REQUIRES_ASYNC(context, content->pinned != nullptr,
                    absl::InvalidArgumentError(name() + ": the tensor is not in pinned memory"), done);
  // What nothing has waited for yet is on the device still.
  if (content->copy != nullptr) OP_REQUIRES_OK_ASYNC(context, content->copy->Wait(), done);
  auto fetched = std::make_shared<SwapContent>();
  fetched->dtype = content->dtype;
  fetched->shape = content->shape;
  const auto allocate = [context, fetched = fetched.get()](bool wait) {
    return Allocate(context, fetched->dtype, fetched->shape, {}, wait, &fetched->device);
  };
  AllocateBehind(allocate, [context, fetched = std::move(fetched), content = std::move(content),
                            done = std::move(done)](const absl::Status& status) mutable {
    OP_REQUIRES_OK_ASYNC(context, status, done);
    Copy(context, std::move(content), std::move(fetched), std::move(done));
  });
}

void GpuSwapFetch::Copy(OpKernelContext* context, std::shared_ptr<const SwapContent> content,
                        std::shared_ptr<SwapContent> fetched, DoneCallback done) {
  std::shared_ptr<Pinned> pinned = content->pinned;
  // The bytes may still be on their way out: nothing on the host has waited for that.
  const std::shared_ptr<StreamCopy> out = content->copy;
  content.reset();
  Tensor* const device = &fetched->device;
  if (pinned->host.TotalBytes() > 0 && StreamCopy::CanRun(context)) {
    absl::Status status = CheckNotCancelled(context);
    if (status.ok()) status = StreamCopy::In(context, pinned->host, pinned, out.get(), *device, &fetched->copy);
    context->SetStatus(status);
    if (status.ok()) SetSwapHandle(context, std::move(fetched));
    pinned.reset();
    fetched.reset();
    return done();
  }
  const Tensor* const host = &pinned->host;
  CopyIn(context, host, std::move(pinned), device,
         [context, fetched = std::move(fetched), done = std::move(done)]() mutable {
           if (context->status().ok()) SetSwapHandle(context, std::move(fetched));
           fetched.reset();
           done();
         });
}

void GpuSwapFetched::Compute(OpKernelContext* context) {
  std::shared_ptr<const SwapContent> content;
  OP_REQUIRES_OK(context, GetSwapContent(context, output_type(0), &content));
  OP_REQUIRES(context, content->device.IsInitialized() || content->shape.num_elements() == 0,
              absl::InvalidArgumentError(name() + ": the tensor has not been fetched"));
  if (content->copy != nullptr) OP_REQUIRES_OK(context, content->copy->Wait());
  context->set_output(0, content->device);
}

void GpuSwapWait::Compute(OpKernelContext* context) {
  for (int i = 0; i < context->num_inputs(); ++i) {
    const std::shared_ptr<const SwapContent> content = SwapContentOf(context, i);
    if (content != nullptr && content->copy != nullptr) OP_REQUIRES_OK(context, content->copy->Wait());
  }
}

}  // namespace lms
