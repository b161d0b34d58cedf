// One graph through all stages: index, sizes, import, liveness, budget, costs, plan, rewrite, verify.

#ifndef LMS_CC_TF_STEP_PASS_H_
#define LMS_CC_TF_STEP_PASS_H_

#include "absl/status/status.h"
#include "cc/core/options.h"
#include "cc/core/report.h"
#include "cc/tf/stage_watch.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// Fills *report, and *output where the return value is true; otherwise the graph is to stay as it is. May throw; stages
// report their errors through the report's status kFailed.
bool RunStepPass(const Options& options, tensorflow::grappler::Cluster* cluster,
                 const tensorflow::grappler::GrapplerItem& item, int threads, tensorflow::GraphDef* output,
                 StageWatch* stages, Report* report);

}  // namespace lms

#endif  // LMS_CC_TF_STEP_PASS_H_
