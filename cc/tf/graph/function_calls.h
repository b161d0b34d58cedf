// Nodes that call functions, by whatever op: PartitionedCall, If, While, Case, MapDefun, datasets and their kin.

#ifndef LMS_CC_TF_GRAPH_FUNCTION_CALLS_H_
#define LMS_CC_TF_GRAPH_FUNCTION_CALLS_H_

#include <algorithm>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

// Does an attribute of the node name a function?
inline bool NamesFunction(const tensorflow::NodeDef& node) {
  return std::any_of(node.attr().begin(), node.attr().end(),
                     [](const auto& attr) { return attr.second.has_func() || attr.second.list().func_size() > 0; });
}

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_FUNCTION_CALLS_H_
