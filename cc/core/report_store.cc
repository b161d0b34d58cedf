#include "cc/core/report_store.h"

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
  if (reports_.size() <= kMost) return;
  const auto skipped = std::find_if(reports_.begin(), reports_.end(),
                                    [](const Report& r) { return r.status == ReportStatus::kSkipped; });
  reports_.erase(skipped == reports_.end() ? reports_.begin() : skipped);
}

std::vector<Report> ReportStore::All() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {reports_.begin(), reports_.end()};
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
