#include "cc/tf/pass/timed_store.h"

#include <utility>

namespace lms {

TimedStore& TimedStore::Global() {
  static auto* const store = new TimedStore;
  return *store;
}

void TimedStore::Add(const std::string& name, TimedFunction function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  functions_[name].push_back(std::move(function));
}

std::vector<TimedFunction> TimedStore::Take(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = functions_.find(name);
  if (found == functions_.end()) return {};
  std::vector<TimedFunction> functions = std::move(found->second);
  functions_.erase(found);
  return functions;
}

}  // namespace lms
