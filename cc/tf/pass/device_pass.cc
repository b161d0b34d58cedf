#include "cc/tf/pass/device_pass.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_report.h"
#include "cc/tf/pass/hint_notes.h"
#include "cc/tf/pass/measure_stage.h"
#include "cc/tf/pass/meet_budget.h"
#include "cc/tf/pass/place_stage.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/pass/shortfall.h"
#include "cc/tf/pass/strict.h"

namespace lms {
namespace {

bool IsRewritten(const tensorflow::GraphDef& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(), [](const auto& node) { return IsOwnName(node.name()); });
}

// The end of all that changes nothing, and was not planned.
bool Leave(DeviceReport* tell, ReadStep read) {
  Candidates none;
  none.imported = std::move(read.imported);
  tell->Finish(std::move(none));
  return false;
}

// The step fails as it runs, instead of running over its budget.
bool FailStrictly(const DeviceContext& context, const ReadStep& read, const std::string& device, const Report& report,
                  tensorflow::GraphDef* output) {
  if (!context.options.strict) return false;
  FailIfInjected("strict");
  *output = context.item.graph;
  FailStep(read.index, device, "lms (strict): " + report.reason + "; print(lms.explain()) says what to do", output);
  return true;
}

}  // namespace

bool RunDevicePass(const DeviceContext& context, tensorflow::GraphDef* output, Report* report) {
  DeviceReport tell(context, report);
  const bool variant = context.as_it_came != nullptr;
  if (!variant && context.device.empty() && IsRewritten(context.item.graph)) return tell.Skipped("already rewritten");

  ReadStep read = ReadGraph(context);
  tell.NoteRead(read);
  if (!read.status.ok()) return tell.Failed(read.status);
  if (read.imported.graph.ops.empty()) return tell.Skipped("no op of the graph runs");
  const std::string tasks = SeveralProcesses(context.item, read.index);
  if (!tasks.empty()) {
    return tell.Skipped("the step runs in several processes (" + tasks +
                        "): what they hand to each other over the network is not known, so nothing is predicted");
  }
  tell.NotePrices(PriceOps(context, &read.imported));

  MeasuredStep measured = MeasureStep(context, read);
  if (PoolLimitIsNearer(context, read, measured)) {
    read.arenas = ReadArenas(context, read.imported.device, /*pool_counts=*/true);
    measured = MeasureStep(context, read);
  }
  tell.NoteMeasured(read, measured);
  if (context.note_as_it_came != nullptr) {
    *context.note_as_it_came = {read.imported, measured.profile, std::move(measured.record)};
  }
  measured.record = RunRecord();  // large, and of no more use
  const AskedFor asked = ResolveGoal(context, read, measured);
  const BudgetGoal& goal = asked.goal;
  read.may_place = MayPlace(context, read, goal);
  tell.NoteGoal(asked);
  if (goal.relative() && !read.marks.any() && !variant && measured.Activations() < LeastActivationBytes()) {
    return tell.Skipped("too small for a relative budget: its activations peak at " +
                        FormatBytes(measured.Activations()));
  }
  tell.Dump(read.imported);
  if (!goal.Over() && !read.marks.any() && !variant) {
    tell.Fits();
    return Leave(&tell, std::move(read));
  }
  const std::string why_not = WhyNotPlanned(context, read);
  if (!why_not.empty()) return tell.Skipped(why_not);

  Candidates candidates = ImportCandidates(context, read, goal, std::move(read.imported));
  if (!candidates.status.ok()) return tell.Failed(candidates.status);
  if (candidates.imported_again) tell.Dump(candidates.imported);
  FindCandidates(context, read, &candidates);
  tell.NoteCandidates(candidates);

  BudgetResult result;
  result.outcome = BudgetOutcome::kFits;
  if (goal.Over() || candidates.Hinted() || variant) {
    report->kept = SummariseKept(candidates.imported.graph, candidates.swap.link.usable());
    result = MeetBudget(context, read, goal, &candidates, &report->warnings);
  }
  const MemGraph& graph = result.planned.GraphOf(candidates).graph;
  const auto hints = [&](int64_t limit) {
    return DescribeHints(context, goal, candidates, graph, result.restraint, limit);
  };
  bool changed = false;
  switch (result.outcome) {
    case BudgetOutcome::kFits:
      tell.Fits(hints(0));
      break;
    case BudgetOutcome::kNothingToGain:
      tell.NothingToGain(candidates, hints(0), goal.step().worst);
      break;
    case BudgetOutcome::kFailed:
      return tell.Failed(result.rewritten.status);
    case BudgetOutcome::kInfeasible: {
      const Shortfall shortfall = ExplainShortfall(context, goal, candidates, result.restraint, result.least_peak);
      tell.Infeasible(candidates, shortfall, hints(0));
      changed = FailStrictly(context, read, candidates.imported.device, *report, output);
      break;
    }
    case BudgetOutcome::kRewritten: {
      const int64_t peak = result.rewritten.profile.peak_bytes;
      tell.Rewritten(read, goal, candidates, result,
                     hints(goal.least() || result.short_of ? peak : goal.LimitForPlan()));
      if (result.like.empty()) KeepForOthers(context, goal, result.planned.GraphOf(candidates), result.planned, peak);
      if (!read.arenas.empty()) context.facts.in_pieces.push_back(candidates.imported.device);
      PlacedStep placed = PlacesOf(result.rewritten);
      if (!placed.tensors.empty()) context.facts.places.push_back({candidates.imported.device, std::move(placed)});
      output->Swap(&result.rewritten.item.graph);
      changed = true;
    }
  }
  tell.Finish(std::move(candidates), result.planned);
  return changed;
}

}  // namespace lms
