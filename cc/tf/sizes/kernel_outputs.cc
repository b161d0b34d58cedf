#include "cc/tf/sizes/kernel_outputs.h"

#include <cstdint>

#include "cc/tf/sizes/known_shapes.h"
#include "cc/tf/sizes/sized_op.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace lms {
namespace {

using tensorflow::NodeDef;
using tensorflow::TensorShapeProto;

constexpr int kKeptForGradient = 5;

bool HasRelu(const NodeDef& node) {
  const auto training = node.attr().find("is_training");
  const bool trains = training == node.attr().end() || training->second.b();
  return trains && node.op() == "_FusedBatchNormEx" && TextAttr(node, "activation_mode") == "Relu";
}

// Does a kernel run that keeps a bit for each element?
bool KeepsBits(tensorflow::DataType type, bool channels_last, int64_t channels, const CpuKernels& kernels) {
  if (!channels_last) return false;
  return type == tensorflow::DT_FLOAT ? kernels.avx2 && channels % 8 == 0 : kernels.avx512 && channels % 16 == 0;
}

}  // namespace

int KernelDecides(const NodeDef& node) {
  return node.op() == "FusedBatchNormV3" || node.op() == "_FusedBatchNormEx" ? kKeptForGradient : -1;
}

std::optional<TensorShapeProto> ShapeByKernel(const NodeDef& node, const TensorShapeProto& input,
                                              const CpuKernels& kernels) {
  const auto type = node.attr().find("T");
  if (KernelDecides(node) < 0 || type == node.attr().end()) return std::nullopt;
  TensorShapeProto shape;
  if (!kernels.OneDnn(type->second.type())) return shape;
  if (!HasRelu(node)) {
    shape.add_dim()->set_size(0);
    return shape;
  }
  if (!IsKnown(input) || input.dim_size() != 4) return std::nullopt;
  const bool channels_last = TextAttr(node, "data_format") != "NCHW";
  const int64_t elements = ElementsOf(input);
  const bool bits = KeepsBits(type->second.type(), channels_last, input.dim(channels_last ? 3 : 1).size(), kernels);
  shape.add_dim()->set_size(bits ? elements / 8 : elements);
  return shape;
}

}  // namespace lms
