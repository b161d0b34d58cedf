#include "cc/core/report/report_store.h"

#include <algorithm>
#include <utility>

namespace lms {

ReportStore& ReportStore::Global() {
  static auto* const store = new ReportStore;
  return *store;
}

int64_t ReportStore::NextSequence() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ++last_sequence_;
}

void ReportStore::Add(Report report) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++count_;
  if (report.sequence == 0) report.sequence = ++last_sequence_;
  reports_.push_back(std::move(report));
  Trim();
  if (reports_.size() <= kMost) return;
  const auto skipped = std::find_if(reports_.begin(), reports_.end(),
                                    [](const Report& r) { return r.status == ReportStatus::kSkipped; });
  reports_.erase(skipped == reports_.end() ? reports_.begin() : skipped);
}

void ReportStore::Trim() {
  int64_t detail_bytes = 0;
  int64_t step_bytes = 0;
  for (auto report = reports_.rbegin(); report != reports_.rend(); ++report) {
    if (report->details) detail_bytes += report->details->MemoryBytes();
    if (detail_bytes > kMostDetailBytes) report->details.reset();
    if (report->planned_step) step_bytes += report->planned_step->MemoryBytes();
    if (step_bytes > kMostStepBytes) report->planned_step.reset();
  }
}

std::vector<Report> ReportStore::All() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {reports_.begin(), reports_.end()};
}

std::optional<Report> ReportStore::Latest(const std::string& function) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(reports_.rbegin(), reports_.rend(),
                                  [&function](const Report& report) { return report.function == function; });
  if (found == reports_.rend()) return std::nullopt;
  return *found;
}

std::shared_ptr<const PlannedStep> ReportStore::StepOf(int64_t sequence) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(reports_.begin(), reports_.end(),
                                  [sequence](const Report& report) { return report.sequence == sequence; });
  return found == reports_.end() ? nullptr : found->planned_step;
}

bool ReportStore::SetMeasured(int64_t sequence, int64_t peak_bytes, int steps, const std::string& warning) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Report& report : reports_) {
    if (report.sequence != sequence) continue;
    report.measured_peak_bytes = peak_bytes;
    report.measured_steps = steps;
    if (!warning.empty()) report.warnings.push_back(warning);
    return true;
  }
  return false;
}

int64_t ReportStore::count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return count_;
}

void ReportStore::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  reports_.clear();
}

}  // namespace lms
