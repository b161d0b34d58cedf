// Memory over a run in which ops overlap: the plain simulator for several threads.
//
// A run is a sequence of events: an op begins, an op ends. When it begins, its outputs and its workspace are allocated,
// but an output whose size equals that of a forwardable input that nobody else will read takes over that storage. When
// it ends, the workspace and the inputs that it was the last to read are freed. With one thread, and the ops one after
// the other, this is what liveness.h computes.
//
// Variables are copied by an update while somebody holds what was read of them: the old contents stay until the last
// such reader has ended (`held_reads`).
//
// Ops of branches that are not taken are dead: they have their turn, but allocate nothing and hold nothing.
//
// With a device's memory (device_memory.h) what counts is what chunks take: they may be larger than what is asked for,
// and there may be none that is large enough: by how much is `lacking_bytes`. What is resident counts as asked for. The
// memory is left as the next step finds it.
//
// Linear in events and reads.

#ifndef LMS_CC_CORE_SIMULATE_OVERLAP_H_
#define LMS_CC_CORE_SIMULATE_OVERLAP_H_

#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/simulate/device_memory.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/places.h"

namespace lms {

struct RunEvent {
  OpId op;
  bool ends;
};

// `reader` holds the storage of `variable` from the end of `read` (an op that reads it) to its own end.
struct HeldRead {
  BufferId variable;
  OpId read;
  OpId reader;
};

// Each op of the graph begins and ends once, after those it depends on. The profile's op_bytes are per op, bytes in use
// when it has begun; its order is that in which they begin. `dead`: per op; none: all of them run. `lifetimes`, unless
// it is null, gets all that is allocated; its times are numbers of events.
MemoryProfile SimulateRun(const MemGraph& graph, const std::vector<RunEvent>& run,
                          const std::vector<HeldRead>& held_reads, const std::vector<bool>& dead = {},
                          DeviceMemory* memory = nullptr, std::vector<Lifetime>* lifetimes = nullptr);

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_OVERLAP_H_
