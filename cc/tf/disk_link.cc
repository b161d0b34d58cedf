#include "cc/tf/disk_link.h"

#if __has_include("cc/core/spill_bandwidth.h")
#include "cc/core/spill_bandwidth.h"
#endif

namespace lms {

#if __has_include("cc/core/spill_bandwidth.h")

SwapLink MeasureDiskLink(const std::string& directory, std::string* problem) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  return MeasureSpill(directory, kBytes, problem);
}

#else

SwapLink MeasureDiskLink(const std::string&, std::string* problem) {
  *problem = "this build cannot swap to a file";
  return SwapLink();
}

#endif

int64_t SpilledBytes() { return 0; }

}  // namespace lms
