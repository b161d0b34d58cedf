// Measuring the way to a file: the one place that knows who does it.

#ifndef LMS_CC_CORE_SPILL_DISK_LINK_H_
#define LMS_CC_CORE_SPILL_DISK_LINK_H_

#include <cstdint>
#include <string>

#include "cc/core/graph/swap_link.h"

namespace lms {

// Writes and reads a file of its own in the directory, of that many bytes, in up to a second. A link that is not
// usable() where there is a problem.
SwapLink MeasureDiskLink(const std::string& directory, int64_t bytes, std::string* problem);

// Bytes that the files of this process have reserved on disks.
int64_t SpilledBytes();

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_DISK_LINK_H_
