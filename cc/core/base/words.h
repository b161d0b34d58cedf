// Words for people: numbers of things, and lists of names. Pure functions.

#ifndef LMS_CC_CORE_BASE_WORDS_H_
#define LMS_CC_CORE_BASE_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lms {

// "1 tensor", "2 tensors", "0 tensors"; with `plural` where that is no mere "s": "1 copy", "2 copies".
std::string Counted(int64_t count, const std::string& noun, const std::string& plural = "");

// "a", "a and b", "a, b and c", "a, b and 3 more".
std::string NameSome(const std::vector<std::string>& names, size_t most = 4);

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_WORDS_H_
