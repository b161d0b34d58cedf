// A list of ids as a set: sorted, each once.

#ifndef LMS_CC_CORE_BASE_SORT_UNIQUE_H_
#define LMS_CC_CORE_BASE_SORT_UNIQUE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lms {

inline void SortUnique(std::vector<int32_t>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_SORT_UNIQUE_H_
