// The details of a report on one device of a step: what each op and each buffer is, and what becomes of it.

#ifndef LMS_CC_TF_REPORT_STEP_DETAILS_H_
#define LMS_CC_TF_REPORT_STEP_DETAILS_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cc/core/report/report.h"
#include "cc/core/report/report_details.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/run_record.h"
#include "cc/tf/import/import.h"
#include "cc/tf/report/step_report.h"
#include "cc/tf/verify/verify.h"

namespace lms {

// One object per report; the calls in this order. O(ops + reads).
class StepDetails {
 public:
  // The step as it came. What is given is not kept.
  void Before(const ImportedGraph& imported, const MemoryProfile& profile, const RunRecord& record);

  // The rewritten step, its plan, and the report's decisions.
  void After(const VerifiedRun& run, const MemoryProfile& profile, const AppliedPlan& applied, const Report& report);

  // `graph`: as it was planned. Null where there is nothing to tell.
  std::shared_ptr<const ReportDetails> Finish(const MemGraph& graph, ReportStatus status);

 private:
  void DescribeFates(const AppliedPlan& applied, const Report& report);

  DetailsMaker maker_;
};

}  // namespace lms

#endif  // LMS_CC_TF_REPORT_STEP_DETAILS_H_
