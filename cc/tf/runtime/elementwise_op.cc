#include "cc/tf/runtime/elementwise_op.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cc/tf/graph/elementwise.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/runtime/spread.h"
#include "cc/tf/runtime/tile_math.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/work_sharder.h"

namespace lms {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

std::vector<int64_t> Dims(const TensorShape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.dims(); ++i) dims.push_back(shape.dim_size(i));
  return dims;
}

template <typename T>
class ElementwiseOp : public OpKernel {
 public:
  explicit ElementwiseOp(OpKernelConstruction* context) : OpKernel(context) {
    std::vector<int> numbers;
    OP_REQUIRES_OK(context, context->GetAttr("program", &numbers));
    std::optional<std::vector<ElementwiseStep>> program = ReadProgram(numbers, num_inputs());
    OP_REQUIRES(context, program.has_value(), absl::InvalidArgumentError("no program for so many inputs"));
    program_ = *std::move(program);
    bool as_parts = false;
    OP_REQUIRES_OK(context, context->GetAttr(kAsParts, &as_parts));
    takeover_order_ = TakeoverOrder(program_);
    for (int i = 0; i < num_inputs() && !as_parts; ++i) {
      const auto found = std::find(takeover_order_.begin(), takeover_order_.end(), i);
      if (found == takeover_order_.end()) takeover_order_.push_back(i);
    }
  }

  void Compute(OpKernelContext* context) override {
    std::vector<std::vector<int64_t>> shapes;
    for (int i = 0; i < num_inputs(); ++i) shapes.push_back(Dims(context->input(i).shape()));
    const std::optional<Spread> spread = Spread::Of(shapes);
    OP_REQUIRES(context, spread.has_value(), absl::InvalidArgumentError("shapes that do not go together"));
    TensorShape shape;
    OP_REQUIRES_OK(context, TensorShape::BuildTensorShape(spread->shape(), &shape));
    std::vector<int> whole;  // inputs whose memory may be the output's
    for (const int i : takeover_order_) {
      if (context->input(i).shape() == shape) whole.push_back(i);
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output(whole, 0, shape, &output));
    if (shape.num_elements() == 0) return;
    std::vector<const T*> inputs;
    for (int i = 0; i < num_inputs(); ++i) inputs.push_back(context->input(i).flat<T>().data());
    T* const to = output->flat<T>().data();
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    const int64_t cost = spread->tile() * static_cast<int64_t>(1 + program_.size());
    tensorflow::Shard(workers.num_threads, workers.workers, spread->tiles(), cost,
                      [&](int64_t begin, int64_t end) { ComputeTiles(*spread, inputs, begin, end, to); });
  }

 private:
  void ComputeTiles(const Spread& spread, const std::vector<const T*>& inputs, int64_t begin, int64_t end,
                    T* output) const {
    SpreadInputs<T> tiles(spread, inputs);
    std::vector<T> result(spread.tile());
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * spread.tile();
      const int64_t count = std::min(spread.tile(), spread.elements() - first);
      tiles.MoveTo(first, count);
      for (size_t i = 0; i < program_.size(); ++i) {
        const ElementwiseStep& step = program_[i];
        const auto operand = [&](int of) { return of == kResultBefore ? result.data() : tiles.at(of); };
        T* const to = i + 1 == program_.size() ? output + first : result.data();
        ComputeTile(step.kind, operand(step.left), operand(step.right), count, to);
      }
    }
  }

  std::vector<ElementwiseStep> program_;
  std::vector<int> takeover_order_;
};

const bool elementwise_registered = RegisterElementwise();

}  // namespace

bool RegisterElementwise() noexcept {
  if (IsRegistered(kElementwiseOp)) return false;
  using ::tensorflow::shape_inference::InferenceContext;
  using ::tensorflow::shape_inference::ShapeHandle;
  REGISTER_OP("LmsElementwise")
      .Input("inputs: N * T")
      .Output("output: T")
      .Attr("N: int >= 1")
      .Attr("T: {float, double}")
      .Attr("program: list(int)")
      .Attr("as_parts: bool = false")
      .SetShapeFn([](InferenceContext* context) {
        ShapeHandle shape = context->input(0);
        for (int i = 1; i < context->num_inputs(); ++i) {
          ShapeHandle wider;
          const absl::Status status = tensorflow::shape_inference::BroadcastBinaryOpOutputShapeFnHelper(
              context, shape, context->input(i), /*incompatible_shape_error=*/true, &wider);
          if (!status.ok()) return status;
          shape = wider;
        }
        context->set_output(0, shape);
        return absl::OkStatus();
      });
  REGISTER_KERNEL_BUILDER(Name("LmsElementwise").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
                          ElementwiseOp<float>);
  REGISTER_KERNEL_BUILDER(Name("LmsElementwise").Device(tensorflow::DEVICE_CPU).TypeConstraint<double>("T"),
                          ElementwiseOp<double>);
  return true;
}

}  // namespace lms
