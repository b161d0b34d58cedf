// What the CPU's pool of memory is asked for and what it gives, request by request, to hold the model of it against.
//
// For measurements: while it records, each request costs about a microsecond and requests wait for each other, so that
// their order is that in which the allocator has served them.
//
// Thread-safety: all functions; one recording at a time.

#ifndef LMS_CC_TF_PREDICT_ARENA_TRACE_H_
#define LMS_CC_TF_PREDICT_ARENA_TRACE_H_

#include <string>
#include <vector>

#include "cc/core/simulate/arena.h"
#include "cc/core/simulate/arena_replay.h"

namespace lms {

struct ArenaTrace {
  ArenaSettings before;  // with the pieces that there were
  std::vector<ArenaRequest> requests;
  std::vector<ArenaSettings::Piece> after;
  // Of chunks in use and of what is too small for the pool, as it was asked for: at first, and at its most.
  int64_t bytes_before = 0;
  int64_t peak_bytes = 0;
};

// Has the requests of oneDNN's pool and of what is too small for it seen to from now on, until the process ends. It is
// to be called before anything else is done to the pool. "" or why that cannot be: there is no such pool (cpu_pool.h),
// for one.
std::string WatchPool();

// Requires that the pool is watched.
void StartArenaTrace();
ArenaTrace StopArenaTrace();

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_ARENA_TRACE_H_
