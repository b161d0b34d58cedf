// Products of sizes that do not overflow.

#ifndef LMS_CC_CORE_PRODUCT_H_
#define LMS_CC_CORE_PRODUCT_H_

#include <cstdint>

namespace lms {

inline constexpr int64_t kMostProduct = int64_t{1} << 60;

// kMostProduct where it would be more. Requires: neither is negative, and `a` is no more than that.
constexpr int64_t Product(int64_t a, int64_t b) { return b > 0 && a > kMostProduct / b ? kMostProduct : a * b; }

}  // namespace lms

#endif  // LMS_CC_CORE_PRODUCT_H_
