// The plain simulator: memory over time when a plan is carried out.
//
// One pass over the events of the step, written for being obviously right; planners keep an incremental account of
// their own and are checked against this one. At each event (an op, or a recomputation before it) the outputs and the
// workspace are allocated on top of everything live, then every instance whose last read this was is freed. An output
// whose size equals that of a forwardable input that dies at the event takes over its storage and adds nothing.
// A swap-out holds its instance until its op has run; a swap-in allocates as a step does, and reads nothing.
// An op that a step moves does not run at its own place: there only what is live counts. Resident buffers count during
// the whole step. Linear in ops, reads and steps.

#ifndef LMS_CC_CORE_SIMULATE_LIVENESS_H_
#define LMS_CC_CORE_SIMULATE_LIVENESS_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"

namespace lms {

struct MemoryProfile {
  int64_t resident_bytes = 0;
  int64_t peak_bytes = 0;              // resident included
  OpId peak_op = kNone;                // the op at which (or before which) it occurs
  int64_t lacking_bytes = 0;           // with an arena (overlap.h): by how much room was short, at the worst
  int64_t lacking_as_is = 0;           // and in the first arena, without what is set aside of the others
  int64_t lost_bytes = 0;              // with an arena: what peak_bytes is above the most that is asked for at once
  int64_t outside_bytes = 0;           // with an arena: what is too small for it, at its most; resident not included
  std::vector<int64_t> op_bytes;       // per op: bytes in use while it runs, resident included
  std::vector<int64_t> step_bytes;     // per plan step, likewise
  std::vector<int64_t> swap_in_bytes;  // per swap-in of the plan, when it has begun
  std::vector<OpId> order;             // in which the ops ran, where it is not that of the graph
  std::vector<int64_t> order_peaks;  // peak_bytes of each order that was looked at, lowest first; empty: of this alone

  // Bytes in use at one op after the other, as they ran.
  std::vector<int64_t> Timeline() const;
};

// `graph` is in execution order and `plan` valid for it.
MemoryProfile Simulate(const MemGraph& graph, const Plan& plan);

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_LIVENESS_H_
