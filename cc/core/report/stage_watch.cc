#include "cc/core/report/stage_watch.h"

#include <algorithm>

#include "cc/core/base/fault_injection.h"
#include "cc/core/report/planning_now.h"

namespace lms {

void NoteTooMuch(const TooMuch& why, Report* report) {
  report->status = ReportStatus::kSkipped;
  report->reason =
      kTooMuch + (report->stage.empty() ? std::string() : "in stage '" + report->stage + "' ") + why.what();
}

void StageWatch::Enter(const std::string& stage) {
  NoteTime();
  report_.stage = stage;
  PlanningMark::Enter(stage);
  FailIfInjected(stage);
  deadline_.Check();
}

void StageWatch::NoteTime() {
  const double now = Deadline::Now();
  auto& all = report_.stage_seconds;
  if (!report_.stage.empty()) {
    auto found = std::find_if(all.begin(), all.end(), [this](const auto& one) { return one.first == report_.stage; });
    if (found == all.end()) found = all.insert(all.end(), {report_.stage, 0});
    found->second += now - since_;
  }
  since_ = now;
}

}  // namespace lms
