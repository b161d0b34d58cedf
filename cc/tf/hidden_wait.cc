#include "cc/tf/hidden_wait.h"

#include "cc/tf/op_traits.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"

namespace lms {

std::string HiddenWait(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index) {
  const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), item.graph.library());
  for (int i = 0; i < index.size(); ++i) {
    const tensorflow::NodeDef& node = item.graph.node(i);
    const tensorflow::OpDef* op_def = nullptr;
    if (!index[i].live || !library.LookUpOpDef(node.op(), &op_def).ok()) continue;
    if (MayWaitForOthers(node.op(), *op_def)) return node.name() + " (" + node.op() + ")";
  }
  return "";
}

}  // namespace lms
