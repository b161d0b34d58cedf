// Lists by name, to which one part of the process adds and which another takes away as a whole.
//
// Thread-safety: all functions.

#ifndef LMS_CC_CORE_BASE_NAMED_LISTS_H_
#define LMS_CC_CORE_BASE_NAMED_LISTS_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lms {

template <typename T>
class NamedLists {
 public:
  void Add(const std::string& name, T entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lists_[name].push_back(std::move(entry));
  }

  // And forgets them; none where nothing was added under that name.
  std::vector<T> Take(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = lists_.find(name);
    if (found == lists_.end()) return {};
    std::vector<T> taken = std::move(found->second);
    lists_.erase(found);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<T>> lists_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_NAMED_LISTS_H_
