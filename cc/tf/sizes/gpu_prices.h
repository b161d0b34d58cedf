// What Grappler's estimator leaves out of a GPU's prices: that each kernel has to be launched, that products and
// convolutions run on tensor cores, and that TensorFlow's kernels for some ops are far from the card's bandwidth.
//
// Pure functions; nothing here changes the price of an op on another device.

#ifndef LMS_CC_TF_SIZES_GPU_PRICES_H_
#define LMS_CC_TF_SIZES_GPU_PRICES_H_

#include <string>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"
#include "tensorflow/core/protobuf/device_properties.pb.h"

namespace lms {

// The device as the estimator understands it: it compares capabilities as texts, and takes "10.0" for one below "3".
tensorflow::DeviceProperties AsEstimated(tensorflow::DeviceProperties device);

// How many times as many operations as the estimator counts on for it the GPU does in an op of this type on tensors of
// this one; 1 for all but products and convolutions of float16, bfloat16, and float32 as TensorFloat-32.
int TensorCoreFactor(const tensorflow::DeviceProperties& device, const std::string& op_type,
                     tensorflow::DataType dtype);

// How many times as long as by the bytes that it moves, or as the estimator says, the op's kernel takes on the GPU.
double DearerOnGpu(const tensorflow::DeviceProperties& device, const tensorflow::OpInfo& op);

// The least that the node takes on the device: the launch of a kernel where it is a GPU and the node may have one.
double LeastMicroseconds(const tensorflow::DeviceProperties& device, const tensorflow::NodeDef& node);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_GPU_PRICES_H_
