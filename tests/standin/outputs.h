// What the outputs of a kernel are, found out without computing them (STANDIN_COMPUTE=0).
//
// Shapes are those of the op's shape function. Which output lies in the memory of an input, as the CPU's kernel has it,
// follows from sizes for most kernels: where none of an output's size is an input on the device, it is its own. For the
// rest a rehearsal on small tensors tells, whose every dimension is 1 or 2.

#ifndef LMS_TESTS_STANDIN_OUTPUTS_H_
#define LMS_TESTS_STANDIN_OUTPUTS_H_

#include <optional>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace standin {

// A tensor's type and shape.
struct TensorSpec {
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  int64_t Bytes() const { return shape.num_elements() * tensorflow::DataTypeSize(dtype); }
};

// The outputs by the op's shape function, from the shapes of inputs and what those in the host's memory hold; nothing
// where it does not say it all.
std::optional<std::vector<TensorSpec>> OutputSpecs(const tensorflow::OpKernel& kernel,
                                                   const tensorflow::OpKernelContext& context);

enum class Sharing {
  kNone,   // every output has memory of its own
  kFirst,  // the output is the first input in another shape
  kSmall,  // as a rehearsal on small tensors has it
  kWhole,  // only a rehearsal on the whole tensors tells
};
Sharing SharingOf(const tensorflow::OpKernel& kernel, const tensorflow::OpKernelContext& context,
                  const std::vector<TensorSpec>& outputs);

// The shape with every dimension above 2 made 2.
tensorflow::TensorShape Small(const tensorflow::TensorShape& shape);

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_OUTPUTS_H_
