// How many bytes a tier can take, what limits them, and which setting to change.
//
// Pure functions of what they are given; who asks the system is directory_facts.h and system_memory.h.

#ifndef LMS_CC_CORE_OPTIONS_SWAP_LIMITS_H_
#define LMS_CC_CORE_OPTIONS_SWAP_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/system/directory_facts.h"

namespace lms {

struct SwapLimit {
  enum class Kind {
    kHostOption,  // swap_host_limit
    kHostPool,    // TensorFlow's pool of pinned memory: TF_GPU_HOST_MEM_LIMIT_IN_MB
    kHostMemory,  // what this process may still take of the machine's memory
    kDiskOption,  // swap_disk_limit
    kDiskSpace,   // free in the directory
  };
  Kind kind = Kind::kHostOption;
  int64_t bytes = 0;       // that may be stored at a time
  std::string where;       // kDiskSpace: the directory
  int64_t used_bytes = 0;  // kHostPool: taken of it already, for other purposes
};

// TensorFlow's pool of pinned memory, as it reads `value`, the variable TF_GPU_HOST_MEM_LIMIT_IN_MB: 64 GiB where it is
// not set (null) or no whole number.
int64_t HostPoolBytes(const char* value);

// `option_bytes`: swap_host_limit, 0: none. `pool_bytes`: of the pool, of which used_bytes are taken; `memory_bytes`:
// that the machine has left for this process. A part of the latter stays free.
std::vector<SwapLimit> HostLimits(int64_t option_bytes, int64_t pool_bytes, int64_t used_bytes, int64_t memory_bytes);

// `option_bytes`: swap_disk_limit, 0: none. `own_bytes`: of the free space's use, what swapping itself holds already.
// A tenth of what is free, 10 GiB at most, stays free.
std::vector<SwapLimit> DiskLimits(int64_t option_bytes, const std::string& directory, int64_t free_bytes,
                                  int64_t own_bytes);

// The least of them, in bytes; the largest number where there is none.
int64_t LeastLimit(const std::vector<SwapLimit>& limits);

// Why `needed_bytes`, stored at a time, are too many, and which settings would make room: one clause for each limit
// below them; "" where all allow it.
std::string SwapLimitWarning(int64_t needed_bytes, const std::vector<SwapLimit>& limits);

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_SWAP_LIMITS_H_
