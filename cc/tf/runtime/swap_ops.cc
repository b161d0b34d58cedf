#include "cc/tf/runtime/swap_ops.h"

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/runtime/measure_link.h"
#include "cc/tf/runtime/swap_cpu.h"
#include "cc/tf/runtime/swap_gpu.h"
#include "cc/tf/runtime/swap_handle.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace lms {
namespace {

using ::tensorflow::DEVICE_CPU;
using ::tensorflow::DEVICE_GPU;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

void RegisterOps() {
  REGISTER_OP("LmsSwapOut")
      .Input("tensor: T")
      .Output("handle: variant")
      .Attr("T: type")
      .Attr("tier: {'host', 'disk'}")
      .Attr("directory: string = ''")
      .Attr("deadline: int = 0")
      .Attr("limit: int = 0")
      .Attr("host_limit: int = 0")
      .Attr("behind: bool = false")
      .SetIsStateful()
      .SetShapeFn(tensorflow::shape_inference::ScalarShape);
  REGISTER_OP("LmsSwapWait")
      .Input("handles: N * variant")
      .Attr("N: int >= 1")
      .SetIsStateful()
      .SetShapeFn(tensorflow::shape_inference::NoOutputs);
  REGISTER_OP("LmsSwapFetch")
      .Input("handle: variant")
      .Output("fetched: variant")
      .Attr("T: type")
      .Attr("shape: shape")  // this and the next two: of the LmsSwapIn that it was
      .Attr("deadline: int = 0")
      .Attr("host_limit: int = 0")
      .SetIsStateful()
      .SetShapeFn(tensorflow::shape_inference::ScalarShape);
  REGISTER_OP("LmsSwapFetched")
      .Input("fetched: variant")
      .Output("tensor: T")
      .Attr("T: type")
      .SetIsStateful()
      .SetShapeFn(tensorflow::shape_inference::UnknownShape);
  REGISTER_OP("LmsSwapIn")
      .Input("handle: variant")
      .Output("tensor: T")
      .Attr("T: type")
      .Attr("shape: shape")
      .Attr("deadline: int = 0")
      .Attr("host_limit: int = 0")
      .SetIsStateful()
      .SetShapeFn([](InferenceContext* context) {
        ShapeHandle handle;
        absl::Status status = context->WithRank(context->input(0), 0, &handle);
        if (!status.ok()) return status;
        tensorflow::PartialTensorShape partial;
        status = context->GetAttr("shape", &partial);
        if (!status.ok()) return status;
        ShapeHandle shape;
        status = context->MakeShapeFromPartialTensorShape(partial, &shape);
        if (!status.ok()) return status;
        context->set_output(0, shape);
        return absl::OkStatus();
      });
  REGISTER_OP("LmsMeasureLink")
      .Output("figures: double")
      .Attr("bytes: int >= 1")
      .SetIsStateful()
      .SetShapeFn([](InferenceContext* context) {
        context->set_output(0, context->Vector(kLinkFigures));
        return absl::OkStatus();
      });
}

void RegisterKernels() {
  REGISTER_KERNEL_BUILDER(Name("LmsSwapOut").Device(DEVICE_CPU), CpuSwapOut);
  REGISTER_KERNEL_BUILDER(Name("LmsSwapIn").Device(DEVICE_CPU), CpuSwapIn);
  REGISTER_KERNEL_BUILDER(Name("LmsSwapOut").Device(DEVICE_GPU).HostMemory("handle"), GpuSwapOut);
  REGISTER_KERNEL_BUILDER(Name("LmsSwapIn").Device(DEVICE_GPU).HostMemory("handle"), GpuSwapIn);
  REGISTER_KERNEL_BUILDER(Name("LmsSwapWait").Device(DEVICE_GPU).HostMemory("handles"), GpuSwapWait);
  REGISTER_KERNEL_BUILDER(Name("LmsSwapFetch").Device(DEVICE_GPU).HostMemory("handle").HostMemory("fetched"),
                          GpuSwapFetch);
  REGISTER_KERNEL_BUILDER(Name("LmsSwapFetched").Device(DEVICE_GPU).HostMemory("fetched"), GpuSwapFetched);
  REGISTER_KERNEL_BUILDER(Name("LmsMeasureLink").Device(DEVICE_GPU).HostMemory("figures"), MeasureLink);
}

const bool swap_ops_registered = RegisterSwapOps();

}  // namespace

bool RegisterSwapOps() noexcept {
  if (IsRegistered(kSwapOutOp)) return false;
  RegisterOps();
  RegisterKernels();
  return true;
}

}  // namespace lms
