// What is being planned at this moment, for whoever shows it while it takes long.

#ifndef LMS_CC_CORE_REPORT_PLANNING_NOW_H_
#define LMS_CC_CORE_REPORT_PLANNING_NOW_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace lms {

struct PlanningNow {
  std::string function;
  int64_t operations = 0;
  std::string stage;   // "": none has begun
  double seconds = 0;  // since it began, by the wall
};

// While it lives, its function is being planned, in the thread that made it. They nest.
class PlanningMark {
 public:
  PlanningMark(std::string function, int64_t operations);
  ~PlanningMark();
  PlanningMark(const PlanningMark&) = delete;
  PlanningMark& operator=(const PlanningMark&) = delete;

  // Names the stage of this thread's innermost mark; nothing without one.
  static void Enter(const std::string& stage);

  // Of all threads, the one that began first; nothing where none is at work.
  static std::optional<PlanningNow> First();

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  PlanningMark* const outer_;
  PlanningNow now_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_PLANNING_NOW_H_
