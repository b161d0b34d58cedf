// A run of overlap.h in full: what is held from when to when.

#ifndef LMS_CC_CORE_SIMULATE_RUN_RECORD_H_
#define LMS_CC_CORE_SIMULATE_RUN_RECORD_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/overlap.h"

namespace lms {

// What is held during a stretch of a run. Positions are those of the profile's order.
struct Holding {
  enum class What { kBuffer, kWorkspace, kOldContents };  // the last: of a variable that has been updated meanwhile

  What what = What::kBuffer;
  int32_t of = kNone;  // the buffer; of a workspace: the op
  int64_t bytes = 0;   // in an arena: of its chunk
  int32_t first = 0;   // position of the op that allocates it
  int32_t last = 0;    // the last position at which it is in use
};

// At every position the bytes of what is held there add up to the bytes in use.
struct RunRecord {
  std::vector<Holding> holdings;  // of more than 0 bytes, resident buffers included
};

// As SimulateRun(), with the same profile; fills in the record's holdings.
MemoryProfile RecordRun(const MemGraph& graph, const std::vector<RunEvent>& run,
                        const std::vector<HeldRead>& held_reads, RunRecord* record, const std::vector<bool>& dead = {},
                        DeviceMemory* memory = nullptr);

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_RUN_RECORD_H_
