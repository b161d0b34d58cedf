#include "cc/core/report/earlier_plans.h"

namespace lms {
namespace {

constexpr size_t kMostFunctions = 4096;  // beyond it all are forgotten

}  // namespace

EarlierPlans& EarlierPlans::Global() {
  static auto* const plans = new EarlierPlans;
  return *plans;
}

void EarlierPlans::Note(const std::string& function, size_t options, const Bytes& constants) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (functions_.size() >= kMostFunctions && functions_.count(function) == 0) functions_.clear();
  functions_[function][options] = constants;
}

void EarlierPlans::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  functions_.clear();
}

EarlierPlans::Bytes EarlierPlans::ConstantsOf(const std::string& function, size_t options) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Bytes all;
  const auto found = functions_.find(function);
  if (found == functions_.end()) return all;
  for (const auto& [other, constants] : found->second) {
    if (other == options) continue;
    for (const auto& [device, bytes] : constants) all[device] += bytes;
  }
  return all;
}

}  // namespace lms
