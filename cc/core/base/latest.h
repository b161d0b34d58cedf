// What is kept of the latest functions, by name: when there are more than kMost, the first is forgotten.
//
// Thread-safety: all functions. The values are shared: who has one keeps it when it is forgotten here.

#ifndef LMS_CC_CORE_BASE_LATEST_H_
#define LMS_CC_CORE_BASE_LATEST_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace lms {

template <typename Value>
class Latest {
 public:
  static constexpr size_t kMost = 4096;

  // Made where there is none yet.
  std::shared_ptr<Value> Of(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [entry, is_new] = values_.try_emplace(name);
    if (!is_new) return entry->second;
    std::shared_ptr<Value> made = entry->second = std::make_shared<Value>();
    order_.push_back(name);
    if (order_.size() > kMost) {
      values_.erase(order_.front());
      order_.pop_front();
    }
    return made;
  }

  // Null where there is none.
  std::shared_ptr<Value> Find(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Value>> values_;
  std::deque<std::string> order_;  // of the names
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_LATEST_H_
