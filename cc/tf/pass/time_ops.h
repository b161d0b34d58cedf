// The optimizer's part of lms.calibrate(): a graph whose ops run one at a time, and the keys of its ops.
//
// All ops outside loops and branches are chained by control edges, in the order assumed for the step, so that nothing
// runs beside anything else; nothing else changes. Ops of constants alone stay free, as TensorFlow folds them after
// Grappler and a control edge would prevent that. What was noted is kept until Python takes it.

#ifndef LMS_CC_TF_PASS_TIME_OPS_H_
#define LMS_CC_TF_PASS_TIME_OPS_H_

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/options/options.h"
#include "cc/core/profile/profile.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

struct TimedOp {
  std::string name;
  std::string key;
  double estimated_us = 0;
  bool always = false;  // runs once in every step, and is not folded into a constant: unseen, it takes no time
};

struct TimedFunction {
  std::string function;
  std::string problem;  // why it is not chained; "": it is
  ProfilePlace place;
  std::vector<TimedOp> ops;  // that run, those in loops and branches included
};

// By the name that the option `time_ops` gives. Safe to use from several threads.
class TimedStore {
 public:
  static TimedStore& Global();
  void Add(const std::string& name, TimedFunction function);
  std::vector<TimedFunction> Take(const std::string& name);  // and forgets them

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<TimedFunction>> functions_;
};

// Chains the ops of the item's graph, or of *graph where that is `rewritten` already. Aborted (Grappler's word for "as
// it was"), with the problem in the store, where that cannot be done; *graph is left as it came then. Never throws.
absl::Status TimeOps(const Options& options, tensorflow::grappler::Cluster* cluster,
                     const tensorflow::grappler::GrapplerItem& item, bool rewritten, tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_TIME_OPS_H_
