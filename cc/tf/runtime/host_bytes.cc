#include "cc/tf/runtime/host_bytes.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "cc/core/base/bytes.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"

namespace lms {
namespace {

struct Account {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t in_use = 0;
  int64_t left_to_copies = 0;  // of that
  int64_t peak = 0;
  int64_t most_held = 0;  // the most that was in use and not left to copies
};

Account& All() {
  static auto* const account = new Account;
  return *account;
}

// With the mutex held.
void Add(int64_t bytes, Account* all) {
  all->in_use += bytes;
  all->peak = std::max(all->peak, all->in_use);
  all->most_held = std::max(all->most_held, all->in_use - all->left_to_copies);
}

}  // namespace

bool HostBytes::Take(int64_t bytes, int64_t limit) {
  Account& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (limit > 0 && all.in_use + bytes > limit) return false;
  Add(bytes, &all);
  bytes_ += bytes;
  return true;
}

HostBytes::Taken HostBytes::TakeBehindCopies(int64_t bytes, int64_t limit, bool wait) {
  Account& all = All();
  std::unique_lock<std::mutex> lock(all.mutex);
  for (;;) {
    const int64_t without_copies = all.in_use - all.left_to_copies + bytes;
    if (limit > 0 && without_copies > limit) return Taken::kNo;
    const int64_t most = std::max(all.most_held, without_copies);
    if (all.in_use + bytes <= (limit > 0 ? std::min(limit, most) : most)) break;
    if (!wait) return Taken::kLater;
    all.changed.wait(lock);
  }
  Add(bytes, &all);
  bytes_ += bytes;
  return Taken::kYes;
}

void HostBytes::LeaveToCopy() {
  Account& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!std::exchange(left_to_copy_, true)) all.left_to_copies += bytes_;
}

void HostBytes::Release() {
  Account& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (std::exchange(left_to_copy_, false)) all.left_to_copies -= bytes_;
  all.in_use -= std::exchange(bytes_, 0);
  all.changed.notify_all();
}

int64_t HostBytes::InUse() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  return All().in_use;
}

int64_t HostBytes::Peak() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  return All().peak;
}

void HostBytes::ResetPeak() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().peak = All().in_use;
}

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
  absl::Status status = Allocate(context, dtype, shape, pinned, wait, tensor);
  if (!absl::IsResourceExhausted(status)) return status;
  const int64_t bytes = shape.num_elements() * tensorflow::DataTypeSize(dtype);
  return absl::ResourceExhaustedError(
      context->op_kernel().name() + ": no pinned memory for a swapped tensor of " + FormatBytes(bytes) +
      ": the machine has no more, or TensorFlow's pool is full, of which swapped tensors take " +
      FormatBytes(HostBytes::InUse()) +
      ". Raise TF_GPU_HOST_MEM_LIMIT_IN_MB before Python starts, set swap_host_limit to less, or swap_to=\"disk\"");
}

absl::Status Allocate(tensorflow::OpKernelContext* context, tensorflow::DataType dtype,
                      const tensorflow::TensorShape& shape, tensorflow::AllocatorAttributes where, bool wait,
                      tensorflow::Tensor* tensor) {
  const tensorflow::AllocationAttributes how(/*retry_on_failure=*/wait, /*allocation_will_be_logged=*/false, nullptr);
  return context->allocate_temp(dtype, shape, tensor, where, how);
}

void AllocateBehind(const std::function<absl::Status(bool wait)>& allocate,
                    std::function<void(const absl::Status&)> ready) {
  const absl::Status status = allocate(/*wait=*/false);
  if (!absl::IsResourceExhausted(status)) return ready(status);
  tensorflow::Env::Default()->SchedClosure([allocate, ready = std::move(ready)] { ready(allocate(/*wait=*/true)); });
}

}  // namespace lms
