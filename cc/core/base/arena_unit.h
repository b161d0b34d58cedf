// The unit of TensorFlow's BFC allocator: sizes and addresses are multiples of it.

#ifndef LMS_CC_CORE_BASE_ARENA_UNIT_H_
#define LMS_CC_CORE_BASE_ARENA_UNIT_H_

#include <cstdint>

namespace lms {

inline constexpr int64_t kArenaUnit = 256;  // bytes

constexpr int64_t InArenaUnits(int64_t bytes) { return (bytes + kArenaUnit - 1) / kArenaUnit * kArenaUnit; }

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_ARENA_UNIT_H_
