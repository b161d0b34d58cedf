// Products of sizes that end at a largest one instead of overflowing.

#ifndef LMS_CC_CORE_BASE_CAPPED_PRODUCT_H_
#define LMS_CC_CORE_BASE_CAPPED_PRODUCT_H_

#include <cstdint>

namespace lms {

inline constexpr int64_t kLargestProduct = int64_t{1} << 60;

// kLargestProduct where it would be more. Requires: neither is negative, and `a` is no more than that.
constexpr int64_t CappedProduct(int64_t a, int64_t b) {
  return b > 0 && a > kLargestProduct / b ? kLargestProduct : a * b;
}

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_CAPPED_PRODUCT_H_
