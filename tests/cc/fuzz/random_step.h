// Random graphs that are valid: training steps with a forward and a backward pass, with loops, branches, calls of
// functions, sums in order of arrival, several devices, and what else a step may hold. Deterministic by seed.

#ifndef LMS_TESTS_CC_FUZZ_RANDOM_STEP_H_
#define LMS_TESTS_CC_FUZZ_RANDOM_STEP_H_

#include "tests/cc/core/random_graph.h"
#include "tests/cc/fuzz/fuzz_case.h"

namespace lms::fuzz {

using lms::testing::Random;

// Options that any graph may be optimised with, among them swapping and very small and very large budgets.
void AddOptions(Random* random, FuzzCase* fuzz_case);

// A step with options; about half of them run on CPUs.
FuzzCase RandomStep(Random* random);

// A step of so many nodes in a row, or with one op of so many inputs: what recursion and squares do not survive.
FuzzCase LongChain(Random* random, int nodes);
FuzzCase WideSum(Random* random, int inputs);

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_RANDOM_STEP_H_
