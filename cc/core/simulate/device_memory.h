// A device's memory from step to step: its arena, and where in it variables are.
//
// An update may give a variable another chunk than it had. What is then free lies elsewhere than before, and the same
// step takes a few percent more or less than the one before it.
//
// A step may have places (places.h). Then the blocks are taken from the arena with the first of these that is wanted,
// and go back with the last. What has a place gets it; all else comes from the arena, or, where there is no room, from
// what is free of the blocks. tf/runtime/placed_memory.h does the same for real.

#ifndef LMS_CC_CORE_SIMULATE_DEVICE_MEMORY_H_
#define LMS_CC_CORE_SIMULATE_DEVICE_MEMORY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cc/core/base/block_space.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/simulate/arena.h"
#include "cc/core/simulate/places.h"

namespace lms {

class DeviceMemory {
 public:
  // What is resident and in none of the arena's pieces, by its size, comes first, in the order of the buffers: all of
  // it where there are no pieces, else the constants, which TensorFlow puts there once the step has been planned.
  // `becomes_variable`: per buffer; what it is made of is a variable's value at the end.
  // `places`, unless it is null, outlives this.
  DeviceMemory(const ArenaSettings& settings, const MemGraph& graph, std::vector<bool> becomes_variable = {},
               const Places* places = nullptr);

  // Where something is, and the bytes that count: of its chunk, or as asked for where it has none. What is in a block
  // counts with that.
  struct Space {
    Arena::ChunkId chunk = Arena::kNoRoom;
    std::optional<Place> place;
    int64_t bytes = 0;
    bool outside = false;  // it is not of the arena, but of the system
    std::vector<Space> pieces;
  };

  bool BecomesVariable(BufferId buffer) const { return !becomes_variable_.empty() && becomes_variable_[buffer]; }

  // Where there is no room for what is not outside, `lacking_bytes` is at least what would have been enough, in one
  // piece. `piece_bytes`: as of MemBuffer.
  Space Take(const Allocated& what, int64_t bytes, int64_t piece_bytes = 0);
  void Give(const Space& space);
  // A variable of so many bytes keeps this chunk from now on. Returns the one that it had, for the caller to give back:
  // of those of this size the one that has been kept longest; kNoRoom, and nothing is kept, where there is none.
  Arena::ChunkId Keep(int64_t bytes, Arena::ChunkId chunk);
  int64_t BytesOf(Arena::ChunkId chunk) const { return arena_.BytesOf(chunk); }

  int64_t lacking_bytes() const { return lacking_; }
  std::vector<int64_t> FreePieces() const { return arena_.FreePieces(); }
  // Of the blocks that are taken by now.
  int64_t block_bytes() const;

 private:
  Space TakePieces(int64_t bytes, int64_t count);
  std::optional<Place> TakePlace(const Allocated& what, int64_t bytes);
  void TakeBlocks();
  void GiveBlocks();

  Arena arena_;
  int64_t least_bytes_;
  std::vector<bool> becomes_variable_;
  std::map<int64_t, std::deque<Arena::ChunkId>> kept_;  // by the bytes that were asked for
  int64_t lacking_ = 0;
  const Places* places_;
  std::vector<Arena::ChunkId> blocks_;  // as long as something is in one; kNoRoom: not to be had
  BlockSpace space_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_DEVICE_MEMORY_H_
