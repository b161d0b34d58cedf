// Reports on steps that were only planned (lms.plan), by the name that the option "_planned" gives: they are no reports
// of what runs, and in no list of those.
//
// Kept until they are taken. Thread-safety: all functions.

#ifndef LMS_CC_CORE_REPORT_PLANNED_REPORTS_H_
#define LMS_CC_CORE_REPORT_PLANNED_REPORTS_H_

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/report/report.h"

namespace lms {

class PlannedReports {
 public:
  static PlannedReports& Global();
  void Add(const std::string& name, Report report);
  std::vector<Report> Take(const std::string& name);  // and forgets them

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<Report>> reports_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_PLANNED_REPORTS_H_
