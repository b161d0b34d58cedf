// Reports on steps that were only planned (lms.plan), by the name that the option "_planned" gives: they are no reports
// of what runs, and in no list of those. Kept until they are taken.

#ifndef LMS_CC_CORE_REPORT_PLANNED_REPORTS_H_
#define LMS_CC_CORE_REPORT_PLANNED_REPORTS_H_

#include "cc/core/base/named_lists.h"
#include "cc/core/report/report.h"

namespace lms {

NamedLists<Report>& PlannedReports();  // of the process

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_PLANNED_REPORTS_H_
