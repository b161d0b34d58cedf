#include "cc/tf/report/step_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/core/base/bytes.h"
#include "cc/core/base/words.h"
#include "cc/core/simulate/transfers.h"

namespace lms {
namespace {

std::vector<Decision> DescribeOrder(const MemGraph& graph, const std::vector<OrderEdge>& edges) {
  std::vector<Decision> decisions;
  for (const OrderEdge& edge : edges) {
    Decision decision;
    decision.kind = "order";
    decision.priced_by.clear();  // no op runs again
    decision.op = graph.ops[edge.op].name;
    decision.op_type = graph.ops[edge.op].type;
    for (const BufferId b : graph.ops[edge.op].outputs) decision.tensor_bytes += graph.buffers[b].bytes;
    decision.position = edge.op;
    decision.trigger = edge.waits_for;
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
}

// Where the copies are, when not in what runs in every step alone.
std::string Where(const GraphIndex& index, const ImportedGraph& imported) {
  std::vector<std::string> places;
  size_t branches = 0;
  bool every_step = false;
  for (const int planned : imported.regions) {
    const Region& region = index.region(planned);
    if (region.frame > 0) {
      const std::string place = "the body of the loop " + index.frame(region.frame).name;
      if (std::count(places.begin(), places.end(), place) == 0) places.push_back(place);
    } else if (region.conditions.empty()) {
      every_step = true;
    } else {
      ++branches;
    }
  }
  if (branches > 0) places.push_back(branches == 1 ? "a branch" : std::to_string(branches) + " branches");
  if (places.empty()) return "";
  if (every_step) places.push_back("what runs in every step");
  return ", in " + Join(places);
}

// "12 recomputations and 3 moves", "8 tensors swapped to disk, ..."
std::string MeansInWords(const Plan& plan, const Report& report) {
  const auto moves = static_cast<size_t>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const RecomputeStep& step) { return step.moves; }));
  std::vector<std::string> parts;
  if (!plan.swap_outs.empty()) {
    parts.push_back(Counted(static_cast<int64_t>(plan.swap_outs.size()), "tensor") + " swapped to " +
                    (report.swap_tier == "disk" ? "disk" : "the host"));
  }
  if (plan.steps.size() > moves || plan.swap_outs.empty()) {
    parts.push_back(Counted(static_cast<int64_t>(plan.steps.size() - moves), "recomputation"));
  }
  if (moves > 0 || plan.swap_outs.empty()) parts.push_back(Counted(static_cast<int64_t>(moves), "move"));
  return Join(parts);
}

std::string Reason(const AppliedPlan& applied, const GraphIndex& index, const Report& report) {
  const auto edges = static_cast<int64_t>(applied.result.order_edges.size());
  const std::string held = edges == 0 ? "" : ", held by " + Counted(edges, "control edge") + ",";
  const bool apart = !applied.graph.holds.empty();  // iterations
  std::string reason;
  if (!applied.planned.plan.empty()) {
    reason =
        MeansInWords(applied.planned.plan, report) + (applied.ordered ? " in another order" + held : "") + " lower";
  } else if (edges == 0 && apart) {
    reason = "keeping iterations of loops apart lowers";
  } else {
    reason = "another order of the same operations" + held + " lowers";
  }
  return reason + " the predicted peak from " + FormatBytes(report.peak_before_bytes) + " to " +
         FormatBytes(report.peak_after_bytes) + Where(index, applied.graph) +
         (apart ? "; iterations of loops wait for the end of the one before" : "");
}

}  // namespace

void DescribeApplied(const AppliedPlan& applied, const GraphIndex& index, const TensorSizes& sizes, Report* report) {
  const MemGraph& graph = applied.graph.graph;
  const Plan& plan = applied.planned.plan;
  if (report->step_time_us > 0) {
    report->predicted_time_overhead = applied.planned.cost_us / report->step_time_us;
    report->time_overhead_bound = applied.planned.bound_us / report->step_time_us;
  }
  report->decisions = DescribePlan(graph, plan, applied.result.step_triggers);
  for (Decision& decision : report->decisions) {
    if (sizes.Of(decision.op).profiled) decision.priced_by = "profile";
  }
  if (!plan.swap_outs.empty()) {
    const Transfers transfers = SimulateTransfers(graph, plan, applied.link);
    NoteTransfers(transfers, report);
    const std::vector<std::string> at_once(plan.swap_outs.size());
    for (Decision& decision :
         DescribeSwaps(graph, plan, applied.link, transfers, at_once, applied.result.swap_in_triggers)) {
      report->decisions.push_back(std::move(decision));
    }
  }
  if (applied.ordered) {
    for (Decision& decision : DescribeOrder(graph, applied.result.order_edges)) {
      report->decisions.push_back(std::move(decision));
    }
  }
  report->reason = Reason(applied, index, *report);
}

}  // namespace lms
