#include "cc/tf/pass/device_report.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/report/earlier_plans.h"
#include "cc/core/report/report_store.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/report/step_report.h"

namespace lms {
namespace {

// Words on results that make up most of the peak: they are held to the end of the function, whatever is planned.
std::string Returned(const MemGraph& graph, int64_t activations) {
  int64_t returned = 0;
  for (const MemBuffer& buffer : graph.buffers) {
    if (buffer.escapes && !buffer.resident) returned += buffer.bytes;
  }
  if (returned < kLeastActivationBytes || returned < activations / 2) return "";
  return "; " + FormatBytes(returned) +
         " of it are results that the function returns, which cannot be dropped: where they are activations for a "
         "backward pass that runs outside of it, put forward and backward pass into one tf.function";
}

}  // namespace

void DeviceReport::AddWarnings(const std::vector<std::string>& warnings) {
  report_.warnings.insert(report_.warnings.end(), warnings.begin(), warnings.end());
}

void DeviceReport::NoteRead(const ReadStep& read) {
  report_.sizes = read.sizes;
  if (!read.status.ok()) return;
  report_.device = read.imported.device;
  report_.other_devices = read.imported.other_devices;
  if (context_.as_it_came == nullptr) report_.nodes_before = report_.nodes_after = context_.item.graph.node_size();
  hidden_ = read.hidden;
  AddWarnings(read.warnings);
}

void DeviceReport::NotePrices(const Prices& prices) {
  report_.profile = prices.profile;
  report_.profiled_share = prices.profiled_share;
  AddWarnings(prices.warnings);
}

void DeviceReport::NoteMeasured(const ReadStep& read, const MeasuredStep& measured) {
  const StepAsItCame* const came = context_.as_it_came;
  const MemoryProfile& profile = came == nullptr ? measured.profile : came->profile;
  report_.resident_bytes = measured.profile.resident_bytes;
  report_.constant_bytes = measured.constant_bytes;
  report_.peak_before_bytes = report_.peak_after_bytes = profile.peak_bytes;
  report_.lost_before_bytes = report_.lost_after_bytes = profile.lost_bytes;
  report_.timeline_before = profile.Timeline();
  report_.order_peaks_before = profile.order_peaks;
  report_.assumption = measured.assumption;
  report_.open_sizes = measured.open_sizes;
  report_.open_loops = measured.open_loops;
  AddWarnings(measured.warnings);
  if (!measured.assumed.empty()) report_.warnings.insert(report_.warnings.begin(), measured.assumed);
  Detail([&] {
    details_.Before(came == nullptr ? read.imported : came->imported, profile,
                    came == nullptr ? measured.record : came->record);
  });
}

void DeviceReport::NoteGoal(const AskedFor& asked) {
  report_.budget_bytes = asked.goal.budget_bytes();
  report_.budget = asked.asked;
  if (!asked.source.empty()) report_.budget += " (" + asked.source + ")";
  if (!asked.warning.empty()) report_.warnings.push_back(asked.warning);
}

void DeviceReport::NoteCandidates(const Candidates& candidates) {
  report_.step_time_us = candidates.imported.graph.TotalCostUs();
  if (context_.options.swap) NoteSwap(candidates.swap, &report_);
  AddWarnings(candidates.warnings);
}

void DeviceReport::Dump(const ImportedGraph& imported) {
  Write([&] {
    report_.sequence = ReportStore::Global().NextSequence();  // which the files' names hold
    return DumpFile().Write(imported.graph);
  });
}

void DeviceReport::Write(const std::function<std::string()>& write) {
  if (context_.options.dump_graphs.empty()) return;
  std::string problem;
  try {
    FailIfInjected("dump");
    problem = write();
  } catch (const std::exception& e) {
    problem = e.what();
  } catch (...) {
    problem = "unknown exception";
  }
  if (!problem.empty()) report_.warnings.push_back("dump_graphs: " + problem);
}

void DeviceReport::Detail(const std::function<void()>& note) {
  if (details_lost_) return;
  details_lost_ = true;  // unless all goes well
  std::string problem;
  try {
    FailIfInjected("details");
    note();
    details_lost_ = false;
    return;
  } catch (const std::exception& e) {
    problem = e.what();
  } catch (...) {
    problem = "unknown exception";
  }
  report_.warnings.push_back("the report has no details: " + problem);
}

void DeviceReport::AddAssumption() {
  if (!report_.assumption.empty()) report_.reason = "if " + report_.assumption + ": " + report_.reason;
}

bool DeviceReport::Skipped(const std::string& reason) {
  report_.status = ReportStatus::kSkipped;
  report_.reason = reason + hidden_;
  AddAssumption();
  return false;
}

bool DeviceReport::Failed(const absl::Status& status) {
  report_.status = ReportStatus::kFailed;
  report_.reason = report_.stage + ": " + std::string(status.message());
  report_.assumption.clear();
  return false;
}

void DeviceReport::Fits(const HintNotes& hints) {
  report_.status = ReportStatus::kFits;
  report_.reason = "the predicted peak of " + FormatBytes(report_.peak_before_bytes) + " is within the budget of " +
                   FormatBytes(report_.budget_bytes) + hidden_;
  report_.hints = hints.hints;
  AddWarnings(hints.warnings);
}

void DeviceReport::NothingToGain(const Candidates& candidates, const HintNotes& hints, int64_t worst) {
  report_.status = ReportStatus::kFits;
  report_.budget_bytes = report_.min_budget_bytes = report_.peak_before_bytes;
  report_.hints = hints.hints;
  AddWarnings(hints.warnings);
  report_.reason = "no plan lowers the predicted peak of " + FormatBytes(report_.peak_before_bytes) + hidden_ +
                   Returned(candidates.imported.graph, report_.peak_before_bytes - report_.resident_bytes);
  WarnOfOverlap(worst);
}

void DeviceReport::WarnOfOverlap(int64_t worst) {
  if (worst <= std::max(report_.budget_bytes, report_.peak_after_bytes)) return;
  report_.warnings.push_back(
      "iterations of a loop may run ahead of one another, and nothing keeps them apart: at worst the step takes " +
      FormatBytes(worst) + ", more than the budget of " + FormatBytes(report_.budget_bytes));
}

void DeviceReport::Infeasible(const Candidates& candidates, const Shortfall& shortfall, const HintNotes& hints) {
  report_.status = ReportStatus::kInfeasible;
  // Whoever asks for that next has this plan's constants besides.
  report_.min_budget_bytes = shortfall.min_budget_bytes + KeptConstants(report_.constant_bytes);
  report_.reason = "the budget of " + FormatBytes(report_.budget_bytes) + " cannot be met";
  if (report_.budget_bytes <= report_.resident_bytes) {
    report_.reason += ": weights, inputs and constants alone take " + FormatBytes(report_.resident_bytes);
  }
  if (!shortfall.swap_limit.empty()) report_.warnings.push_back(shortfall.swap_limit);
  report_.hints = hints.hints;
  AddWarnings(hints.warnings);
  report_.reason += shortfall.hints;
  report_.reason += Returned(candidates.imported.graph, report_.peak_before_bytes - report_.resident_bytes);
  report_.reason += "; the least feasible budget found is " + FormatBytes(report_.min_budget_bytes) + " (" +
                    std::to_string(report_.min_budget_bytes) + " bytes)";
}

void DeviceReport::Rewritten(const ReadStep& read, const BudgetGoal& goal, const Candidates& candidates,
                             const BudgetResult& result, const HintNotes& hints) {
  const RewrittenStep& rewritten = result.rewritten;
  const ImportedGraph& imported = result.planned.GraphOf(candidates);
  report_.status = ReportStatus::kRewritten;
  report_.peak_after_bytes = rewritten.profile.peak_bytes;
  report_.lost_after_bytes = rewritten.profile.lost_bytes;
  report_.timeline_after = rewritten.profile.Timeline();
  report_.order_peaks_after = rewritten.profile.order_peaks;
  report_.nodes_after = rewritten.item.graph.node_size();
  if (goal.least()) report_.budget_bytes = report_.min_budget_bytes = result.budget_bytes;
  FailIfInjected("describe");
  const AppliedPlan applied{imported, result.planned.result, rewritten.result, candidates.swap.link,
                            result.planned.order_limit > 0};
  DescribeApplied(applied, read.index, context_.facts.sizes, &report_);
  report_.hints = hints.hints;
  AddWarnings(hints.warnings);
  if (const int64_t lacking = rewritten.profile.lacking_bytes; lacking > 0) {
    report_.warnings.push_back("TensorFlow's memory pool on " + imported.device +
                               " is fragmented: a free piece is predicted to be " + FormatBytes(lacking) +
                               " too small");
  }
  if (result.short_of) {
    report_.min_budget_bytes = result.budget_bytes;
    const bool in_pieces = report_.peak_after_bytes <= report_.budget_bytes;
    report_.warnings.push_back(
        "the step is predicted to take " + FormatBytes(report_.peak_after_bytes) + ", and the device has " +
        FormatBytes(report_.budget_bytes) +
        (in_pieces ? ", but in pieces, and a tensor has to fit into one of them" : "") +
        ": no plan was found that is sure to hold, and this one comes nearest. The step may "
        "run out of memory, or end with a crash: a higher limit or a smaller batch is safe" +
        (in_pieces && IsGpu(imported.device)
             ? ". CUDA's own allocator has no such pieces: set TF_GPU_ALLOCATOR=cuda_malloc_async "
               "before Python starts"
             : ""));
  }
  WarnOfOverlap(rewritten.verified.worst_bytes);
  const bool lowered = goal.Over() && report_.peak_after_bytes < report_.peak_before_bytes;
  if (candidates.Hinted() && !lowered) {
    report_.reason = "hints are carried out, " + HintsThatChange(candidates.hints) + ": the predicted peak goes from " +
                     FormatBytes(report_.peak_before_bytes) + " to " + FormatBytes(report_.peak_after_bytes) +
                     ", within the budget of " + FormatBytes(report_.budget_bytes) + hidden_;
  }
  if (const size_t placed = rewritten.verified.places.entries.size(); placed > 0) {
    report_.reason += "; " + std::to_string(placed) + " tensors have their places in memory beforehand";
  }
  if (!result.like.empty()) report_.reason += "; the same plan as for " + result.like;
  if (!result.unlike.device.empty()) {
    const int64_t peak = result.unlike.peak_bytes;
    report_.reason += "; the plan for " + result.unlike.device + " would " +
                      (peak > 0 ? "take " + FormatBytes(peak) : std::string("lack room in one piece")) + " here";
  }
  Detail([&] { details_.After(rewritten.verified, rewritten.profile, applied, report_); });
  Write([&] {
    const std::string problem = result.planned.ordered ? DumpFile().Write(imported.graph) : "";
    return problem.empty() ? DumpFile().Write(imported.graph, result.planned.result.plan) : problem;
  });
}

void DeviceReport::Finish(Candidates candidates, const DevicePlan& planned) {
  AddAssumption();
  Detail([&] {
    report_.details = details_.Finish(planned.GraphOf(candidates).graph, report_.status);
    auto step = std::make_shared<PlannedStep>();
    step->graph = std::move(candidates.imported.graph);
    ForgetNames(&step->graph);
    step->link = candidates.swap.link;
    step->rules = candidates.swap.rules;
    step->recompute = context_.options.recompute;
    step->reorder = context_.options.reorder;
    step->safety_margin = context_.options.safety_margin;
    report_.planned_step = std::move(step);
  });
}

}  // namespace lms
