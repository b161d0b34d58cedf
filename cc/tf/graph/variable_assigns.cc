#include "cc/tf/graph/variable_assigns.h"

#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/types.h"

namespace lms {

bool MayAssignInPlace(const tensorflow::NodeDef& node) {
  if (node.op() != "AssignVariableOp") return false;
  const auto type = node.attr().find("dtype");
  return type != node.attr().end() && tensorflow::DataTypeIsFloating(type->second.type());
}

void AssignInPlace(const std::string& device, tensorflow::GraphDef* graph) {
  for (tensorflow::NodeDef& node : *graph->mutable_node()) {
    if (node.device() == device && MayAssignInPlace(node)) node.set_op(kAssignOp);
  }
}

}  // namespace lms
