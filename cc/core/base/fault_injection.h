// Failures on purpose, so that tests can see what an internal error in any stage does to a training job: nothing.

#ifndef LMS_CC_CORE_BASE_FAULT_INJECTION_H_
#define LMS_CC_CORE_BASE_FAULT_INJECTION_H_

#include <string>
#include <vector>

namespace lms {

// The stages of the optimizer, in order: a failure in one leaves the graph as it is, and the report says so.
const std::vector<std::string>& Stages();

// Other places where something may go wrong, of which no stage is the name:
//   before   before anything else          dump      while graphs are written for dump_graphs
//   log      while the report is logged    report    while it is put into the list
//   profile, link, least, describe, strict: within a stage
const std::vector<std::string>& FailurePlaces();

// What is thrown: "error" (std::runtime_error), "memory" (std::bad_alloc), "other" (no std::exception).
const std::vector<std::string>& FailureKinds();

// Has the stage or place of that name fail from the `at`-th time on that it is entered, `times` times (0: always); ""
// for none. False when there is no such stage, place or kind.
bool InjectFailure(const std::string& stage, const std::string& kind = "error", int at = 1, int times = 0);

// Throws where a failure has been injected into the stage or place.
void FailIfInjected(const std::string& stage);

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_FAULT_INJECTION_H_
