#include "cc/tf/sizes/row_slices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/strided_slice_op.h"

namespace lms {
namespace {

using tensorflow::OpInfo;
using tensorflow::Tensor;

constexpr int64_t kAlignment = EIGEN_MAX_ALIGN_BYTES;

std::optional<tensorflow::TensorShape> ShapeOf(const OpInfo::TensorProperties& tensor) {
  tensorflow::TensorShape shape;
  if (tensor.shape().unknown_rank() || !tensorflow::TensorShape::BuildTensorShape(tensor.shape(), &shape).ok())
    return std::nullopt;
  return shape;
}

std::optional<Tensor> ValueOf(const OpInfo::TensorProperties& tensor) {
  Tensor value;
  if (!tensor.has_value() || !value.FromProto(tensor.value())) return std::nullopt;
  return value;
}

int64_t ElementBytes(const OpInfo::TensorProperties& tensor) {
  return tensorflow::DataTypeSize(tensorflow::BaseType(tensor.dtype()));
}

bool WholeRowsAligned(const tensorflow::TensorShape& shape, int64_t element_bytes) {
  if (shape.dims() == 0 || shape.dim_size(0) == 0) return false;
  return shape.num_elements() / shape.dim_size(0) * element_bytes % kAlignment == 0;
}

// `end`, or the number of elements: both are multiples where one is, given that the begin is.
bool SliceAligned(const tensorflow::TensorShape& shape, std::optional<int64_t> begin, std::optional<int64_t> end,
                  int64_t element_bytes) {
  if (shape.dims() != 1) return WholeRowsAligned(shape, element_bytes);
  return begin && end && *begin * element_bytes % kAlignment == 0 && *end * element_bytes % kAlignment == 0;
}

// Equal but for the first dimension?
bool SameRows(const tensorflow::TensorShape& a, const tensorflow::TensorShape& b) {
  if (a.dims() != b.dims() || a.dims() == 0) return false;
  for (int i = 1; i < a.dims(); ++i) {
    if (a.dim_size(i) != b.dim_size(i)) return false;
  }
  return true;
}

std::optional<int64_t> FirstNumber(const OpInfo::TensorProperties& tensor) {
  const std::optional<Tensor> value = ValueOf(tensor);
  if (!value || value->NumElements() == 0) return std::nullopt;
  if (value->dtype() == tensorflow::DT_INT32) return value->flat<int32_t>()(0);
  if (value->dtype() == tensorflow::DT_INT64) return value->flat<int64_t>()(0);
  return std::nullopt;
}

int64_t IntAttr(const tensorflow::NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? 0 : found->second.i();
}

bool SliceShares(const tensorflow::TensorShape& input, const std::vector<OpInfo::TensorProperties>& inputs,
                 const tensorflow::TensorShape& output) {
  if (input == output) return true;
  if (!SameRows(input, output)) return false;
  return SliceAligned(input, FirstNumber(inputs[1]), output.dim_size(0), ElementBytes(inputs[0]));
}

bool StridedSliceShares(const tensorflow::NodeDef& node, const tensorflow::TensorShape& input,
                        const std::vector<OpInfo::TensorProperties>& inputs) {
  const std::optional<Tensor> begin = ValueOf(inputs[1]);
  const std::optional<Tensor> end = ValueOf(inputs[2]);
  const std::optional<Tensor> strides = ValueOf(inputs[3]);
  if (!strides) return false;
  const auto mask = [&node](const char* name) { return static_cast<int32_t>(IntAttr(node, name)); };
  tensorflow::PartialTensorShape processing;
  tensorflow::PartialTensorShape result;
  bool identity = false;
  bool simple = false;
  bool rows = false;
  absl::InlinedVector<int64_t, 4UL> begins;
  absl::InlinedVector<int64_t, 4UL> ends;
  absl::InlinedVector<int64_t, 4UL> steps;
  const absl::Status status = tensorflow::ValidateStridedSliceOp(
      begin ? &*begin : nullptr, end ? &*end : nullptr, *strides, tensorflow::PartialTensorShape(input.dim_sizes()),
      mask("begin_mask"), mask("end_mask"), mask("ellipsis_mask"), mask("new_axis_mask"), mask("shrink_axis_mask"),
      &processing, &result, &identity, &simple, &rows, &begins, &ends, &steps);
  if (!status.ok()) return false;
  if (identity) return true;
  const bool known = begin && end && !begins.empty() && !ends.empty();
  const auto at = [known](const auto& list) { return known ? std::optional<int64_t>(list[0]) : std::nullopt; };
  return rows && SliceAligned(input, at(begins), at(ends), ElementBytes(inputs[0]));
}

// Numbers in one dimension, all of whose parts begin and end at a multiple of the alignment.
bool PartsAligned(const std::vector<OpInfo::TensorProperties>& outputs, int64_t element_bytes) {
  return std::all_of(outputs.begin(), outputs.end(), [element_bytes](const OpInfo::TensorProperties& output) {
    const std::optional<tensorflow::TensorShape> shape = ShapeOf(output);
    return shape && shape->num_elements() * element_bytes % kAlignment == 0;
  });
}

// All results together are the input, cut along one axis.
bool SplitShares(const std::string& op, const tensorflow::TensorShape& input, int64_t element_bytes,
                 const std::vector<OpInfo::TensorProperties>& outputs, std::optional<int64_t> axis) {
  if (outputs.size() == 1) return true;
  if (op == "SplitV" && input.dims() == 1) return PartsAligned(outputs, element_bytes);
  if (!WholeRowsAligned(input, element_bytes)) return false;
  if (axis) return *axis == 0 || *axis == -input.dims();
  bool cut = false;
  for (const auto& output : outputs) {
    const std::optional<tensorflow::TensorShape> shape = ShapeOf(output);
    if (!shape || !SameRows(input, *shape)) return false;
    cut = cut || shape->dim_size(0) != input.dim_size(0);
  }
  return cut;
}

struct Slicer {
  const char* op;
  int inputs;
  int sliced;
};
constexpr Slicer kSlicers[] = {
    {"Slice", 3, 0}, {"StridedSlice", 4, 0}, {"Split", 2, 1}, {"SplitV", 3, 0}, {"Unpack", 1, 0}};

const Slicer* Find(const tensorflow::NodeDef& node) {
  const auto* const found =
      std::find_if(std::begin(kSlicers), std::end(kSlicers), [&](const Slicer& one) { return node.op() == one.op; });
  return found == std::end(kSlicers) ? nullptr : found;
}

}  // namespace

bool MaySliceRows(const tensorflow::NodeDef& node) { return Find(node) != nullptr; }

int RowsOf(const tensorflow::NodeDef& node, const std::vector<OpInfo::TensorProperties>& inputs,
           const std::vector<OpInfo::TensorProperties>& outputs) {
  const Slicer* const slicer = Find(node);
  if (slicer == nullptr || inputs.size() != static_cast<size_t>(slicer->inputs) || outputs.empty()) return -1;
  const OpInfo::TensorProperties& sliced = inputs[slicer->sliced];
  const std::optional<tensorflow::TensorShape> input = ShapeOf(sliced);
  const int64_t element_bytes = ElementBytes(sliced);
  if (!input || element_bytes == 0) return -1;
  bool shares = false;
  const std::string& op = node.op();
  if (op == "Slice") {
    const std::optional<tensorflow::TensorShape> output = ShapeOf(outputs[0]);
    shares = output && SliceShares(*input, inputs, *output);
  } else if (op == "StridedSlice") {
    shares = StridedSliceShares(node, *input, inputs);
  } else if (op == "Unpack") {
    const int64_t axis = IntAttr(node, "axis");
    shares = (axis == 0 || axis == -input->dims()) && WholeRowsAligned(*input, element_bytes);
  } else {
    shares = SplitShares(op, *input, element_bytes, outputs, FirstNumber(inputs[op == "Split" ? 0 : 2]));
  }
  return shares ? slicer->sliced : -1;
}

}  // namespace lms
