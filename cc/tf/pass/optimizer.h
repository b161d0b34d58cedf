// The Grappler optimizer: runs the stages on one graph, and never stands in the way of training.
//
// Registered as "LmsOptimizer". Grappler makes one instance per MetaOptimizer run and calls Optimize once per iteration
// and function. The rewrite happens in the last iteration, so that no built-in pass sees (and changes its mind about) a
// rewritten graph. Whatever goes wrong, an error or an exception in any stage, the input graph stays as it is and a
// report says why; Init and Optimize never return an error that would switch the rest of Grappler off. (absl::Aborted
// is Grappler's own word for "nothing was changed".)

#ifndef LMS_CC_TF_PASS_OPTIMIZER_H_
#define LMS_CC_TF_PASS_OPTIMIZER_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/options/options.h"
#include "cc/core/report/report.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"

namespace lms {

inline constexpr char kOptimizerName[] = "LmsOptimizer";

class LmsOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  std::string name() const override { return kOptimizerName; }
  // Without it Grappler hands over functions without their bodies, and calls would be of unknown size.
  bool UsesFunctionLibrary() const override { return true; }

  absl::Status Init(const tensorflow::RewriterConfig_CustomGraphOptimizer* config) override;

  absl::Status Optimize(tensorflow::grappler::Cluster* cluster, const tensorflow::grappler::GrapplerItem& item,
                        tensorflow::GraphDef* optimized_graph) override;

  // The reports alone, in any iteration; nothing is logged or listed. Throws nothing.
  std::deque<Report> Plan(tensorflow::grappler::Cluster* cluster, const tensorflow::grappler::GrapplerItem& item);

 private:
  std::string NameOf(const tensorflow::grappler::GrapplerItem& item) const;
  bool LastIteration(const std::string& item_id);
  void NoteProblem(const char* what);
  bool Act(tensorflow::grappler::Cluster* cluster, const tensorflow::grappler::GrapplerItem& item,
           tensorflow::GraphDef* output, std::deque<Report>* reports);
  bool KeepRandomState(const tensorflow::grappler::GrapplerItem& item, const std::deque<Report>& reports, bool changed,
                       tensorflow::GraphDef* output) const;
  bool RecordSizes(const tensorflow::grappler::GrapplerItem& item, const std::deque<Report>& reports, bool changed,
                   tensorflow::GraphDef* output) const;
  bool MarkChanges(const tensorflow::grappler::GrapplerItem& item, const std::deque<Report>& reports, bool changed,
                   tensorflow::GraphDef* output) const;
  void NotePlan(const std::string& item_id, const std::deque<Report>& reports) const;
  void Tell(Report report) const;
  absl::Status Time(tensorflow::grappler::Cluster* cluster, const tensorflow::grappler::GrapplerItem& item,
                    tensorflow::GraphDef* optimized_graph);

  Options options_;
  std::vector<std::string> problems_;  // with the options
  bool unreadable_ = false;            // something went wrong while they were read
  // Made beforehand: where there is no memory left, this can still be returned.
  const absl::Status unchanged_ = absl::AbortedError("lms leaves the graph as it is");
  std::map<std::string, int> calls_;  // per item
  size_t options_hash_ = 0;           // of all that an entry says: TensorFlow keeps an instance for each
  std::string session_;               // "_session": a v1 session's name (session_notes.h)
  std::string keep_random_;           // "_keep_random": the function, where it has random operations with a seed
  std::string mark_changes_;          // "_mark_changes": the function, where a failed call may be undone; "": it is not
  std::string prepare_;               // "_prepare": graphs are kept by this name (prepared_steps.h), not planned
};

// Options of a RewriterConfig entry as the parser wants them; values of other types become problems.
OptionMap OptionsFromConfig(const tensorflow::RewriterConfig_CustomGraphOptimizer& config,
                            std::vector<std::string>* problems);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_OPTIMIZER_H_
