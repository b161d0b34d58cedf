// Failures on purpose, so that tests can see what an internal error in any stage does to a training job: nothing.

#ifndef LMS_CC_TF_FAILURE_H_
#define LMS_CC_TF_FAILURE_H_

#include <string>
#include <vector>

namespace lms {

// The stages of the optimizer, in order.
const std::vector<std::string>& Stages();

// Has the stage of that name throw from now on; "" for none. False when there is no such stage.
bool InjectFailure(const std::string& stage);

// Throws std::runtime_error where a failure has been injected into the stage.
void FailIfInjected(const std::string& stage);

}  // namespace lms

#endif  // LMS_CC_TF_FAILURE_H_
