// A segment tree over positions 0..size-1: add a value to a range, ask for the maximum of a range. O(log n) each.
//
// Not thread-safe. Ranges are inclusive; a range with last < first is empty.

#ifndef LMS_CC_CORE_BASE_RANGE_TREE_H_
#define LMS_CC_CORE_BASE_RANGE_TREE_H_

#include <cstdint>
#include <vector>

namespace lms {

class RangeTree {
 public:
  explicit RangeTree(int size);
  explicit RangeTree(const std::vector<int64_t>& values);

  void Add(int first, int last, int64_t value);
  int64_t Max(int first, int last) const;  // the least int64_t for an empty range
  int64_t Max() const { return max_[1]; }
  // The first position from `from` on whose value is above `limit`; -1 if there is none.
  int FirstAbove(int from, int64_t limit) const;
  std::vector<int64_t> Values() const;  // O(n)

 private:
  int64_t FirstAbove(int64_t node, int64_t low, int64_t high, int64_t from, int64_t limit) const;

  int size_;
  int64_t leaves_;              // a power of two; the first and one behind the last value are in no range
  std::vector<int64_t> max_;    // of the node's range, pending additions of its ancestors not included
  std::vector<int64_t> added_;  // to the node's whole range; leaves have none
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_RANGE_TREE_H_
