// Constants of the plans that functions had before, in this process. TensorFlow keeps a function's instances, one for
// each configuration under which it was called, and with each of them the constants that it holds and has computed.

#ifndef LMS_CC_CORE_REPORT_EARLIER_PLANS_H_
#define LMS_CC_CORE_REPORT_EARLIER_PLANS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace lms {

// Of so many bytes of constants, those that count for plans to come: a few are not worth it.
inline int64_t KeptConstants(int64_t bytes) { return bytes < (int64_t{64} << 10) ? 0 : bytes; }

// May be used by several threads at once.
class EarlierPlans {
 public:
  using Bytes = std::map<std::string, int64_t>;  // by device

  static EarlierPlans& Global();

  // What the function has been planned for under these options, by their hash; again, what it was before is replaced.
  void Note(const std::string& function, size_t options, const Bytes& constants);
  // Of all its plans under other options.
  Bytes ConstantsOf(const std::string& function, size_t options) const;
  void Clear();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::map<size_t, Bytes>> functions_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_EARLIER_PLANS_H_
