// One device of a step, with and without lists that gradients of loops may do without.
//
// Which ops of a loop's body run again in its gradient is decided before a plan is made: each choice makes another
// graph of the step, in which fewer tensors are held from iteration to iteration, and that graph is planned like any
// other. The step as it came is planned first. Choices follow where it cannot meet the budget, where the least is asked
// for, and where what lists hold may be a cheaper way; the best of all is taken.

#ifndef LMS_CC_TF_PASS_LOOP_PASS_H_
#define LMS_CC_TF_PASS_LOOP_PASS_H_

#include "cc/core/report/report.h"
#include "cc/tf/pass/device_context.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// As RunDevicePass(), which it is where there is no such list.
bool RunLoopPass(const DeviceContext& context, tensorflow::GraphDef* output, Report* report);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_LOOP_PASS_H_
