#include "cc/tf/graph/small_tensor.h"

namespace lms {

bool ReadSmallTensor(const tensorflow::TensorProto& proto, int64_t most, tensorflow::Tensor* tensor) {
  int64_t elements = 1;
  for (const auto& dim : proto.tensor_shape().dim()) {
    if (dim.size() < 0 || (dim.size() > 0 && elements > most / dim.size())) return false;
    elements *= dim.size();
  }
  return elements <= most && tensor->FromProto(proto);
}

int64_t WholeConstant(const tensorflow::NodeDef& node) {
  const auto value = node.attr().find("value");
  if (node.op() != "Const" || value == node.attr().end()) return -1;
  tensorflow::Tensor tensor;
  if (!ReadSmallTensor(value->second.tensor(), 1, &tensor) || tensor.NumElements() != 1) return -1;
  if (tensor.dtype() == tensorflow::DT_INT32) return tensor.flat<int32_t>()(0);
  if (tensor.dtype() == tensorflow::DT_INT64) return tensor.flat<int64_t>()(0);
  return -1;
}

bool IsScalarConstant(const tensorflow::NodeDef& node) {
  const auto value = node.attr().find("value");
  if (node.op() != "Const" || value == node.attr().end()) return false;
  const tensorflow::TensorShapeProto& shape = value->second.tensor().tensor_shape();
  return !shape.unknown_rank() && shape.dim_size() == 0;
}

}  // namespace lms
