// Mixing of numbers into a hash.

#ifndef LMS_CC_CORE_GRAPH_MIX_H_
#define LMS_CC_CORE_GRAPH_MIX_H_

#include <cstdint>

namespace lms {

// The same value always gives the same; not for what strangers may choose.
constexpr uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  hash ^= hash >> 31;
  return hash * 0xBF58476D1CE4E5B9u;
}

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_MIX_H_
