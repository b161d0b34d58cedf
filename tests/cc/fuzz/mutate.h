// Corruptions of a case: of its graph, its attributes, its library, what is fetched and fed, and its options.

#ifndef LMS_TESTS_CC_FUZZ_MUTATE_H_
#define LMS_TESTS_CC_FUZZ_MUTATE_H_

#include "tests/cc/fuzz/random_step.h"

namespace lms::fuzz {

// One to six corruptions, named in fuzz_case->why. The case is neither valid nor runnable afterwards.
void Mutate(Random* random, FuzzCase* fuzz_case);

// Takes parts away that the case does not need: attributes that have defaults, functions that nobody calls.
void Tidy(FuzzCase* fuzz_case);

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_MUTATE_H_
