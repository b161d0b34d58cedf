#include "cc/core/spill/disk_link.h"

#include "cc/core/spill/spill_measure.h"
#include "cc/core/spill/spill_store.h"

namespace lms {

SwapLink MeasureDiskLink(const std::string& directory, int64_t bytes, std::string* problem) {
  return MeasureSpill(directory, bytes, problem);
}

int64_t SpilledBytes() { return SharedSpillStatistics().file_bytes; }

}  // namespace lms
