#include "cc/tf/runtime/places_op.h"

#include <cstdint>

#include "absl/status/status.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/runtime/placed_memory.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

class PlacesOp : public tensorflow::OpKernel {
 public:
  explicit PlacesOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("number", &number_));
  }
  void Compute(tensorflow::OpKernelContext* context) override { NotePlacedRun(context->step_id(), number_); }
  bool IsExpensive() override { return false; }

 private:
  int64_t number_ = 0;
};

const bool places_registered = RegisterPlaces();

}  // namespace

bool RegisterPlaces() noexcept {
  if (IsRegistered(kPlacesOp)) return false;
  REGISTER_OP("LmsPlaces")
      .Attr("number: int")
      .SetIsStateful()
      .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });
  REGISTER_KERNEL_BUILDER(Name("LmsPlaces").Device(tensorflow::DEVICE_CPU), PlacesOp);
  REGISTER_KERNEL_BUILDER(Name("LmsPlaces").Device(tensorflow::DEVICE_GPU), PlacesOp);
  return true;
}

}  // namespace lms
