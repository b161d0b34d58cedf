// Where memory is above a limit, and by how much.

#ifndef LMS_CC_CORE_SEARCH_EXCESS_H_
#define LMS_CC_CORE_SEARCH_EXCESS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lms {

// Over the slots of a PlanState, as prefix sums: built in O(slots), asked in O(1). Slots are inclusive.
class Excess {
 public:
  Excess(const std::vector<int64_t>& bytes, int64_t limit)
      : area_(bytes.size() + 1, 0), count_(bytes.size() + 1, 0), last_(bytes.size(), -1), next_(bytes.size(), -1) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      last_[i] = bytes[i] > limit ? static_cast<int>(i) : i == 0 ? -1 : last_[i - 1];
      const int64_t over = std::max<int64_t>(0, bytes[i] - limit);
      area_[i + 1] = area_[i] + static_cast<double>(over);
      count_[i + 1] = count_[i] + (over > 0 ? 1 : 0);
    }
    int next = -1;
    for (size_t i = bytes.size(); i-- > 0;) next_[i] = next = bytes[i] > limit ? static_cast<int>(i) : next;
  }

  double Area(int first, int last) const { return last < first ? 0 : area_[last + 1] - area_[first]; }
  double Count(int first, int last) const { return last < first ? 0 : count_[last + 1] - count_[first]; }
  double Total() const { return area_.back(); }
  int LastUpTo(int slot) const { return last_[slot]; }   // the last one above the limit; -1 if there is none
  int FirstFrom(int slot) const { return next_[slot]; }  // the first one

  // What is gained if so many bytes are gone from `first` to `last`: no more than there is too much.
  double Gain(int64_t bytes, int first, int last) const {
    return std::min(static_cast<double>(bytes) * Count(first, last), Area(first, last));
  }

 private:
  std::vector<double> area_;
  std::vector<double> count_;
  std::vector<int> last_;
  std::vector<int> next_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_EXCESS_H_
