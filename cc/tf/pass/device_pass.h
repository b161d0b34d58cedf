// One device of a step through all stages, one after the other: read, measured, candidates, planned, rewritten,
// verified.

#ifndef LMS_CC_TF_PASS_DEVICE_PASS_H_
#define LMS_CC_TF_PASS_DEVICE_PASS_H_

#include "cc/core/report/report.h"
#include "cc/tf/pass/device_context.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Fills in the report, which is the one that the context's stages and account write to, and *output where the return
// value is true; otherwise the graph is to stay as it is. May throw; errors of stages become the report's status
// kFailed.
bool RunDevicePass(const DeviceContext& context, tensorflow::GraphDef* output, Report* report);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_DEVICE_PASS_H_
