// Steps as Grappler hands them to lms, kept to be planned any number of times: for lms.plan(), lms.max_size() and
// others that ask what a step would take, and run nothing.
//
// Nothing of TensorFlow is included here; keep_prepared.h has the other side.
//
// Thread-safety: all functions.

#ifndef LMS_CC_TF_PASS_PREPARED_STEPS_H_
#define LMS_CC_TF_PASS_PREPARED_STEPS_H_

#include <string>
#include <vector>

#include "cc/core/report/report.h"

namespace lms {

// The reports on all that was kept under this name, which are in no list of reports, and of which nothing is logged.
// None where nothing was kept. `entry`: a RewriterConfig, serialized, whose only custom optimizer has the options.
// Whoever calls keeps the cluster alive, for which the step was prepared.
std::vector<Report> PlanPrepared(const std::string& name, const std::string& entry);

void ForgetPrepared(const std::string& name);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_PREPARED_STEPS_H_
