#include "cc/tf/pass/step_pass.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph/graph_check.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/graph/variable_assigns.h"
#include "cc/tf/pass/loop_pass.h"
#include "cc/tf/pass/place_stage.h"
#include "cc/tf/rewrite/fuse_elementwise.h"
#include "cc/tf/rewrite/split_swaps.h"
#include "cc/tf/sizes/row_slices.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

// The step on one device. False: the graph is to stay as it is.
bool PlanDevice(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, int threads,
                const std::string& device, StepFacts* facts, tensorflow::GraphDef* output, StageWatch* stages,
                Report* report) {
  const Report blank = *report;
  // Where no plan makes up for all that steps have been seen to take more, one that makes up for a part is better than
  // the graph as it came.
  const double excess = options.observed_excess - 1;
  for (const double share : {1.0, 0.5, 0.0}) {
    Options tried = options;
    tried.observed_excess = 1 + excess * share;
    const bool last = excess <= 0 || share <= 0;
    tried.strict = options.strict && last;
    std::vector<std::pair<std::string, double>> seconds = std::move(report->stage_seconds);
    const int64_t work = report->planner_work;
    *report = blank;
    report->stage_seconds = std::move(seconds);
    report->planner_work = work;
    PlanAccount account(&facts->work, report);
    const DeviceContext context{tried, cluster, item, threads, device, *facts, *stages, account};
    const bool changed = RunLoopPass(context, output, report);
    if (report->status == ReportStatus::kInfeasible && !last) continue;
    if (!options.planned_again.empty()) report->reason += "; planned again: " + options.planned_again;
    return changed;
  }
  return false;
}

// Are there plans for other devices to be made, after what became of the first?
bool GoOn(const Report& first, bool changed) {
  // A step that fails on purpose (strict) has failed for all.
  if (changed) return first.status == ReportStatus::kRewritten;
  return first.status == ReportStatus::kFits || first.status == ReportStatus::kInfeasible;
}

// The graph is the same again where that fails: copies are waited for on the host then.
void SplitHostSwaps(const grappler::GrapplerItem& item, const Deadline& deadline, tensorflow::GraphDef* output) {
  const auto swaps = [](const tensorflow::NodeDef& node) { return IsSwap(node.op()); };
  if (std::none_of(output->node().begin(), output->node().end(), swaps)) return;
  grappler::GrapplerItem split = item.WithGraph(tensorflow::GraphDef(*output));
  absl::Status status;
  try {
    status = SplitSwaps(deadline, &split);
    // TensorFlow would drop all that its optimizers have made.
    if (status.ok()) status = CheckGraph(split.graph);
    if (status.ok() && !IsSplitOf(split.graph, *output)) status = absl::InternalError("other changes were made");
  } catch (const std::exception& e) {
    status = absl::InternalError(e.what());
  }
  if (status.ok()) output->Swap(&split.graph);
}

// The graph is the same again where TensorFlow would drop what comes of that. What it saves is taken off the time that
// the plan for a CPU adds.
void FuseOnCpu(const grappler::GrapplerItem& item, const TensorSizes& sizes, tensorflow::GraphDef* output,
               std::vector<DevicePlaces>* places, std::deque<Report>* reports) {
  const auto report = std::find_if(reports->begin(), reports->end(), [](const Report& one) {
    return one.status == ReportStatus::kRewritten && DeviceType(one.device) == "CPU";
  });
  if (report == reports->end()) return;
  OwnNodes own;
  own.result_bytes = [&sizes](const std::string& node) -> int64_t {
    const std::vector<TensorSize>& outputs = sizes.Of(node).outputs;
    return outputs.empty() ? 0 : outputs[0].bytes;
  };
  own.may_be_slice = MaySliceRows;
  own.cost_us = [&sizes](const std::string& node) { return sizes.Of(node).cost_us; };
  own.kept = item.NodesToPreserve();
  own.as_parts = std::any_of(places->begin(), places->end(),
                             [](const DevicePlaces& of_device) { return DeviceType(of_device.device) == "CPU"; });
  tensorflow::GraphDef fused = *output;
  const Fused done = FuseElementwise(&fused, own);
  if (done.gone() == 0 || !CheckGraph(fused).ok()) return;
  output->Swap(&fused);
  for (DevicePlaces& of_device : *places) AskAsPartOf(done.within, &of_device.step);
  if (report->step_time_us <= 0) return;
  const double saved = done.saved_us / report->step_time_us;
  report->predicted_time_overhead = std::max(0.0, report->predicted_time_overhead - saved);
}

bool RunDevices(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, int threads,
                StepFacts* facts, tensorflow::GraphDef* output, StageWatch* stages, std::deque<Report>* reports) {
  const Report blank = reports->back();
  bool changed = PlanDevice(options, cluster, item, threads, "", facts, output, stages, &reports->back());
  if (!GoOn(reports->back(), changed)) return changed;
  // Each in the graph that the ones before have left. What goes wrong here leaves their work as it is.
  const std::vector<std::string> others = reports->back().other_devices;
  for (const std::string& device : others) {
    Report& report = reports->emplace_back(blank);
    tensorflow::GraphDef more;
    bool changed_more = false;
    const auto fail = [&report](const std::string& why) {
      report.status = ReportStatus::kFailed;
      report.reason = report.stage + ": " + why;
    };
    try {
      report.device = device;
      grappler::GrapplerItem next = item;
      if (changed) next.graph = *output;
      StageWatch own(stages->deadline(), &report);
      changed_more = PlanDevice(options, cluster, next, threads, device, facts, &more, &own, &report);
    } catch (const TooMuch& e) {
      NoteTooMuch(e, &report);
    } catch (const std::exception& e) {
      fail(e.what());
    } catch (...) {
      fail("unknown exception");
    }
    if (!changed_more) continue;
    output->Swap(&more);
    changed = true;
    if (report.status != ReportStatus::kRewritten) break;
  }
  return changed;
}

}  // namespace

bool RunStepPass(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, int threads,
                 tensorflow::GraphDef* output, StageWatch* stages, std::deque<Report>* reports) {
  StepFacts facts(item, options);
  const bool changed = RunDevices(options, cluster, item, threads, &facts, output, stages, reports);
  if (!changed) return false;
  SplitHostSwaps(item, stages->deadline(), output);
  FuseOnCpu(item, facts.sizes, output, &facts.places, reports);
  // After all else, which knows TensorFlow's own op.
  for (const std::string& device : facts.in_pieces) AssignInPlace(device, output);
  PlaceSteps(item, facts.places, cluster, output);
  return true;
}

}  // namespace lms
