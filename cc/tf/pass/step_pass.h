// One graph through all stages: index, sizes, import, liveness, budget, costs, plan, rewrite, verify.

#ifndef LMS_CC_TF_PASS_STEP_PASS_H_
#define LMS_CC_TF_PASS_STEP_PASS_H_

#include <deque>

#include "absl/status/status.h"
#include "cc/core/options/options.h"
#include "cc/core/report/report.h"
#include "cc/core/report/stage_watch.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// One device after the other, the one that holds most first; each is planned in the graph as the ones before have left
// it. Fills the report at the end of *reports, adds one for each further device, and fills *output where the return
// value is true; otherwise the graph is to stay as it is. May throw; stages report their errors through the report's
// status kFailed.
bool RunStepPass(const Options& options, tensorflow::grappler::Cluster* cluster,
                 const tensorflow::grappler::GrapplerItem& item, int threads, tensorflow::GraphDef* output,
                 StageWatch* stages, std::deque<Report>* reports);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_STEP_PASS_H_
