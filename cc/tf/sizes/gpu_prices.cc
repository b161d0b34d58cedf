#include "cc/tf/sizes/gpu_prices.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/sizes/gpu_kernels.h"
#include "cc/tf/sizes/sized_op.h"

namespace lms {
namespace {

// What launching a kernel and what the executor does for an op take together: 6.2 us in a chain of 2,000 small ones (an
// H100 with an Intel Xeon, 2.21).
constexpr double kLaunchUs = 6;

// Dense products of float16 with float32 sums, for each operation of the 64 lanes by which the estimator knows a
// multiprocessor: from the peaks of the vendor's data sheets. Float32 as TensorFloat-32 reaches half of it (the same
// sheets; an H100 was measured at 393 TFLOP/s, and at 52 without). Where cards of one capability differ, the least of
// them (8.6: RTX 3090, an A10 does twice as much; 8.9: RTX 4090; 12.0: RTX 5090).
struct TensorCores {
  double capability;  // and above, up to the next
  int factor;
};
constexpr TensorCores kTensorCores[] = {
    {7.0, 8},    // V100: 125 of 15.7 TFLOP/s; T4: 65 of 8.1
    {8.0, 16},   // A100: 312 of 19.5
    {8.6, 4},    // RTX 3090: 71 of 35.6, by 128 lanes
    {9.0, 32},   // H100: 989.5 of 67, by 128 lanes; half of the clock's difference left out. Measured: 719 to 751
    {10.0, 64},  // B200: 2250 of 75, by 128 lanes
    {12.0, 4},   // RTX 5090: 209.5 of 104.8, by 128 lanes
};

// Kernels that reach a part of the bandwidth alone, or of what the estimator says: the sum over all of the kind in
// steps of ResNet-50, 64 pictures of 224 pixels, on an H100, by TensorFlow's profiler (2.21; float32 with channels
// first and mixed_float16 with channels last). What is not here was within 0.65 to 1.1.
struct Dearer {
  const char* op;
  double first;  // channels first, or not said
  double last;   // channels last
};
constexpr Dearer kDearer[] = {
    {"Conv2D", 1.5, 1.5},
    {"Conv2DBackpropInput", 1.5, 1.5},
    {"Conv2DBackpropFilter", 1.5, 1.5},
    {"BiasAddGrad", 2, 30},  // the latter adds up by atomic operations
    {"Tile", 3, 3},
    {"SquaredDifference", 2, 2},
    {"MaxPoolGrad", 3, 5},
    {"MaxPool", 2, 2},
    {"Pad", 2.3, 2.3},
    {"Slice", 1.8, 1.8},
    {"Cast", 1.5, 1.5},
};

// By which axes are reduced: all that come last, as in a softmax; some between others; or the first ones, with the last
// one kept. The last two were measured as above (means and sums of batch normalization), the first one was not.
constexpr double kRows = 1.5, kBetween = 3.3, kColumns = 7;

bool IsReduction(const std::string& op_type) {
  return op_type == "Sum" || op_type == "Mean" || op_type == "Max" || op_type == "Min" || op_type == "Prod";
}

double DearerReduction(const GpuKernels& kernels, const tensorflow::OpInfo& op) {
  if (op.inputs_size() < 2) return kRows;
  const std::optional<std::vector<bool>> runs = ReductionRuns(op.inputs(0), op.inputs(1));
  if (!runs || runs->empty()) return kRows;
  const bool pictures = op.inputs(0).shape().dim_size() >= 4;
  if (!runs->back()) return pictures && kernels.WillTurn(op.inputs(0).dtype()) ? kBetween : kColumns;
  return runs->size() > 2 ? kBetween : kRows;
}

bool IsProduct(const std::string& op_type) {
  static const char* const types[] = {"MatMul",
                                      "BatchMatMul",
                                      "BatchMatMulV2",
                                      "BatchMatMulV3",
                                      "Einsum",
                                      "Conv2D",
                                      "Conv2DBackpropInput",
                                      "Conv2DBackpropFilter",
                                      "Conv3D",
                                      "Conv3DBackpropInputV2",
                                      "Conv3DBackpropFilterV2"};
  return std::find(std::begin(types), std::end(types), op_type) != std::end(types);
}

}  // namespace

tensorflow::DeviceProperties AsEstimated(tensorflow::DeviceProperties device) {
  if (device.type() == "GPU" && ComputeCapability(device) >= 10) {
    (*device.mutable_environment())["architecture"] = "9.0";  // the last that it knows, as it knows it: 64 lanes
  }
  return device;
}

int TensorCoreFactor(const tensorflow::DeviceProperties& device, const std::string& op_type,
                     tensorflow::DataType dtype) {
  if (device.type() != "GPU" || device.environment().count(kRatesGiven) > 0 || !IsProduct(op_type)) return 1;
  const GpuKernels kernels = GpuKernels::Of(device);
  if (!kernels.OnTensorCores(dtype)) return 1;
  int factor = 1;
  for (const TensorCores& cores : kTensorCores) {
    if (kernels.capability >= cores.capability) factor = cores.factor;
  }
  return dtype == tensorflow::DT_FLOAT ? factor / 2 : factor;
}

double DearerOnGpu(const tensorflow::DeviceProperties& device, const tensorflow::OpInfo& op) {
  if (device.type() != "GPU") return 1;
  const GpuKernels kernels = GpuKernels::Of(device);
  if (IsReduction(op.op())) return DearerReduction(kernels, op);
  const auto format = op.attr().find("data_format");
  const bool turned = op.inputs_size() > 0 && kernels.WillTurn(op.inputs(0).dtype());
  const bool last = !turned && format != op.attr().end() && format->second.s().rfind("NC", 0) != 0;
  for (const Dearer& known : kDearer) {
    if (op.op() == known.op) return last ? known.last : known.first;
  }
  return 1;
}

double LeastMicroseconds(const tensorflow::DeviceProperties& device, const tensorflow::NodeDef& node) {
  const std::string& op = node.op();
  const bool none = device.type() != "GPU" || RunsInline(op) || IsControlFlow(op) || IsVariableRead(op) ||
                    IsVariableQuery(op) || IsPassThrough(node);
  return none ? 0 : kLaunchUs;
}

}  // namespace lms
