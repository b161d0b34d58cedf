// Which parts of a spill file are taken: plain bookkeeping, without the file.
//
// All sizes are multiples of kSpillAlignment. The smallest free part that is large enough is taken (the first of
// them); parts that are given back are merged with their free neighbours. O(log n) each; AllocateParts O(n).
// Not thread-safe.

#ifndef LMS_CC_CORE_SPILL_SPILL_EXTENTS_H_
#define LMS_CC_CORE_SPILL_SPILL_EXTENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace lms {

struct SpillExtent {
  int64_t offset = 0;
  int64_t bytes = 0;
};

class SpillExtents {
 public:
  // One part of `bytes`; nothing where none is free.
  std::optional<SpillExtent> Allocate(int64_t bytes);
  // The same bytes in as many parts as it takes, the largest ones first; nothing where too little is free.
  std::vector<SpillExtent> AllocateParts(int64_t bytes);
  void Free(const SpillExtent& extent);

  // The file has got longer by `bytes`.
  void Grow(int64_t bytes);
  // The file may be cut to the size that is returned: what is free at its end is gone.
  int64_t Shrink();

  int64_t size() const { return size_; }
  int64_t used() const { return used_; }
  // Free at the end of the file: what growing adds to.
  int64_t FreeAtEnd() const;

 private:
  void Insert(int64_t offset, int64_t bytes);
  void Erase(std::map<int64_t, int64_t>::iterator part);

  int64_t size_ = 0;
  int64_t used_ = 0;
  std::map<int64_t, int64_t> free_;                // offset -> bytes, no two of them touch
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (bytes, offset) of the same
};

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_EXTENTS_H_
