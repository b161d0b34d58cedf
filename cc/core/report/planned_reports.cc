#include "cc/core/report/planned_reports.h"

namespace lms {

NamedLists<Report>& PlannedReports() {
  static auto* const reports = new NamedLists<Report>;
  return *reports;
}

}  // namespace lms
