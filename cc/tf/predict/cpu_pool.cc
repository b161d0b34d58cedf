#include "cc/tf/predict/cpu_pool.h"

#include <unistd.h>

#include <algorithm>

#include "cc/tf/predict/device_arena.h"
#include "tensorflow/core/common_runtime/pool_allocator.h"
#include "tensorflow/core/lib/strings/numbers.h"
#include "tensorflow/core/lib/strings/str_util.h"
#include "tensorflow/core/platform/mem.h"
#include "tensorflow/core/platform/numa.h"
#include "tensorflow/core/util/env_var.h"

// TensorFlow's class is there only for those who are built with oneDNN, as its wheels are. What it includes stands
// above, so that nothing else is.
#ifndef INTEL_MKL
#define INTEL_MKL
#include "tensorflow/core/common_runtime/mkl_cpu_allocator.h"
#undef INTEL_MKL
#else
#include "tensorflow/core/common_runtime/mkl_cpu_allocator.h"
#endif

namespace lms {
namespace {

using ::tensorflow::BFCAllocator;
using ::tensorflow::MklCPUAllocator;

// The two are private members, and nothing else leads to the pool's chunks. An explicit instantiation may name them.
tensorflow::Allocator* LargeAllocations(const MklCPUAllocator& allocator);
tensorflow::Allocator* SmallAllocations(const MklCPUAllocator& allocator);
template <auto kLarge, auto kSmall>
struct PrivateMembers {
  friend tensorflow::Allocator* LargeAllocations(const MklCPUAllocator& allocator) { return allocator.*kLarge; }
  friend tensorflow::Allocator* SmallAllocations(const MklCPUAllocator& allocator) { return allocator.*kSmall; }
};
template struct PrivateMembers<&MklCPUAllocator::large_size_allocator_, &MklCPUAllocator::small_size_allocator_>;

bool UsesMalloc() {
  bool uses = false;
  return tensorflow::ReadBoolFromEnvVar("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", false, &uses).ok() && uses;
}

int64_t MachineBytes() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

}  // namespace

std::optional<CpuPool> CpuPoolOf(tensorflow::Allocator* allocator) {
  CpuPool pool;
  if (const auto* const mkl = dynamic_cast<const MklCPUAllocator*>(allocator)) {
    if (UsesMalloc()) return std::nullopt;
    pool.allocator = dynamic_cast<BFCAllocator*>(LargeAllocations(*mkl));
    pool.small = SmallAllocations(*mkl);
    pool.least_bytes = kLeastPoolBytes;
    pool.setting = MklCPUAllocator::kMaxLimitStr;
  } else {
    pool.allocator = dynamic_cast<BFCAllocator*>(allocator);
    pool.setting = "TF_CPU_BFC_MEM_LIMIT_IN_MB";
  }
  if (pool.allocator == nullptr) return std::nullopt;
  const auto stats = pool.allocator->GetStats();
  if (!stats || !stats->bytes_limit) return std::nullopt;
  pool.limit_bytes = *stats->bytes_limit;
  pool.in_use_bytes = stats->bytes_in_use;
  int64_t taken = 0;
  for (const ArenaSettings::Piece& piece : PiecesOf(pool.allocator)) {
    taken += piece.bytes;
    if (!piece.used) pool.idle_bytes += piece.bytes;
  }
  pool.untaken_bytes = std::max<int64_t>(0, pool.limit_bytes - taken) / kArenaUnit * kArenaUnit;
  pool.limited = pool.limit_bytes < MachineBytes();
  return pool;
}

void TakeRest(const CpuPool& pool) {
  if (pool.untaken_bytes == 0) return;
  const tensorflow::AllocationAttributes at_once(/*retry_on_failure=*/false, /*allocation_will_be_logged=*/false,
                                                 /*freed_by_func=*/nullptr);
  // Not as virtual calls: those of a pool whose bytes are counted would count this as a tensor.
  BFCAllocator& allocator = *pool.allocator;
  void* const region = allocator.BFCAllocator::AllocateRaw(tensorflow::Allocator::kAllocatorAlignment,
                                                           static_cast<size_t>(pool.untaken_bytes), at_once);
  if (region != nullptr) allocator.BFCAllocator::DeallocateRaw(region);
}

}  // namespace lms
