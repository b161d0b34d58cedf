#include "cc/core/options/swap_limits.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include "cc/core/base/bytes.h"

namespace lms {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kGibibyte = int64_t{1} << 30;

// What stays free for everybody else.
int64_t LessReserve(int64_t bytes, int64_t most) { return bytes - std::min(bytes / 10, most); }

int64_t Sum(int64_t a, int64_t b) { return a > kUnbounded - b ? kUnbounded : a + b; }

// Pools round up and fall into pieces: a tenth more than is needed, in whole GiB.
int64_t PoolMegabytes(int64_t needed, int64_t used) {
  const int64_t bytes = Sum(Sum(needed, needed / 10), used);
  return (bytes / kGibibyte + (bytes % kGibibyte == 0 ? 0 : 1)) * 1024;
}

std::string Clause(int64_t needed, const SwapLimit& limit) {
  const std::string allowed = FormatBytes(limit.bytes);
  switch (limit.kind) {
    case SwapLimit::Kind::kHostOption:
      return "swap_host_limit allows " + allowed + ": raise it";
    case SwapLimit::Kind::kHostPool:
      return "TF_GPU_HOST_MEM_LIMIT_IN_MB allows " + allowed +
             (limit.used_bytes > 0 ? " beside " + FormatBytes(limit.used_bytes) + " in use" : "") + ": set it to " +
             std::to_string(PoolMegabytes(needed, limit.used_bytes)) + " before the program starts";
    case SwapLimit::Kind::kHostMemory:
      return "the machine has " + allowed + " for it: swap to disk (swap_to='disk'), or lower the batch";
    case SwapLimit::Kind::kDiskOption:
      return "swap_disk_limit allows " + allowed + ": raise it";
    case SwapLimit::Kind::kDiskSpace:
      return limit.where + " has " + allowed + " to give: make room there, or set swap_to to another directory";
  }
  return "";
}

bool OnHost(SwapLimit::Kind kind) {
  return kind == SwapLimit::Kind::kHostOption || kind == SwapLimit::Kind::kHostPool ||
         kind == SwapLimit::Kind::kHostMemory;
}

}  // namespace

int64_t HostPoolBytes(const char* value) {
  constexpr int64_t kDefaultMegabytes = 65536;
  int64_t megabytes = kDefaultMegabytes;
  if (value != nullptr && *value != '\0') {
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(value, &end, 10);
    if (errno == 0 && *end == '\0') megabytes = number;
  }
  // TensorFlow takes a number below 0 for a huge one.
  return megabytes < 0 || megabytes > kUnbounded / kMebibyte ? kUnbounded : megabytes * kMebibyte;
}

std::vector<SwapLimit> HostLimits(int64_t option_bytes, int64_t pool_bytes, int64_t used_bytes, int64_t memory_bytes) {
  std::vector<SwapLimit> limits;
  if (option_bytes > 0) limits.push_back({SwapLimit::Kind::kHostOption, option_bytes, "", 0});
  limits.push_back({SwapLimit::Kind::kHostPool, std::max<int64_t>(0, pool_bytes - used_bytes), "", used_bytes});
  limits.push_back({SwapLimit::Kind::kHostMemory, LessReserve(memory_bytes, 4 * kGibibyte), "", 0});
  return limits;
}

std::vector<SwapLimit> DiskLimits(int64_t option_bytes, const std::string& directory, int64_t free_bytes,
                                  int64_t own_bytes) {
  std::vector<SwapLimit> limits;
  if (option_bytes > 0) limits.push_back({SwapLimit::Kind::kDiskOption, option_bytes, "", 0});
  limits.push_back(
      {SwapLimit::Kind::kDiskSpace, LessReserve(Sum(free_bytes, own_bytes), 10 * kGibibyte), directory, 0});
  return limits;
}

int64_t LeastLimit(const std::vector<SwapLimit>& limits) {
  int64_t least = kUnbounded;
  for (const SwapLimit& limit : limits) least = std::min(least, limit.bytes);
  return least;
}

std::string SwapLimitWarning(int64_t needed_bytes, const std::vector<SwapLimit>& limits) {
  std::string text;
  for (const SwapLimit& limit : limits) {
    if (limit.bytes >= needed_bytes) continue;
    const char* const of = OnHost(limit.kind) ? " of pinned host memory" : " on disk";
    text += text.empty() ? "swapping needs " + FormatBytes(needed_bytes) + of + ", but " : "; and ";
    text += Clause(needed_bytes, limit);
  }
  return text;
}

}  // namespace lms
