#include "cc/tf/runtime/list_rows_op.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/kernels/tensor_list.h"

namespace lms {
namespace {

using tensorflow::PartialTensorShape;
using tensorflow::Tensor;

absl::Status ShapeIn(const Tensor& tensor, PartialTensorShape* shape) {
  if (tensor.dims() > 1)
    return absl::InvalidArgumentError("the shape of a list's elements has more than one dimension");
  const bool is_long = tensor.dtype() == tensorflow::DT_INT64;
  if (tensor.dims() == 0) {
    const int64_t only = is_long ? tensor.scalar<int64_t>()() : tensor.scalar<int32_t>()();
    if (only != -1) return absl::InvalidArgumentError("a list's elements have a scalar as their shape that is not -1");
    *shape = PartialTensorShape();
    return absl::OkStatus();
  }
  const auto count = static_cast<int>(tensor.NumElements());
  return is_long ? PartialTensorShape::MakePartialShape(tensor.vec<int64_t>().data(), count, shape)
                 : PartialTensorShape::MakePartialShape(tensor.vec<int32_t>().data(), count, shape);
}

// On a GPU the copy is one of its stream's, before whatever reads it.
absl::Status CopyRow(tensorflow::OpKernelContext* context, Tensor* row) {
  Tensor copy;
  absl::Status status = context->allocate_temp(row->dtype(), row->shape(), &copy);
  if (!status.ok()) return status;
  if (tensorflow::DeviceContext* const stream = context->op_device_context()) {
    stream->CopyTensorInSameDevice(row, static_cast<tensorflow::Device*>(context->device()), &copy,
                                   [&status](const absl::Status& done) { status = done; });
  } else {
    std::memcpy(copy.data(), row->data(), row->TotalBytes());
  }
  *row = std::move(copy);
  return status;
}

class ListRowsOp : public tensorflow::OpKernel {
 public:
  ListRowsOp(tensorflow::OpKernelConstruction* context, bool reversed) : OpKernel(context), reversed_(reversed) {}

  void Compute(tensorflow::OpKernelContext* context) override {
    const Tensor& tensor = context->input(0);
    tensorflow::TensorList list;
    OP_REQUIRES_OK(context, ShapeIn(context->input(1), &list.element_shape));
    OP_REQUIRES(context, tensor.dims() > 0, absl::InvalidArgumentError("a list is made of a scalar's rows"));
    tensorflow::TensorShape shape = tensor.shape();
    shape.RemoveDim(0);
    OP_REQUIRES(context, list.element_shape.IsCompatibleWith(shape),
                absl::InvalidArgumentError("a list of elements of shape " + list.element_shape.DebugString() +
                                           " is made of rows of shape " + shape.DebugString()));
    list.element_dtype = tensor.dtype();
    list.tensors().reserve(tensor.dim_size(0));
    for (int64_t i = 0; i < tensor.dim_size(0); ++i) {
      Tensor row = tensor.Slice(i, i + 1);
      OP_REQUIRES(context, row.CopyFrom(row, shape), absl::InternalError("a row has another shape"));
      if (reinterpret_cast<uintptr_t>(row.data()) % kRowAlignment != 0) {
        OP_REQUIRES_OK(context, CopyRow(context, &row));
      }
      list.tensors().push_back(std::move(row));
    }
    if (reversed_) std::reverse(list.tensors().begin(), list.tensors().end());
    tensorflow::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &output, on_host));
    output->scalar<tensorflow::Variant>()() = std::move(list);
  }

 private:
  const bool reversed_;
};

class InOrder : public ListRowsOp {
 public:
  explicit InOrder(tensorflow::OpKernelConstruction* context) : ListRowsOp(context, false) {}
};

class Reversed : public ListRowsOp {
 public:
  explicit Reversed(tensorflow::OpKernelConstruction* context) : ListRowsOp(context, true) {}
};

const bool list_rows_registered = RegisterListRows();

}  // namespace

bool RegisterListRows() noexcept {
  const tensorflow::KernelList there = tensorflow::GetRegisteredKernelsForOp(kListOfRowsOp);
  for (const tensorflow::KernelDef& kernel : there.kernel()) {
    if (kernel.label() == kRowsLabel) return false;
  }
  using tensorflow::DEVICE_CPU;
  using tensorflow::DEVICE_GPU;
  REGISTER_KERNEL_BUILDER(Name(kListOfRowsOp).Device(DEVICE_CPU).Label(kRowsLabel), InOrder);
  REGISTER_KERNEL_BUILDER(Name(kListOfRowsOp).Device(DEVICE_CPU).Label(kReversedRowsLabel), Reversed);
  REGISTER_KERNEL_BUILDER(Name(kListOfRowsOp).Device(DEVICE_GPU).Label(kRowsLabel).HostMemory("element_shape"),
                          InOrder);
  REGISTER_KERNEL_BUILDER(Name(kListOfRowsOp).Device(DEVICE_GPU).Label(kReversedRowsLabel).HostMemory("element_shape"),
                          Reversed);
  return true;
}

}  // namespace lms
