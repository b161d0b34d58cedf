// The forward ops of random steps. Deterministic by the step's random numbers.

#ifndef LMS_TESTS_CC_FUZZ_STEP_OPS_H_
#define LMS_TESTS_CC_FUZZ_STEP_OPS_H_

#include "tests/cc/fuzz/step_builder.h"

namespace lms::fuzz {

// One op or several that belong together: a loop, a branch, a call, a sum in order of arrival, a list.
void AddForwardOp(StepBuilder* step);

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_STEP_OPS_H_
