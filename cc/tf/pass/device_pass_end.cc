#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/options/swap_limits.h"
#include "cc/core/simulate/lower_bound.h"
#include "cc/core/simulate/transfers.h"
#include "cc/tf/pass/device_pass.h"
#include "cc/tf/pass/strict.h"
#include "cc/tf/report/step_report.h"

namespace lms {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void DevicePass::Accept(const PlannerResult& planned, const MemoryProfile& profile,
                        tensorflow::grappler::GrapplerItem* rewritten, tensorflow::GraphDef* output) {
  const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
  report_.status = ReportStatus::kRewritten;
  report_.peak_after_bytes = profile.peak_bytes;
  report_.timeline_after = profile.Timeline();
  report_.nodes_after = rewritten->graph.node_size();
  FailIfInjected("describe");
  const AppliedPlan applied{Planned(), planned, applied_, swap_.link, order_limit_ > 0};
  DescribeApplied(applied, index_, sizes_, &report_);
  NoteHints(least ? profile.peak_bytes : OverBudget() ? Limit() : std::max(Limit(), Allowed()));
  Detail([&] { details_.After(verified_, profile, applied, report_); });
  Dump([&] {
    const std::string problem = in_order_ ? DumpFile().Write(Planned().graph) : "";
    return problem.empty() ? DumpFile().Write(Planned().graph, planned.plan) : problem;
  });
  if (device_.empty() && !imported_.other_devices.empty()) {
    const int64_t limit = order_limit_ == 0 ? 0 : order_limit_ - report_.resident_bytes;
    facts_.model =
        Model{Planned(), PartOnDevice(Planned()), planned, limit, profile.peak_bytes - report_.resident_bytes};
  }
  output->Swap(&rewritten->graph);
}

void DevicePass::Detail(const std::function<void()>& note) {
  if (details_lost_) return;
  details_lost_ = true;  // unless all goes well
  std::string problem = "unknown exception";
  try {
    FailIfInjected("details");
    note();
    details_lost_ = false;
    return;
  } catch (const std::exception& e) {
    problem = e.what();
  } catch (...) {
  }
  report_.warnings.push_back("the report has no details: " + problem);
}

void DevicePass::FinishDetails() {
  report_.details = details_.Finish(Planned().graph, report_.status);
  auto step = std::make_shared<PlannedStep>();
  step->graph = std::move(imported_.graph);
  ForgetNames(&step->graph);
  step->link = swap_.link;
  step->rules = swap_.rules;
  step->recompute = options_.recompute;
  step->schedule = options_.schedule;
  step->safety_margin = options_.safety_margin;
  report_.planned_step = std::move(step);
}

std::string DevicePass::Returned() const {
  int64_t returned = 0;
  for (const MemBuffer& buffer : imported_.graph.buffers) {
    if (buffer.escapes && !buffer.resident) returned += buffer.bytes;
  }
  if (returned < kLeastActivationBytes || returned < (report_.peak_before_bytes - report_.resident_bytes) / 2)
    return "";
  return "; " + FormatBytes(returned) +
         " of it are results that the function returns, which cannot be dropped: where they are activations for a "
         "backward pass that runs outside of it, put forward and backward pass into one tf.function";
}

bool DevicePass::NothingToGain() {
  report_.status = ReportStatus::kFits;
  report_.budget_bytes = report_.min_budget_bytes = report_.peak_before_bytes;
  NoteHints(0);
  report_.reason =
      "no plan lowers the predicted peak of " + FormatBytes(report_.peak_before_bytes) + hidden_ + Returned();
  return false;
}

int64_t DevicePass::LeastBudget(int64_t peak) const {
  const int64_t budget = BudgetForLimit(peak, report_.resident_bytes, options_.safety_margin);
  const bool automatic = options_.memory_budget.kind == Budget::Kind::kAuto;
  if (automatic || (Hinted() && peak > report_.peak_before_bytes)) return budget;
  // A step that fits needs no margin.
  return std::min(budget, report_.peak_before_bytes);
}

bool DevicePass::Infeasible(const PlannerResult& planned, tensorflow::GraphDef* output) {
  int64_t peak = std::max(planned.peak_bytes, least_verified_);
  if (Limit() < LowerBoundBytes(imported_.graph)) {
    FailIfInjected("least");
    const double start = Now();
    const PlannerResult least = ChooseForLeastPeak(imported_.graph, Ways(0)).planned;
    peak = least.peak_bytes;
    Count(least.work);
    report_.planner_seconds += Now() - start;
  }
  report_.status = ReportStatus::kInfeasible;
  report_.min_budget_bytes = LeastBudget(peak);
  report_.reason = "the budget of " + FormatBytes(report_.budget_bytes) + " cannot be met";
  if (report_.budget_bytes <= report_.resident_bytes) {
    report_.reason += ": weights, inputs and constants alone take " + FormatBytes(report_.resident_bytes);
  }
  NoteWhatLimitsSwapping();
  NoteHints(0);
  report_.reason += HintsInTheWay();
  report_.reason += Returned();
  report_.reason += "; the least feasible budget found is " + FormatBytes(report_.min_budget_bytes) + " (" +
                    std::to_string(report_.min_budget_bytes) + " bytes)";
  if (!options_.strict) return false;
  FailIfInjected("strict");
  *output = item_.graph;
  FailStep(index_, imported_.device, "lms (strict): " + report_.reason, output);
  return true;
}

void DevicePass::NoteWhatLimitsSwapping() {
  if (!swap_.link.usable() || swap_.limits.empty() || report_.budget_bytes <= report_.resident_bytes) return;
  if (Limit() < LowerBoundBytes(imported_.graph)) return;  // it is not for the tier
  StrategyOptions ways = Ways(0);
  ways.planner.link.capacity_bytes = SwapLink().capacity_bytes;
  ways.order = false;
  const double start = Now();
  const PlannerResult planned = ChooseForLimit(imported_.graph, Limit(), ways).planned;
  report_.planner_seconds += Now() - start;
  Count(planned.work);
  if (!planned.feasible) return;
  const Transfers transfers = SimulateTransfers(imported_.graph, planned.plan, swap_.link);
  const std::string warning = SwapLimitWarning(transfers.peak_stored_bytes, swap_.limits);
  if (!warning.empty()) report_.warnings.push_back(warning);
}

}  // namespace lms
