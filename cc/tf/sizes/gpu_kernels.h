// What decides which kernels a GPU runs, and in which layout.

#ifndef LMS_CC_TF_SIZES_GPU_KERNELS_H_
#define LMS_CC_TF_SIZES_GPU_KERNELS_H_

#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/protobuf/device_properties.pb.h"

namespace lms {

// An entry of a GPU's environment: its frequency and cores already say what it does of the type that counts (lms.plan).
inline constexpr char kRatesGiven[] = "lms_rates";

// The compute capability as a number, 10.0 above 8.9; 0 where the device does not say.
double ComputeCapability(const tensorflow::DeviceProperties& device);

struct GpuKernels {
  bool cudnn = false;           // that compute convolutions: not on devices that are plugged in
  double capability = 0;        // of the card, as a number
  bool tf32 = true;             // products of float32 may be rounded to TensorFloat-32
  bool layout_to_come = false;  // TensorFlow's layout optimizer has not been there (lms.plan)

  static GpuKernels Of(const tensorflow::DeviceProperties& device);
  // Do products and convolutions of this type run there?
  bool OnTensorCores(tensorflow::DataType type) const;
  // Will what has channels last have them first? So the layout optimizer has all but float16.
  bool WillTurn(tensorflow::DataType type) const;
};

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_GPU_KERNELS_H_
