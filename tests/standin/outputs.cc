#include "tests/standin/outputs.h"

#include <algorithm>
#include <set>
#include <string>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/public/version.h"

namespace standin {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelContext;
using ::tensorflow::TensorShape;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

bool OnDevice(const OpKernel& kernel, int input) {
  return kernel.input_memory_types()[input] == tensorflow::DEVICE_MEMORY;
}

const tensorflow::Tensor& InputOf(const OpKernelContext& context, int index) {
  return const_cast<OpKernelContext&>(context).input(index);
}

bool Is(const std::string& op, const std::set<std::string>& ops) { return ops.count(op) > 0; }

}  // namespace

std::optional<std::vector<TensorSpec>> OutputSpecs(const OpKernel& kernel, const OpKernelContext& context) {
  const tensorflow::OpRegistrationData* op = nullptr;
  const bool known = tensorflow::OpRegistry::Global()->LookUp(kernel.type_string(), &op).ok();
  if (!known || op->shape_inference_fn == nullptr) return std::nullopt;
  std::vector<tensorflow::PartialTensorShape> shapes;
  std::vector<const tensorflow::Tensor*> values;
  for (int i = 0; i < kernel.num_inputs(); ++i) {
    const tensorflow::Tensor& input = InputOf(context, i);
    shapes.emplace_back(input.shape().dim_sizes());
    values.push_back(OnDevice(kernel, i) ? nullptr : &input);
  }
  InferenceContext inference(TF_GRAPH_DEF_VERSION, kernel.def(), op->op_def, shapes, values, {}, {});
  if (!inference.construction_status().ok() || !inference.Run(op->shape_inference_fn).ok()) return std::nullopt;
  std::vector<TensorSpec> specs;
  for (int i = 0; i < kernel.num_outputs(); ++i) {
    const ShapeHandle shape = inference.output(i);
    if (!inference.FullyDefined(shape)) return std::nullopt;
    TensorSpec spec{kernel.output_type(i), {}};
    for (int dim = 0; dim < inference.Rank(shape); ++dim) {
      spec.shape.AddDim(inference.Value(inference.Dim(shape, dim)));
    }
    specs.push_back(spec);
  }
  return specs;
}

Sharing SharingOf(const OpKernel& kernel, const OpKernelContext& context, const std::vector<TensorSpec>& outputs) {
  const std::string& op = kernel.type_string();
  static const auto* const views = new std::set<std::string>{"Reshape",      "ExpandDims",      "Squeeze",  "Identity",
                                                             "StopGradient", "PreventGradient", "Snapshot", "Bitcast"};
  if (Is(op, *views) && kernel.num_outputs() == 1) return Sharing::kFirst;
  static const auto* const parts =
      new std::set<std::string>{"Slice", "StridedSlice", "Split", "SplitV", "Unpack", "IdentityN"};
  if (Is(op, *parts)) return Sharing::kWhole;
  const auto own = [&](const TensorSpec& output) {
    for (int i = 0; i < kernel.num_inputs(); ++i) {
      if (OnDevice(kernel, i) && static_cast<int64_t>(InputOf(context, i).TotalBytes()) == output.Bytes()) return false;
    }
    return true;
  };
  if (std::all_of(outputs.begin(), outputs.end(), own)) return Sharing::kNone;
  // They compute in another order than they read, and share nothing.
  static const auto* const never = new std::set<std::string>{"MatMul",
                                                             "BatchMatMul",
                                                             "BatchMatMulV2",
                                                             "BatchMatMulV3",
                                                             "Conv2D",
                                                             "_FusedConv2D",
                                                             "Conv2DBackpropInput",
                                                             "Conv2DBackpropFilter",
                                                             "DepthwiseConv2dNative",
                                                             "DepthwiseConv2dNativeBackpropInput",
                                                             "DepthwiseConv2dNativeBackpropFilter",
                                                             "Conv3D",
                                                             "Conv3DBackpropInputV2",
                                                             "Conv3DBackpropFilterV2",
                                                             "MaxPool",
                                                             "MaxPoolGrad",
                                                             "AvgPool",
                                                             "AvgPoolGrad",
                                                             "MaxPool3D",
                                                             "MaxPool3DGrad",
                                                             "AvgPool3D",
                                                             "AvgPool3DGrad"};
  return Is(op, *never) ? Sharing::kNone : Sharing::kSmall;
}

TensorShape Small(const TensorShape& shape) {
  TensorShape small;
  for (const auto dim : shape) small.AddDim(std::min<int64_t>(dim.size, 2));
  return small;
}

}  // namespace standin
