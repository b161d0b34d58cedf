#include "cc/core/base/range_tree.h"

#include <algorithm>
#include <limits>

namespace lms {
namespace {

// Below every value, and so far from the least number that sums with it cannot overflow.
constexpr int64_t kLow = std::numeric_limits<int64_t>::min() / 4;

int64_t LeavesFor(int size) {
  int64_t leaves = 2;
  while (leaves < int64_t{size} + 2) leaves *= 2;
  return leaves;
}

}  // namespace

RangeTree::RangeTree(int size) : RangeTree(std::vector<int64_t>(std::max(size, 1), 0)) {}

RangeTree::RangeTree(const std::vector<int64_t>& values)
    : size_(std::max(static_cast<int>(values.size()), 1)),
      leaves_(LeavesFor(size_)),
      max_(2 * leaves_, kLow),
      added_(leaves_, 0) {
  max_[leaves_ + 1] = 0;  // where there are no values
  std::copy(values.begin(), values.end(), max_.begin() + leaves_ + 1);
  for (int64_t node = leaves_ - 1; node > 0; --node) max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
}

int RangeTree::FirstAbove(int from, int64_t limit) const {
  if (from >= size_) return -1;
  const int64_t leaf = FirstAbove(1, 0, leaves_ - 1, std::max(from, 0) + 1, limit);
  return leaf < 0 ? -1 : static_cast<int>(leaf - 1);
}

int64_t RangeTree::FirstAbove(int64_t node, int64_t low, int64_t high, int64_t from, int64_t limit) const {
  if (high < from || max_[node] <= limit) return -1;
  if (low == high) return low;
  const int64_t middle = (low + high) / 2;
  const int64_t left = FirstAbove(2 * node, low, middle, from, limit - added_[node]);
  return left >= 0 ? left : FirstAbove(2 * node + 1, middle + 1, high, from, limit - added_[node]);
}

void RangeTree::Add(int first, int last, int64_t value) {
  first = std::max(first, 0);
  last = std::min(last, size_ - 1);
  if (first > last || value == 0) return;
  // From the leaves beside the range up: what lies between the two paths is in the range.
  int64_t left = leaves_ + first;
  int64_t right = leaves_ + last + 2;
  const auto add = [&](int64_t node) {
    max_[node] += value;
    if (node < leaves_) added_[node] += value;
  };
  const auto refresh = [&](int64_t node) { max_[node] = std::max(max_[2 * node], max_[2 * node + 1]) + added_[node]; };
  while ((left ^ right) != 1) {
    if (left % 2 == 0) add(left + 1);
    if (right % 2 == 1) add(right - 1);
    left /= 2;
    right /= 2;
    refresh(left);
    refresh(right);
  }
  for (left /= 2; left > 0; left /= 2) refresh(left);
}

int64_t RangeTree::Max(int first, int last) const {
  first = std::max(first, 0);
  last = std::min(last, size_ - 1);
  if (first > last) return std::numeric_limits<int64_t>::min();
  int64_t left = leaves_ + first;
  int64_t right = leaves_ + last + 2;
  int64_t left_max = kLow;
  int64_t right_max = kLow;
  while ((left ^ right) != 1) {
    if (left % 2 == 0) left_max = std::max(left_max, max_[left + 1]);
    if (right % 2 == 1) right_max = std::max(right_max, max_[right - 1]);
    left /= 2;
    right /= 2;
    left_max += added_[left];
    right_max += added_[right];
  }
  int64_t max = std::max(left_max, right_max);
  for (left /= 2; left > 0; left /= 2) max += added_[left];
  return max;
}

std::vector<int64_t> RangeTree::Values() const {
  std::vector<int64_t> above(leaves_, 0);  // what is added to all below a node
  for (int64_t node = 1; node < leaves_; ++node) above[node] = added_[node] + (node == 1 ? 0 : above[node / 2]);
  std::vector<int64_t> values(size_);
  for (int i = 0; i < size_; ++i) values[i] = max_[leaves_ + i + 1] + above[(leaves_ + i + 1) / 2];
  return values;
}

}  // namespace lms
