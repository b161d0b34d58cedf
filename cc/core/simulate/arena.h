// TensorFlow's allocator of a GPU's memory, and with oneDNN of a CPU's (BFC: best fit with coalescing), by sizes alone.
//
// A chunk is taken from the smallest free one that is large enough, the lowest of these in memory. What is left of that
// is split off where the chunk is twice as large as what was asked for or more, or `least_split_off` bytes larger; else
// it is handed out as a whole, so that a buffer may take up to twice its size. Chunks that are given back join their
// free neighbours. Sizes are rounded up to whole units. Memory comes from the device in regions, between which nothing
// joins: one of the whole limit, or, where it grows, one that is twice the last, when nothing free is large enough.
// Where there is no room for another, those in which nothing is used are given back to the device first.
// After xla/tsl/framework/bfc_allocator.cc, with which its test compares it byte for byte.
//
// Logarithmic in the number of free chunks. Not thread-safe.

#ifndef LMS_CC_CORE_SIMULATE_ARENA_H_
#define LMS_CC_CORE_SIMULATE_ARENA_H_

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "cc/core/base/arena_unit.h"

namespace lms {

struct ArenaSettings {
  struct Piece {
    int64_t address;
    int64_t bytes;
    bool used;
    int64_t asked;  // bytes, of those that are used
  };

  int64_t limit_bytes = int64_t{1} << 50;
  bool grows = false;     // "allow_growth"
  bool collects = false;  // gives back regions that nobody uses (TF_ENABLE_GPU_GARBAGE_COLLECTION)
  int64_t least_split_off = int64_t{128} << 20;
  int64_t least_bytes = 0;    // what is smaller is not of the arena: it comes from the system, without a limit
  std::vector<Piece> pieces;  // what there is at first, by address; none: nothing has been taken from the device
};

class Arena {
 public:
  using ChunkId = int;
  static constexpr ChunkId kNoRoom = -1;

  // Chunks 0, 1, … are the pieces.
  explicit Arena(const ArenaSettings& settings = ArenaSettings());

  // A chunk for `bytes`, more than 0; kNoRoom where no free one is large enough.
  ChunkId Allocate(int64_t bytes);
  void Free(ChunkId chunk);

  int64_t BytesOf(ChunkId chunk) const { return chunks_[chunk].bytes; }
  // From the beginning of all regions, one after the other; of pieces: their address.
  int64_t OffsetOf(ChunkId chunk) const { return chunks_[chunk].offset; }
  int64_t bytes_in_use() const { return in_use_; }
  int64_t LargestFree() const;
  // The bytes of each free piece; of what is in no region yet as of one.
  std::vector<int64_t> FreePieces() const;
  // All chunks, in no order.
  std::vector<ArenaSettings::Piece> Pieces() const;

 private:
  struct Chunk {
    int64_t offset = 0;
    int64_t bytes = 0;
    ChunkId before = kNoRoom;  // in memory, of the same region
    ChunkId after = kNoRoom;
    bool used = false;
  };
  using BySize = std::set<std::tuple<int64_t, int64_t, ChunkId>>;  // bytes, offset

  bool Extend(int64_t bytes);
  std::vector<ChunkId> FreeRegions() const;
  int64_t LeftBytes() const;  // of the limit, in no region
  // Gives regions back, where there may be room for so many bytes then.
  bool Collect(int64_t bytes);
  ChunkId NewChunk(int64_t offset, int64_t bytes);
  void SplitOff(ChunkId chunk, int64_t bytes);
  // The second of two neighbours becomes part of the first.
  void Join(ChunkId first, ChunkId second);
  std::tuple<int64_t, int64_t, ChunkId> Key(ChunkId chunk) const {
    return {chunks_[chunk].bytes, chunks_[chunk].offset, chunk};
  }

  int64_t limit_bytes_;
  int64_t least_split_off_;
  bool collects_;
  int64_t next_region_;
  int64_t next_offset_ = 0;   // of a region
  int64_t region_bytes_ = 0;  // of all
  int64_t in_use_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<ChunkId> unused_;  // of chunks_
  BySize free_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_ARENA_H_
