#include "cc/tf/runtime/assign_in_place.h"

#include <cstring>
#include <memory>

#include "absl/synchronization/notification.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

// Both on the op's device, of one size. On a GPU the copy is the next thing that its compute stream does.
absl::Status Copy(OpKernelContext* context, const Tensor& value, Tensor* to) {
  const tensorflow::DeviceContext* const of_device = context->op_device_context();
  if (of_device == nullptr) {
    std::memcpy(to->data(), value.data(), value.TotalBytes());
    return absl::OkStatus();
  }
  absl::Status status;
  absl::Notification done;
  of_device->CopyTensorInSameDevice(&value, static_cast<tensorflow::Device*>(context->device()), to,
                                    [&](const absl::Status& copied) {
                                      status = copied;
                                      done.Notify();
                                    });
  done.WaitForNotification();
  return status;
}

class AssignInPlaceOp : public OpKernel {
 public:
  explicit AssignInPlaceOp(OpKernelConstruction* context) : OpKernel(context) {
    tensorflow::NodeDef stock = def();
    stock.set_op("AssignVariableOp");
    absl::Status status;
    stock_ = tensorflow::CreateOpKernel(context->device_type(), context->device(),
                                        context->device()->GetAllocator(tensorflow::AllocatorAttributes()), stock,
                                        context->graph_def_version(), &status);
    OP_REQUIRES_OK(context, status);
  }

  void Compute(OpKernelContext* context) override {
    if (!CopyIntoVariable(context)) stock_->Compute(context);
  }

 private:
  // False, and nothing is changed, where the variable cannot keep its memory.
  static bool CopyIntoVariable(OpKernelContext* context) {
    tensorflow::core::RefCountPtr<tensorflow::Var> variable;
    if (!LookupResource(context, HandleFromInput(context, 0), &variable).ok()) return false;
    const Tensor& value = context->input(1);
    const tensorflow::mutex_lock writing(*variable->mu());
    Tensor* const tensor = variable->tensor();
    if (!variable->is_initialized || variable->copy_on_read_mode.load() || tensor->dtype() != value.dtype() ||
        !tensor->IsSameSize(value) || value.TotalBytes() == 0) {
      return false;
    }
    // Is it the only one who holds that memory, and may it be written? The same is asked before each update in place.
    if (!tensor->RefCountIsOne()) return false;
    // A slice keeps the whole that it is of.
    tensorflow::TensorBuffer* const buffer = tensorflow::DMAHelper::buffer(tensor);
    if (buffer->root_buffer() != buffer) return false;
    const absl::Status status = Copy(context, value, tensor);
    if (!status.ok()) context->CtxFailure(status);
    return true;
  }

  std::unique_ptr<OpKernel> stock_;
};

const bool assign_in_place_registered = RegisterAssignInPlace();

}  // namespace

bool RegisterAssignInPlace() noexcept {
  if (IsRegistered(kAssignOp)) return false;
  REGISTER_OP("LmsAssign")
      .Input("resource: resource")
      .Input("value: dtype")
      .Attr("dtype: type")
      .Attr("validate_shape: bool = false")
      .SetIsStateful()
      .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });
  REGISTER_KERNEL_BUILDER(Name("LmsAssign").Device(tensorflow::DEVICE_CPU), AssignInPlaceOp);
  REGISTER_KERNEL_BUILDER(Name("LmsAssign").Device(tensorflow::DEVICE_GPU).HostMemory("resource"), AssignInPlaceOp);
  return true;
}

}  // namespace lms
