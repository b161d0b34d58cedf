#include "cc/tf/runtime/host_bytes.h"

#include <atomic>
#include <utility>

#include "cc/core/base/bytes.h"

namespace lms {
namespace {

std::atomic<int64_t> host_bytes_in_use{0};
std::atomic<int64_t> host_bytes_peak{0};

}  // namespace

bool HostBytes::Take(int64_t bytes, int64_t limit) {
  int64_t before = host_bytes_in_use;
  do {
    if (limit > 0 && before + bytes > limit) return false;
  } while (!host_bytes_in_use.compare_exchange_weak(before, before + bytes));
  bytes_ += bytes;
  int64_t peak = host_bytes_peak;
  while (before + bytes > peak && !host_bytes_peak.compare_exchange_weak(peak, before + bytes)) {
  }
  return true;
}

void HostBytes::Release() { host_bytes_in_use -= std::exchange(bytes_, 0); }

int64_t HostBytes::InUse() { return host_bytes_in_use; }
int64_t HostBytes::Peak() { return host_bytes_peak; }
void HostBytes::ResetPeak() { host_bytes_peak = host_bytes_in_use.load(); }

absl::Status HostBytesExceeded(const tensorflow::OpKernelContext& context, int64_t bytes, int64_t limit) {
  return absl::ResourceExhaustedError(context.op_kernel().name() + ": swapped tensors take " +
                                      FormatBytes(HostBytes::InUse()) + " of pinned memory; another " +
                                      FormatBytes(bytes) + " exceed swap_host_limit, " + FormatBytes(limit) +
                                      ". Raise swap_host_limit, or swap less");
}

absl::Status AllocatePinned(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                            const tensorflow::TensorShape& shape, bool wait, tensorflow::Tensor* tensor) {
  tensorflow::AllocatorAttributes pinned;
  pinned.set_on_host(true);
  pinned.set_gpu_compatible(true);
  const tensorflow::AllocationAttributes how(/*retry_on_failure=*/wait, /*allocation_will_be_logged=*/false, nullptr);
  return context->allocate_temp(dtype, shape, tensor, pinned, how);
}

}  // namespace lms
