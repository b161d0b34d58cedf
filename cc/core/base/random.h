// A small random generator with the same numbers on every platform (the standard's distributions differ between
// libraries). Xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016.

#ifndef LMS_CC_CORE_BASE_RANDOM_H_
#define LMS_CC_CORE_BASE_RANDOM_H_

#include <cstdint>

namespace lms {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {
    if (state_ == 0) state_ = 1;
  }

  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  // Uniform in [0, n), n > 0.
  int Below(int n) { return static_cast<int>((Next() >> 32) % static_cast<uint64_t>(n)); }
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_RANDOM_H_
