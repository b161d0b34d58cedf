// Until when a graph may be worked on.
//
// Plain data, handed down by value to whoever may take long. Nothing is interrupted: loops ask, and leave by an
// exception where the time is over. It is for reading graphs that nobody has thought of; planning counts its work
// (work_meter.h) and knows no clock. What counts is the time that the processor has given to the thread, so that a busy
// machine does not change what becomes of a graph: a deadline is of the thread that made it.

#ifndef LMS_CC_CORE_BASE_DEADLINE_H_
#define LMS_CC_CORE_BASE_DEADLINE_H_

#include <cstdint>
#include <limits>
#include <stdexcept>

namespace lms {

// Thrown where a deadline has passed, or where a bound on memory would be.
class TooMuch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Deadline {
 public:
  Deadline() = default;  // none
  explicit Deadline(double seconds) : at_(Now() + seconds), seconds_(seconds) {}

  // Seconds that the calling thread has had of the processor.
  static double Now();

  bool Passed() const { return at_ < kNever && Now() > at_; }

  // Throws TooMuch where it has passed.
  void Check() const;

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  double at_ = kNever;
  double seconds_ = kNever;
};

// Asks a deadline now and then, for loops with short rounds: Step() costs next to nothing.
class Pace {
 public:
  explicit Pace(const Deadline& deadline) : deadline_(deadline) {}

  // `work`: what has been done, in steps of some nanoseconds. Throws TooMuch where the deadline has passed.
  void Step(int64_t work = 1) {
    left_ -= work;
    if (left_ > 0) return;
    left_ = kWork;
    deadline_.Check();
  }

 private:
  static constexpr int64_t kWork = 100000;

  Deadline deadline_;
  int64_t left_ = kWork;
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_DEADLINE_H_
