// What oneDNN's products of matrices take of TensorFlow's allocator.

#ifndef LMS_CC_TF_SIZES_PRODUCT_WORKSPACE_H_
#define LMS_CC_TF_SIZES_PRODUCT_WORKSPACE_H_

#include <cstdint>

#include "cc/tf/sizes/cpu_kernels.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

// A product of matrices [rows, inner] and [inner, columns], as many of each.
struct MatrixShape {
  int64_t matrices = 1;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  bool first_transposed = false;  // in memory
  bool second_transposed = false;
};

// Of what oneDNN's product of this type takes, the copies of blocks of its operands (2.21; 1 and 2 threads). Exact on
// one thread: in float and half, in bfloat16 without AMX where `inner` is 512 at most (else 0.93 to 1.5 of what was
// seen) and with it in 84 of 90 cases where `inner` is a multiple of 32 and 1,024 at most (else 0.8 to 1.25; of 38
// other cases 0.34 to 2.2). A small product of half may run on fewer threads.
int64_t ProductBlocks(tensorflow::DataType type, const MatrixShape& shape, const CpuKernels& kernels);

// Of what KernelWorkspace() says, what a product of this type holds whose result has so many elements, in as many
// matrices.
int64_t ProductSums(tensorflow::DataType type, int64_t elements, int64_t matrices, const CpuKernels& kernels);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_PRODUCT_WORKSPACE_H_
