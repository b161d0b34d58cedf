#include "cc/tf/sizes/sized_op.h"

#include <algorithm>

#include "tensorflow/core/framework/attr_value.pb.h"
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

}  // namespace lms
