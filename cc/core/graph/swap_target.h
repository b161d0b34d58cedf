// Where the swap-outs of a step put their bytes, as the attributes of their nodes say it.

#ifndef LMS_CC_CORE_GRAPH_SWAP_TARGET_H_
#define LMS_CC_CORE_GRAPH_SWAP_TARGET_H_

#include <cstdint>
#include <string>

namespace lms {

struct SwapTarget {
  std::string tier = "host";  // or "disk"
  std::string directory;      // of the spill file; "": the system's own for temporary files
  int64_t limit_bytes = 0;    // that may be on the tier at a time; 0: no limit but the tier's
  int64_t host_limit = 0;     // bytes of pinned memory on a GPU's way to a disk; 0: no limit but the machine's
};

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_SWAP_TARGET_H_
