// The reports of this process, oldest first: bounded, safe to use from several threads.

#ifndef LMS_CC_CORE_REPORT_REPORT_STORE_H_
#define LMS_CC_CORE_REPORT_REPORT_STORE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/report/report.h"

namespace lms {

class ReportStore {
 public:
  static constexpr int64_t kMostDetailBytes = int64_t{48} << 20;
  static constexpr int64_t kMostStepBytes = int64_t{64} << 20;

  static ReportStore& Global();

  // For a report whose number is needed before it is complete.
  int64_t NextSequence();

  // Gives the report the next sequence number, unless it has one. The oldest report goes when there are too many;
  // reports that carry nothing to read ("skipped") go first. Of details, and of steps that other budgets can be tried
  // on, so many bytes are kept as stated below, those of the latest reports.
  void Add(Report report);
  std::vector<Report> All() const;

  // The latest report on a function; nothing where there is none.
  std::optional<Report> Latest(const std::string& function) const;

  // The step behind the report of this number; null where it is gone.
  std::shared_ptr<const PlannedStep> StepOf(int64_t sequence) const;

  // Enters what was measured, and a warning unless it is "", into the report of this number. False where it is gone.
  bool SetMeasured(int64_t sequence, int64_t peak_bytes, int steps, const std::string& warning);
  int64_t count() const;  // of reports ever added
  void Clear();

 private:
  static constexpr size_t kMost = 256;

  void Trim();

  mutable std::mutex mutex_;
  std::deque<Report> reports_;
  int64_t count_ = 0;
  int64_t last_sequence_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_REPORT_STORE_H_
