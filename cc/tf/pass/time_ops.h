// The optimizer's part of lms.calibrate(): a graph whose ops run one at a time, and the keys of its ops.
//
// All ops outside loops and branches are chained by control edges, in the order assumed for the step, so that nothing
// runs beside anything else; nothing else changes. Ops of constants alone stay free, as TensorFlow folds them after
// Grappler and a control edge would prevent that. What was noted is kept until Python takes it (timed_functions.h).

#ifndef LMS_CC_TF_PASS_TIME_OPS_H_
#define LMS_CC_TF_PASS_TIME_OPS_H_

#include "absl/status/status.h"
#include "cc/core/options/options.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// Chains the ops of the item's graph, or of *graph where that is `rewritten` already. Aborted (Grappler's word for "as
// it was"), with the problem in the store, where that cannot be done; *graph is left as it came then. Never throws.
absl::Status TimeOps(const Options& options, tensorflow::grappler::Cluster* cluster,
                     const tensorflow::grappler::GrapplerItem& item, bool rewritten, tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_TIME_OPS_H_
