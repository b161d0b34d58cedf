// One case through Init and Optimize as Grappler calls them, and what must hold afterwards:
//   - neither returns an error (Aborted is Grappler's word for "unchanged") and no exception escapes;
//   - there is one report, whose status says the same as what was returned, with figures that are no nonsense;
//   - unchanged means that nothing was written into the output;
//   - a changed graph has unique names, holds every node that was there, is taken by TensorFlow (where the original
//   is),
//     is found sound by the verifier, called once more from outside, and is under the budget that it claims to meet;
//   - a valid graph is not declined as "failed";
//   - a runnable one gives the same bits as the original, in two steps of a session with one thread, where two
//     sessions of the original agree.

#ifndef LMS_TESTS_CC_FUZZ_CHECK_CASE_H_
#define LMS_TESTS_CC_FUZZ_CHECK_CASE_H_

#include <string>

#include "tests/cc/fuzz/fuzz_case.h"

namespace lms::fuzz {

struct Checked {
  std::string problem;  // "": none
  std::string status;   // of the report
  std::string reason;
  bool ran = false;  // in sessions, too
};

Checked CheckCase(const FuzzCase& fuzz_case, bool run);

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_CHECK_CASE_H_
