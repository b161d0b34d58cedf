// Do two nodes compute the same of the same inputs?

#ifndef LMS_CC_TF_GRAPH_SAME_OP_H_
#define LMS_CC_TF_GRAPH_SAME_OP_H_

#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

// Op, device and all attributes are equal. Large constants that are written in two ways may count as different.
bool SameButInputs(const tensorflow::NodeDef& a, const tensorflow::NodeDef& b);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_SAME_OP_H_
