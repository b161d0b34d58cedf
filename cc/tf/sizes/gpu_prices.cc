#include "cc/tf/sizes/gpu_prices.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "cc/tf/graph/op_traits.h"

namespace lms {
namespace {

constexpr char kArchitecture[] = "architecture";

// Assumed, not measured: launching a kernel and what the executor does for an op are some microseconds together.
constexpr double kLaunchUs = 5;

// Dense products of float16 with float32 sums, for each operation of the 64 lanes by which the estimator knows a
// multiprocessor: from the peaks of the vendor's data sheets. Where cards of one capability differ, the least of them
// (8.6: RTX 3090, an A10 does twice as much; 8.9: RTX 4090; 12.0: RTX 5090).
struct TensorCores {
  double capability;  // and above, up to the next
  int factor;
};
constexpr TensorCores kTensorCores[] = {
    {7.0, 8},    // V100: 125 of 15.7 TFLOP/s; T4: 65 of 8.1
    {8.0, 16},   // A100: 312 of 19.5
    {8.6, 4},    // RTX 3090: 71 of 35.6, by 128 lanes
    {9.0, 32},   // H100: 989.5 of 67, by 128 lanes; half of the clock's difference left out
    {10.0, 64},  // B200: 2250 of 75, by 128 lanes
    {12.0, 4},   // RTX 5090: 209.5 of 104.8, by 128 lanes
};

bool OnTensorCores(const std::string& op_type) {
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

double ComputeCapability(const tensorflow::DeviceProperties& device) {
  const auto found = device.environment().find(kArchitecture);
  return found == device.environment().end() ? 0 : std::strtod(found->second.c_str(), nullptr);
}

tensorflow::DeviceProperties AsEstimated(tensorflow::DeviceProperties device) {
  if (device.type() == "GPU" && ComputeCapability(device) >= 10) {
    (*device.mutable_environment())[kArchitecture] = "9.0";  // the last that it knows, as it knows it: 64 lanes
  }
  return device;
}

int TensorCoreFactor(const tensorflow::DeviceProperties& device, const std::string& op_type,
                     tensorflow::DataType dtype) {
  if (device.type() != "GPU" || device.environment().count(kRatesGiven) > 0 || !OnTensorCores(op_type)) return 1;
  const double capability = ComputeCapability(device);
  const bool half = dtype == tensorflow::DT_HALF || (dtype == tensorflow::DT_BFLOAT16 && capability >= 8);
  int factor = 1;
  for (const TensorCores& cores : kTensorCores) {
    if (half && capability >= cores.capability) factor = cores.factor;
  }
  return factor;
}

double LeastMicroseconds(const tensorflow::DeviceProperties& device, const tensorflow::NodeDef& node) {
  const std::string& op = node.op();
  const bool none = device.type() != "GPU" || RunsInline(op) || IsControlFlow(op) || IsVariableRead(op) ||
                    IsVariableQuery(op) || IsPassThrough(node);
  return none ? 0 : kLaunchUs;
}

}  // namespace lms
