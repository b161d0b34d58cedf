#include "tests/standin/grappler_swap.h"

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace standin {
namespace {

using tensorflow::AllocatorAttributes;
using tensorflow::AsyncOpKernel;
using tensorflow::Device;
using tensorflow::DEVICE_GPU;
using tensorflow::OpKernelContext;
using tensorflow::OpRegistry;
using tensorflow::Tensor;

template <bool kOut>
class CopyOverLink : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& input = context->input(0);
    AllocatorAttributes attributes;
    attributes.set_on_host(kOut);
    attributes.set_gpu_compatible(kOut);
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, input.shape(), &output, attributes), done);
    auto ended = [context, done](const absl::Status& status) {
      context->SetStatus(status);
      done();
    };
    auto* const device = static_cast<Device*>(context->device());
    if (kOut) {
      context->op_device_context()->CopyDeviceTensorToCPU(&input, "CopyFromGpuToHost", device, output, ended);
    } else {
      context->op_device_context()->CopyCPUTensorToDevice(&input, device, output, ended);
    }
  }
};

}  // namespace

void RegisterGrapplerSwap() {
  if (OpRegistry::Global()->LookUp("_CopyFromGpuToHost") != nullptr) return;
  REGISTER_OP("_CopyFromGpuToHost")
      .Input("input: T")
      .Output("output: T")
      .Attr("T: type")
      .SetShapeFn(tensorflow::shape_inference::UnchangedShape);
  REGISTER_OP("_CopyFromHostToGpu")
      .Input("input: T")
      .Output("output: T")
      .Attr("T: type")
      .SetShapeFn(tensorflow::shape_inference::UnchangedShape);
  REGISTER_KERNEL_BUILDER(Name("_CopyFromGpuToHost").Device(DEVICE_GPU).HostMemory("output"), CopyOverLink<true>);
  REGISTER_KERNEL_BUILDER(Name("_CopyFromHostToGpu").Device(DEVICE_GPU).HostMemory("input"), CopyOverLink<false>);
}

}  // namespace standin
