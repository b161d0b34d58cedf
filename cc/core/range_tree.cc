#include "cc/core/range_tree.h"

#include <algorithm>
#include <limits>

namespace lms {

RangeTree::RangeTree(int size)
    : size_(std::max(size, 1)), max_(4 * static_cast<size_t>(size_), 0), added_(max_.size(), 0) {}

RangeTree::RangeTree(const std::vector<int64_t>& values) : RangeTree(static_cast<int>(values.size())) {
  if (!values.empty()) Fill(1, 0, size_ - 1, values);
}

void RangeTree::Fill(int node, int low, int high, const std::vector<int64_t>& values) {
  if (low == high) {
    max_[node] = values[low];
    return;
  }
  const int middle = (low + high) / 2;
  Fill(2 * node, low, middle, values);
  Fill(2 * node + 1, middle + 1, high, values);
  max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
}

int RangeTree::FirstAbove(int from, int64_t limit) const {
  return from >= size_ ? -1 : FirstAbove(1, 0, size_ - 1, from, limit);
}

int RangeTree::FirstAbove(int node, int low, int high, int from, int64_t limit) const {
  if (high < from || max_[node] <= limit) return -1;
  if (low == high) return low;
  const int middle = (low + high) / 2;
  const int left = FirstAbove(2 * node, low, middle, from, limit - added_[node]);
  return left >= 0 ? left : FirstAbove(2 * node + 1, middle + 1, high, from, limit - added_[node]);
}

void RangeTree::Add(int first, int last, int64_t value) {
  if (first <= last && value != 0) Add(1, 0, size_ - 1, first, last, value);
}

void RangeTree::Add(int node, int low, int high, int first, int last, int64_t value) {
  if (first <= low && high <= last) {
    max_[node] += value;
    added_[node] += value;
    return;
  }
  const int middle = (low + high) / 2;
  if (first <= middle) Add(2 * node, low, middle, first, last, value);
  if (last > middle) Add(2 * node + 1, middle + 1, high, first, last, value);
  max_[node] = std::max(max_[2 * node], max_[2 * node + 1]) + added_[node];
}

int64_t RangeTree::Max(int first, int last) const {
  if (first > last) return std::numeric_limits<int64_t>::min();
  return Max(1, 0, size_ - 1, first, last);
}

int64_t RangeTree::Max(int node, int low, int high, int first, int last) const {
  if (first <= low && high <= last) return max_[node];
  const int middle = (low + high) / 2;
  int64_t best = std::numeric_limits<int64_t>::min();
  if (first <= middle) best = std::max(best, Max(2 * node, low, middle, first, last));
  if (last > middle) best = std::max(best, Max(2 * node + 1, middle + 1, high, first, last));
  return best + added_[node];
}

std::vector<int64_t> RangeTree::Values() const {
  std::vector<int64_t> values(size_);
  Collect(1, 0, size_ - 1, 0, &values);
  return values;
}

void RangeTree::Collect(int node, int low, int high, int64_t above, std::vector<int64_t>* values) const {
  if (low == high) {
    (*values)[low] = above + max_[node];
    return;
  }
  const int middle = (low + high) / 2;
  Collect(2 * node, low, middle, above + added_[node], values);
  Collect(2 * node + 1, middle + 1, high, above + added_[node], values);
}

}  // namespace lms
