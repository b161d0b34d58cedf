// How much may be planned for one step, and how much has been: counted, never timed.
//
// Planning is a search that could always go on. It counts what it does in steps of some tens of nanoseconds, and ends
// where its share is used up: so a slow machine, or a busy one, finds the same plan as a fast one. One meter is shared
// by everything that is planned for a step: whoever plans adds what it has done, and takes no more than a part of what
// is left. Not thread-safe: a meter is of one step, which one thread plans.

#ifndef LMS_CC_CORE_BASE_WORK_METER_H_
#define LMS_CC_CORE_BASE_WORK_METER_H_

#include <algorithm>
#include <cstdint>

namespace lms {

// Steps that are done in a second, on a machine that is not fast.
inline constexpr int64_t kWorkPerSecond = 30000000;

class WorkMeter {
 public:
  explicit WorkMeter(int64_t most) : most_(most) {}

  void Add(int64_t steps) { done_ += steps; }
  // There are so many left from now on, or as many as there were if that is more.
  void TopUp(int64_t steps) { most_ = std::max(most_, done_ + steps); }
  int64_t done() const { return done_; }
  int64_t left() const { return std::max<int64_t>(0, most_ - done_); }

 private:
  int64_t most_;
  int64_t done_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_WORK_METER_H_
