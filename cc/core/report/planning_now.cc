#include "cc/core/report/planning_now.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace lms {
namespace {

thread_local PlanningMark* innermost = nullptr;

// Guards all marks, and who is among them.
std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// In the order in which they began.
std::vector<const PlanningMark*>& Marks() {
  static auto* const marks = new std::vector<const PlanningMark*>;
  return *marks;
}

}  // namespace

PlanningMark::PlanningMark(std::string function, int64_t operations) : outer_(innermost) {
  now_.function = std::move(function);
  now_.operations = operations;
  innermost = this;
  const std::lock_guard<std::mutex> lock(Mutex());
  Marks().push_back(this);
}

PlanningMark::~PlanningMark() {
  innermost = outer_;
  const std::lock_guard<std::mutex> lock(Mutex());
  Marks().erase(std::find(Marks().begin(), Marks().end(), this));
}

void PlanningMark::Enter(const std::string& stage) {
  if (innermost == nullptr) return;
  const std::lock_guard<std::mutex> lock(Mutex());
  innermost->now_.stage = stage;
}

std::optional<PlanningNow> PlanningMark::First() {
  const std::lock_guard<std::mutex> lock(Mutex());
  if (Marks().empty()) return std::nullopt;
  const PlanningMark& first = *Marks().front();
  PlanningNow now = first.now_;
  now.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - first.began_).count();
  return now;
}

}  // namespace lms
