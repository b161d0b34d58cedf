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

}  // namespace lms
