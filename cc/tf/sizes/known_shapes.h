// What a shape says of a tensor's size.

#ifndef LMS_CC_TF_SIZES_KNOWN_SHAPES_H_
#define LMS_CC_TF_SIZES_KNOWN_SHAPES_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/base/capped_product.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/types.h"

namespace lms {

// Is a tensor of the type as large as its shape says? A handle is not, nor is a reference to a variable.
inline bool HasSize(tensorflow::DataType type) {
  return type != tensorflow::DT_VARIANT && type != tensorflow::DT_RESOURCE && !tensorflow::IsRefType(type);
}

inline bool IsKnown(const tensorflow::TensorShapeProto& shape) {
  return !shape.unknown_rank() &&
         std::all_of(shape.dim().begin(), shape.dim().end(), [](const auto& dim) { return dim.size() >= 0; });
}

// Of a shape that is known.
inline int64_t ElementsOf(const tensorflow::TensorShapeProto& shape) {
  int64_t elements = 1;
  for (const auto& dim : shape.dim()) elements = CappedProduct(elements, dim.size());
  return elements;
}

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_KNOWN_SHAPES_H_
