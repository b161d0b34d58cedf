#include "cc/tf/sizes/gpu_kernels.h"

#include <cstdlib>

#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"

namespace lms {

double ComputeCapability(const tensorflow::DeviceProperties& device) {
  const auto found = device.environment().find("architecture");
  return found == device.environment().end() ? 0 : std::strtod(found->second.c_str(), nullptr);
}

GpuKernels GpuKernels::Of(const tensorflow::DeviceProperties& device) {
  GpuKernels kernels;
  kernels.cudnn = device.type() == "GPU" && !tensorflow::DeviceFactory::IsPluggableDevice("GPU");
  kernels.capability = ComputeCapability(device);
  kernels.tf32 = tensorflow::tensor_float_32_execution_enabled();
  kernels.layout_to_come = device.environment().count(kRatesGiven) > 0;
  return kernels;
}

bool GpuKernels::OnTensorCores(tensorflow::DataType type) const {
  if (type == tensorflow::DT_HALF) return capability >= 7;
  if (type == tensorflow::DT_BFLOAT16) return capability >= 8;
  return type == tensorflow::DT_FLOAT && tf32 && capability >= 8;
}

bool GpuKernels::WillTurn(tensorflow::DataType type) const { return layout_to_come && type != tensorflow::DT_HALF; }

}  // namespace lms
