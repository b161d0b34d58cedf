// TensorFlow's allocator of the CPU, where it is a pool: chunks of regions that are never given back, under a limit.
//
// Where oneDNN is on (a processor with AVX-512 VNNI or newer instructions, or TF_ENABLE_ONEDNN_OPTS=1) it is
// MklCPUAllocator: a BFC allocator whose limit is TF_MKL_ALLOC_MAX_BYTES, for all but what is small, which malloc
// gives. With TF_ONEDNN_USE_SYSTEM_ALLOCATOR=1 malloc gives everything. Where oneDNN is off it is malloc, or, with
// TF_CPU_ALLOCATOR_USE_BFC=1, a BFC allocator with a limit of TF_CPU_BFC_MEM_LIMIT_IN_MB.
//
// Thread-safety: all functions.

#ifndef LMS_CC_TF_PREDICT_CPU_POOL_H_
#define LMS_CC_TF_PREDICT_CPU_POOL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/framework/allocator.h"

namespace lms {

// What is smaller does not come from oneDNN's pool: MklCPUAllocator::kSmallAllocationsThreshold, which is private.
inline constexpr int64_t kLeastPoolBytes = int64_t{256} << 10;

struct CpuPool {
  tensorflow::BFCAllocator* allocator = nullptr;
  tensorflow::Allocator* small = nullptr;  // which gives what is smaller; null: nothing is
  int64_t limit_bytes = 0;
  int64_t in_use_bytes = 0;   // of chunks
  int64_t idle_bytes = 0;     // of its regions, in no chunk that is in use
  int64_t untaken_bytes = 0;  // of the limit, in no region
  int64_t least_bytes = 0;    // what is smaller does not come from it
  bool limited = false;       // to less than the machine has, which is what it may take if nobody says otherwise
  std::string setting;        // the environment variable that sets the limit
};

// Nothing where `allocator` (which may be null) is no such pool.
std::optional<CpuPool> CpuPoolOf(tensorflow::Allocator* allocator);

// Has the pool take all that its limit leaves, as one region. By itself it takes regions that double in size, and no
// tensor lies across two. No page of it is touched: it is address space until tensors lie there. Does nothing where the
// system refuses.
void TakeRest(const CpuPool& pool);

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_CPU_POOL_H_
