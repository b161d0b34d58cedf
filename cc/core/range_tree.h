// A segment tree over positions 0..size-1: add a value to a range, ask for the maximum of a range. O(log n) each.
//
// Not thread-safe. Ranges are inclusive; a range with last < first is empty.

#ifndef LMS_CC_CORE_RANGE_TREE_H_
#define LMS_CC_CORE_RANGE_TREE_H_

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
  void Add(int node, int low, int high, int first, int last, int64_t value);
  int64_t Max(int node, int low, int high, int first, int last) const;
  void Fill(int node, int low, int high, const std::vector<int64_t>& values);
  int FirstAbove(int node, int low, int high, int from, int64_t limit) const;
  void Collect(int node, int low, int high, int64_t above, std::vector<int64_t>* values) const;

  int size_;
  std::vector<int64_t> max_;    // of the node's range, pending additions of its ancestors not included
  std::vector<int64_t> added_;  // to the node's whole range
};

}  // namespace lms

#endif  // LMS_CC_CORE_RANGE_TREE_H_
