// How fast a directory takes and gives back what is spilled to it.
//
// Moves bytes through a store of its own, on threads like those of the shared ones: out alone, in alone, both at once,
// and single small transfers; the best of a few runs each, of the small ones the median. One lane (swap_link.h). The
// runs are short and their sizes follow the speed that is found: at most `bytes` are stored at a time (and as many
// taken of the memory), half a second in all (on a slow disk one transfer of 256 KiB per run). Meanwhile all processors
// are kept busy, as a step's ops would. compute_us_per_byte is the threads' processor time, undivided: an op that is
// split among all processors ends with its slowest part. capacity_bytes is what is free there. Nothing is left behind.
//
// Thread-safety: may be called from any thread; measures at once spoil each other's figures.

#ifndef LMS_CC_CORE_SPILL_SPILL_MEASURE_H_
#define LMS_CC_CORE_SPILL_SPILL_MEASURE_H_

#include <cstdint>
#include <string>

#include "cc/core/graph/swap_link.h"
#include "cc/core/spill/spill_file.h"

namespace lms {

// `directory`: "" is the default one. `bytes`: at least 1 MiB are taken. Where it fails: a link that is not usable, and
// the problem.
SwapLink MeasureSpill(const std::string& directory, int64_t bytes, std::string* problem);

// The same on other files.
SwapLink MeasureSpill(SpillFiles* files, const std::string& directory, int64_t bytes, std::string* problem);

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_MEASURE_H_
