// One device of a step through all stages: index, sizes, import, liveness, budget, costs, plan, rewrite, verify.

#ifndef LMS_CC_TF_PASS_DEVICE_PASS_H_
#define LMS_CC_TF_PASS_DEVICE_PASS_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/base/work_meter.h"
#include "cc/core/options/options.h"
#include "cc/core/report/report.h"
#include "cc/core/report/stage_watch.h"
#include "cc/core/search/planner.h"
#include "cc/core/search/restraint.h"
#include "cc/core/search/strategy.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/text/graph_dump.h"
#include "cc/tf/graph/graph_bounds.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/hints.h"
#include "cc/tf/import/import.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/swap_choice.h"
#include "cc/tf/report/step_details.h"
#include "cc/tf/rewrite/rewrite.h"
#include "cc/tf/sizes/dimensions.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// Functions with less are left alone where the budget is relative to their own peak: nothing would be gained.
inline constexpr int64_t kLeastActivationBytes = 256 << 10;

// What a relative budget asks for: kLeastActivationBytes, unless it was set, for tests that have smaller steps.
int64_t LeastActivationBytes();
void SetLeastActivationBytes(int64_t bytes);

// A plan that was accepted, for devices that hold the same part of a model to follow.
struct Model {
  ImportedGraph imported;  // in the order that was planned
  std::vector<bool> part;  // per op: on the device
  PlannerResult planned;
  int64_t order_limit = 0;  // above what is resident; 0: no order
  int64_t peak = 0;         // above what is resident
};

// What the passes for the devices of one step share: sizes and costs are those of the graph as it came.
struct StepFacts {
  StepFacts(const tensorflow::grappler::GrapplerItem& item, const Options& options)
      : dimensions(item, options), sizes(&dimensions), work(WorkForStep(options.planner_seconds)) {}

  Dimensions dimensions;
  TensorSizes sizes;
  bool inferred = false;
  WorkMeter work;              // of all planning
  std::optional<Model> model;  // of the first device
};

// One use: Run(). May throw; errors of stages become the report's status kFailed. The arguments must outlive it.
class DevicePass {
 public:
  // Plans `device`, or where that is "" the one that holds most.
  DevicePass(const Options& options, tensorflow::grappler::Cluster* cluster,
             const tensorflow::grappler::GrapplerItem& item, int threads, const std::string& device, StepFacts* facts,
             StageWatch* stages, Report* report);
  // Fills in the report, and *output where the return value is true; otherwise the graph is to stay as it is.
  bool Run(tensorflow::GraphDef* output);

 private:
  bool RunStages(tensorflow::GraphDef* output);
  // device_pass_read.cc: what the step takes as it is, and what it may take.
  void Enter(const char* stage) { stages_.Enter(stage); }
  bool Skip(const std::string& reason);
  bool Fail(const absl::Status& status);
  bool Read();
  // What the prediction does not cover is said wherever it is used.
  void NoteAssumptions();
  void NoteRecorded();
  void NoteHiddenOps();
  void NoteUnseenCalls();
  void Measure();
  // What is planned is the graph with its loops' iterations kept apart, where that matters, and with all regions
  // planned that are above the limit.
  absl::Status ImportAgain();
  void EstimateCosts();
  void NoteProfiledShare();
  // What goes wrong while graphs are written is no reason to leave a step as it is.
  void Dump(const std::function<std::string()>& write);
  GraphDump DumpFile() const { return {options_.dump_graphs, report_.function, report_.sequence}; }
  void DumpGraph();
  // With an automatic budget the margin counts too: what is left on a device is never exact. An explicit budget that
  // the prediction meets is met.
  bool OverBudget() const;
  bool Fits();
  // A share of the graph's own peak, or the least: asked of every function that runs, not only of training steps.
  bool RelativeBudget() const;
  int64_t Limit() const { return PlanningLimit(Allowed(), report_.resident_bytes, options_.safety_margin); }
  // What a prediction may be for the step to keep the budget: the budget, less what steps have been seen to take more.
  int64_t Allowed() const;

  // device_pass_plan.cc: ways to the budget.
  bool PlanAndRewrite(tensorflow::GraphDef* output);
  // Replicas of a model get one plan. False where this device's part is not that of the first device, or the plan does
  // not do for it: then it is planned by itself.
  bool FollowModel(tensorflow::GraphDef* output);
  std::vector<bool> PartOnDevice(const ImportedGraph& imported) const;
  // Asked only now, as a link that nobody has measured yet is measured here.
  void ChooseWhereToSwap();
  // With a part of the work that is left: who plans again has less, and there is always some.
  PlannerOptions Planner() const;
  // Adds what has been planned to the account of the step.
  void Count(int64_t work);
  // An order that did not hold in the verifier's eyes is given another chance beside recomputation, and then given up.
  StrategyOptions Ways(int attempt) const;
  // The graph in the order that is being enforced.
  const ImportedGraph& Planned() const { return in_order_ ? ordered_ : imported_; }
  bool ApplyAndVerify(const Plan& plan, tensorflow::grappler::GrapplerItem* rewritten, MemoryProfile* profile);
  // What could not be placed in the order stays where it is in the next plan. False: nothing, or too often.
  bool KeepUntimed();

  // device_pass_retry.cc: what becomes of a plan that fails.
  // ApplyAndVerify(), where what is thrown makes it fail, too; but for the deadline.
  bool Rewrite(const Plan& plan, tensorflow::grappler::GrapplerItem* rewritten, MemoryProfile* profile);
  // The plan has failed: the next one is made with fewer kinds of changes. False, or what was thrown is thrown again:
  // there is none left.
  bool Restrain(const Plan& plan);

  // device_pass_hints.cc: what the user has said of tensors.
  void GiveHints();
  // Do they change a plan by themselves?
  bool Hinted() const;
  // Says what came of each hint, and what it costs beside a plan for the limit without it.
  void NoteHints(int64_t limit);
  // Which of them would have to go for the limit to be met; "" where it is not for them.
  std::string HintsInTheWay();
  PlannerResult PlanQuickly(const MemGraph& graph, int64_t limit, int plans);

  // device_pass_end.cc: what has come of it.
  void Accept(const PlannerResult& planned, const MemoryProfile& profile, tensorflow::grappler::GrapplerItem* rewritten,
              tensorflow::GraphDef* output);
  // The report's details: nothing that goes wrong with them is a reason to leave a step as it is.
  void Detail(const std::function<void()>& note);
  void FinishDetails();
  // Words on results that make up most of the peak: they are held to the end of the function, whatever is planned.
  std::string Returned() const;
  bool NothingToGain();
  // What would have to be asked for to get down to `peak`.
  int64_t LeastBudget(int64_t peak) const;
  bool Infeasible(const PlannerResult& planned, tensorflow::GraphDef* output);
  // Would there be a plan if the tier took more? Then the setting that stands in its way is named.
  void NoteWhatLimitsSwapping();

  const Options& options_;
  tensorflow::grappler::Cluster* cluster_;
  const tensorflow::grappler::GrapplerItem& item_;
  const int threads_;  // inter-op
  const std::string device_;
  StepFacts& facts_;
  StageWatch& stages_;
  const GraphBounds bounds_;
  TensorSizes& sizes_;
  Report& report_;
  GraphIndex index_;
  ImportedGraph imported_;
  HintMarks marks_;
  Hints hints_;
  bool in_order_ = false;
  ImportedGraph ordered_;    // then: the same in another order
  int64_t order_limit_ = 0;  // of bytes up to which the order need not be enforced; 0: it is the executor's own
  ChosenSwap swap_;          // where tensors may go, and over which link
  SwapTarget target_;
  RewriteResult applied_;
  StepDetails details_;
  bool details_lost_ = false;
  VerifiedRun verified_;  // of the latest rewrite
  Restraint restraint_;
  std::exception_ptr thrown_;   // by the latest rewrite
  int untimed_plans_ = 0;       // that could not be applied, as nothing told when to run an op again
  int64_t least_verified_ = 0;  // peak of the best rewritten graph that was still over the budget; 0: there was none
  int64_t worst_bytes_ = 0;     // what the step may take as it came, its peak or more
  std::string hidden_;          // words on what no figure includes
};

}  // namespace lms

#endif  // LMS_CC_TF_PASS_DEVICE_PASS_H_
