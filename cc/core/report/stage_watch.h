// The stages that a graph passes, one after the other: which one is at work, for how long, and until when.

#ifndef LMS_CC_CORE_REPORT_STAGE_WATCH_H_
#define LMS_CC_CORE_REPORT_STAGE_WATCH_H_

#include <string>

#include "cc/core/base/deadline.h"
#include "cc/core/report/report.h"

namespace lms {

// What the reasons begin with of graphs that are too large, or hard in some other way.
inline constexpr char kTooMuch[] = "too much for planning: ";

// Makes the report one of a graph that is left alone for that reason.
void NoteTooMuch(const TooMuch& why, Report* report);

class StageWatch {
 public:
  // The report must outlive this.
  StageWatch(const Deadline& deadline, Report* report)
      : deadline_(deadline), report_(*report), since_(Deadline::Now()) {}
  ~StageWatch() { NoteTime(); }
  StageWatch(const StageWatch&) = delete;
  StageWatch& operator=(const StageWatch&) = delete;

  // Names the stage in the report, and counts time for it from here. Throws where a failure has been injected into it
  // (fault_injection.h) and where the deadline has passed.
  void Enter(const std::string& stage);

  const Deadline& deadline() const { return deadline_; }
  // The one that was entered last.
  const std::string& stage() const { return report_.stage; }

 private:
  void NoteTime();

  const Deadline deadline_;
  Report& report_;
  double since_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_STAGE_WATCH_H_
