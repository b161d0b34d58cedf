// Loops and branches of random steps, in the lowered form that Grappler sees. Deterministic by the step's random
// numbers.

#ifndef LMS_TESTS_CC_FUZZ_STEP_CONTROL_FLOW_H_
#define LMS_TESTS_CC_FUZZ_STEP_CONTROL_FLOW_H_

#include "tests/cc/fuzz/step_builder.h"

namespace lms::fuzz {

// One op after the other on the square that is carried, up to four times; a loop within it now and then.
void AddLoop(StepBuilder* step);

// Some ops or another one, by a predicate.
void AddBranch(StepBuilder* step);

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_STEP_CONTROL_FLOW_H_
