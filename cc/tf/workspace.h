// What kernels allocate for themselves while they run, besides their outputs: on a CPU, as far as it was measured.
//
// Bytes asked of TensorFlow's allocator. What kernels take from malloc is not in it, as it is in no measured peak.
// Everything that is not listed here counts 0.

#ifndef LMS_CC_TF_WORKSPACE_H_
#define LMS_CC_TF_WORKSPACE_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace lms {

// An op and its tensors, of which no dimension may be unknown.
struct SizedOp {
  const tensorflow::NodeDef* node;
  std::vector<tensorflow::OpInfo::TensorProperties> inputs;
  std::vector<tensorflow::OpInfo::TensorProperties> outputs;
};

// May OpWorkspace() be above 0? Does not look at shapes.
bool HasWorkspace(const tensorflow::NodeDef& node);

// Of a kernel of its own.
int64_t OpWorkspace(const SizedOp& op);

// Of a function that XLA compiled as one kernel.
int64_t CompiledWorkspace(const std::vector<SizedOp>& body);

}  // namespace lms

#endif  // LMS_CC_TF_WORKSPACE_H_
