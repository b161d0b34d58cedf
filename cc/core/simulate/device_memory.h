// A device's memory from step to step: its arena, and where in it variables are.
//
// An update may give a variable another chunk than it had. What is then free lies elsewhere than before, and the same
// step takes a few percent more or less than the one before it.

#ifndef LMS_CC_CORE_SIMULATE_DEVICE_MEMORY_H_
#define LMS_CC_CORE_SIMULATE_DEVICE_MEMORY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/simulate/arena.h"

namespace lms {

class DeviceMemory {
 public:
  // What is resident and in none of the arena's pieces, by its size, comes first, in the order of the buffers: all of
  // it where there are no pieces, else the constants, which TensorFlow puts there once the step has been planned.
  // `becomes_variable`: per buffer; what it is made of is a variable's value at the end.
  DeviceMemory(const ArenaSettings& settings, const MemGraph& graph, std::vector<bool> becomes_variable = {});

  bool BecomesVariable(BufferId buffer) const { return !becomes_variable_.empty() && becomes_variable_[buffer]; }

  // Is so much not of the arena, but of the system?
  bool Outside(int64_t bytes) const { return bytes < least_bytes_; }
  // A chunk, or kNoRoom, and then `lacking_bytes` is at least what would have been enough, in one piece; kNoRoom
  // without that of what is outside.
  Arena::ChunkId Take(int64_t bytes);
  void Give(Arena::ChunkId chunk) { arena_.Free(chunk); }
  // A variable of so many bytes keeps this chunk from now on. Returns the one that it had, for the caller to give back:
  // of those of this size the one that has been kept longest; kNoRoom, and nothing is kept, where there is none.
  Arena::ChunkId Keep(int64_t bytes, Arena::ChunkId chunk);
  int64_t BytesOf(Arena::ChunkId chunk) const { return arena_.BytesOf(chunk); }

  int64_t lacking_bytes() const { return lacking_; }

 private:
  Arena arena_;
  int64_t least_bytes_;
  std::vector<bool> becomes_variable_;
  std::map<int64_t, std::deque<Arena::ChunkId>> kept_;  // by the bytes that were asked for
  int64_t lacking_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_DEVICE_MEMORY_H_
