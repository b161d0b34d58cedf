// What the optimizer noted of functions whose ops lms.calibrate() times (time_ops.h), until Python takes it.

#ifndef LMS_CC_TF_PASS_TIMED_STORE_H_
#define LMS_CC_TF_PASS_TIMED_STORE_H_

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/profile/profile.h"

namespace lms {

struct TimedOp {
  std::string name;
  std::string key;
  double estimated_us = 0;
  bool always = false;  // runs once in every step, and is not folded into a constant: unseen, it takes no time
};

struct TimedFunction {
  std::string function;
  std::string problem;  // why it is not chained; "": it is
  ProfilePlace place;
  std::vector<TimedOp> ops;  // that run, those in loops and branches included
};

// By the name that the option `time_ops` gives. Safe to use from several threads.
class TimedStore {
 public:
  static TimedStore& Global();
  void Add(const std::string& name, TimedFunction function);
  std::vector<TimedFunction> Take(const std::string& name);  // and forgets them

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<TimedFunction>> functions_;
};

}  // namespace lms

#endif  // LMS_CC_TF_PASS_TIMED_STORE_H_
