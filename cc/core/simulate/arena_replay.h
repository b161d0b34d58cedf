// The model of the allocator (arena.h) held against what the allocator did: the same requests, one after the other.

#ifndef LMS_CC_CORE_SIMULATE_ARENA_REPLAY_H_
#define LMS_CC_CORE_SIMULATE_ARENA_REPLAY_H_

#include <cstdint>
#include <vector>

#include "cc/core/simulate/arena.h"

namespace lms {

// A request for memory and the chunk that it got, or, where `asked` is 0, the release of that chunk.
struct ArenaRequest {
  int64_t asked = 0;
  int64_t address = 0;  // 0: refused
  int64_t bytes = 0;    // of the chunk
};

struct ArenaReplay {
  int64_t requests = 0;     // without releases
  int64_t differences = 0;  // of these: the model has another size or address, or refuses where the allocator does not
  int64_t peak_bytes = 0;   // of chunks in use, in the model
  int64_t seen_peak_bytes = 0;  // and in the allocator
  bool same_map = false;        // at the end: all chunks, in use or free
};

// `before`: the allocator's settings and pieces when the first request came. `after`: its pieces when the last had
// been served. O(n log n).
ArenaReplay Replay(const ArenaSettings& before, const std::vector<ArenaRequest>& requests,
                   const std::vector<ArenaSettings::Piece>& after);

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_ARENA_REPLAY_H_
