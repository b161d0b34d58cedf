#include "cc/core/report/planned_reports.h"

#include <utility>

namespace lms {

PlannedReports& PlannedReports::Global() {
  static auto* const reports = new PlannedReports;
  return *reports;
}

void PlannedReports::Add(const std::string& name, Report report) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reports_[name].push_back(std::move(report));
}

std::vector<Report> PlannedReports::Take(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reports_.find(name);
  if (found == reports_.end()) return {};
  std::vector<Report> taken = std::move(found->second);
  reports_.erase(found);
  return taken;
}

}  // namespace lms
