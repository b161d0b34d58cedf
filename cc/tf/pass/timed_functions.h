// What the optimizer noted of functions whose ops lms.calibrate() times (time_ops.h), until Python takes it.

#ifndef LMS_CC_TF_PASS_TIMED_FUNCTIONS_H_
#define LMS_CC_TF_PASS_TIMED_FUNCTIONS_H_

#include <string>
#include <vector>

#include "cc/core/base/named_lists.h"
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

// By the name that the option `time_ops` gives.
NamedLists<TimedFunction>& TimedFunctions();

}  // namespace lms

#endif  // LMS_CC_TF_PASS_TIMED_FUNCTIONS_H_
