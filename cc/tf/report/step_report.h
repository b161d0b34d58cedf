// What is said of a step that was rewritten: its reason in words, and its decisions one by one.

#ifndef LMS_CC_TF_REPORT_STEP_REPORT_H_
#define LMS_CC_TF_REPORT_STEP_REPORT_H_

#include <string>

#include "cc/core/graph/swap_link.h"
#include "cc/core/report/report.h"
#include "cc/core/search/planner.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "cc/tf/rewrite/rewrite.h"
#include "cc/tf/sizes/tensor_sizes.h"

namespace lms {

struct AppliedPlan {
  const ImportedGraph& graph;  // in the order that was planned in
  const PlannerResult& planned;
  const RewriteResult& result;
  const SwapLink& link;
  bool ordered = false;  // in another order than the executor's own
};

// Fills in the report's decisions, its share of added time, and what is transferred; the peaks must be there. `sizes`
// knows which costs were measured.
void DescribeApplied(const AppliedPlan& applied, const GraphIndex& index, const TensorSizes& sizes, Report* report);

}  // namespace lms

#endif  // LMS_CC_TF_REPORT_STEP_REPORT_H_
