#include "cc/tf/disk_link.h"

#if __has_include("cc/core/spill_measure.h")
#include "cc/core/spill_measure.h"
#endif
#if __has_include("cc/core/spill_store.h")
#include "cc/core/spill_store.h"
#endif

namespace lms {

#if __has_include("cc/core/spill_measure.h")
SwapLink MeasureDiskLink(const std::string& directory, int64_t bytes, std::string* problem) {
  return MeasureSpill(directory, bytes, problem);
}
#else
SwapLink MeasureDiskLink(const std::string&, int64_t, std::string* problem) {
  *problem = "this build cannot swap to a file";
  return SwapLink();
}
#endif

#if __has_include("cc/core/spill_store.h")
int64_t SpilledBytes() { return SharedSpillStatistics().file_bytes; }
#else
int64_t SpilledBytes() { return 0; }
#endif

}  // namespace lms
