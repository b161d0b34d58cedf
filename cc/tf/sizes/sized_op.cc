#include "cc/tf/sizes/sized_op.h"

#include <algorithm>

#include "cc/tf/graph/small_tensor.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
int64_t Product(int64_t a, int64_t b) { return b > 0 && a > kMostBytes / b ? kMostBytes : a * b; }

int64_t ElementsOf(const tensorflow::OpInfo::TensorProperties& tensor) {
  if (tensor.shape().unknown_rank()) return 0;
  int64_t elements = 1;
  for (const auto& dim : tensor.shape().dim()) elements = Product(elements, std::max<int64_t>(dim.size(), 0));
  return elements;
}

int64_t BytesOf(const tensorflow::OpInfo::TensorProperties& tensor) {
  return Product(ElementsOf(tensor), tensorflow::DataTypeSize(tensor.dtype()));
}

std::string TextAttr(const tensorflow::NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? std::string() : found->second.s();
}

std::vector<int64_t> IntsAttr(const tensorflow::NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  if (found == node.attr().end()) return {};
  return {found->second.list().i().begin(), found->second.list().i().end()};
}

std::optional<std::vector<bool>> ReductionRuns(const TensorInfo& input, const TensorInfo& axes) {
  tensorflow::Tensor values;
  if (input.shape().unknown_rank() || !axes.has_value()) return std::nullopt;
  if (!ReadSmallTensor(axes.value(), 256, &values)) return std::nullopt;  // tensors have 254 dimensions at most
  const int rank = input.shape().dim_size();
  std::vector<bool> reduced(rank, false);
  for (int64_t i = 0; i < values.NumElements(); ++i) {
    int64_t axis = 0;
    if (values.dtype() == tensorflow::DT_INT32) {
      axis = values.flat<int32_t>()(i);
    } else if (values.dtype() == tensorflow::DT_INT64) {
      axis = values.flat<int64_t>()(i);
    }
    if (axis < -rank || axis >= rank) return std::nullopt;
    reduced[axis < 0 ? axis + rank : axis] = true;
  }
  std::vector<bool> runs;
  for (int i = 0; i < rank; ++i) {
    if (input.shape().dim(i).size() != 1 && (runs.empty() || runs.back() != reduced[i])) runs.push_back(reduced[i]);
  }
  return runs;
}

}  // namespace lms
