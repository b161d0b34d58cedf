// The ops that copy a tensor out of the device's memory and back (plan.h says when).

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace lms {
namespace {

REGISTER_OP("LmsSwapOut")
    .Input("tensor: T")
    .Output("handle: variant")
    .Attr("T: type")
    .Attr("tier: {'host', 'disk'}")
    .Attr("directory: string = ''")
    .Attr("limit: int = 0")
    .Attr("deadline: int = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

REGISTER_OP("LmsSwapIn")
    .Input("handle: variant")
    .Output("tensor: T")
    .Attr("T: type")
    .Attr("shape: shape")
    .Attr("deadline: int = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ExplicitShape);

}  // namespace
}  // namespace lms
