// What is taken of some blocks of memory, by offsets alone.
//
// For whoever hands parts of blocks out at places that were thought out before. Not thread-safe.

#ifndef LMS_CC_CORE_BASE_BLOCK_SPACE_H_
#define LMS_CC_CORE_BASE_BLOCK_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lms {

struct Place {
  int block = 0;
  int64_t offset = 0;

  bool operator==(const Place& other) const { return block == other.block && offset == other.offset; }
};

class BlockSpace {
 public:
  BlockSpace() = default;
  // Blocks of so many bytes, all free.
  explicit BlockSpace(std::vector<int64_t> blocks);

  // Takes `bytes`, more than 0, from that place on. False, and nothing is taken, where not all of them are free.
  // Logarithmic in what is taken.
  bool Take(const Place& place, int64_t bytes);
  // The smallest free part that is large enough, the first of these; nothing where there is none. Linear in what is
  // taken.
  std::optional<Place> TakeAnywhere(int64_t bytes);
  // Gives back what was taken from that place on.
  void Give(const Place& place);

  bool empty() const { return count_ == 0; }
  int64_t LargestFree() const;

 private:
  // Calls visit(place, bytes) for each free part.
  template <typename Visit>
  void VisitFree(const Visit& visit) const;

  std::vector<int64_t> blocks_;
  std::vector<std::map<int64_t, int64_t>> taken_;  // per block: from an offset to its end
  size_t count_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_BLOCK_SPACE_H_
