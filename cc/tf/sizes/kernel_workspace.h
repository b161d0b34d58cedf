// What TensorFlow's CPU kernels allocate for themselves: convolutions, matrix products, pooling, batch norm,
// reductions, cross-entropy.
//
// Which kernel runs depends on the machine. TensorFlow takes oneDNN's for float, and for bfloat16 and half where the
// processor has instructions of a kind for them (it says so itself); other types, and all of them with
// TF_ENABLE_ONEDNN_OPTS=0, get TensorFlow's own. These hold patches of images (gradients of convolutions), or copies as
// float (products of half): rules without a processor in them.
//
// oneDNN's kernels ask TensorFlow's allocator for scratch in forward convolutions and in products alone; what its other
// kernels take, gradients of convolutions too, comes from malloc. Where it has no instructions for bfloat16 it adds up
// in float what a thread computes, a whole matrix or image. Otherwise its products hold copies of blocks of their
// operands, for each thread up to 0.7 MB in float and 1.4 MB in bfloat16 (ProductBlocks); those of convolutions count
// nothing here, up to 0.7 MB, but with AMX. MatMul of floats is another kernel, which takes nothing; one of bfloat16
// that is fused with a bias always adds up in float.
//
// The rules were read from the kernels (2.21), and measured op by op with lms.memory (benchmarks/workspace.py): on an
// AMD EPYC with AVX-512 and avx512_bf16 (Zen 5), there also with oneDNN off, and held to AVX512_CORE, AVX2, AVX and
// SSE41 by ONEDNN_MAX_CPU_ISA. The kernels of half that avx512_fp16 brings were looked at there with the processor's
// flags replaced, which is where the 0.7 MB come from; an Intel Xeon (Sapphire Rapids) showed the same scratch for
// gradients of convolutions, 6,916 bytes, and less for products. AMX: an Intel Xeon with amx_bf16; its products of
// bfloat16 take 0.5 to 1.2 of what is said here, those of half up to twice as much. The figures are the largest seen,
// no limits. Not measured: processors with AVX_NE_CONVERT and without AVX-512, for which the float sums are assumed;
// AMX of half.

#ifndef LMS_CC_TF_SIZES_KERNEL_WORKSPACE_H_
#define LMS_CC_TF_SIZES_KERNEL_WORKSPACE_H_

#include <cstdint>
#include <string>

#include "cc/tf/sizes/sized_op.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

struct CpuKernels {
  int threads = 1;  // that share an op
  bool onednn_float = false;
  bool onednn_bfloat16 = false;
  bool onednn_half = false;
  // Has oneDNN products of them that add up in registers? Means nothing where it has no kernels.
  bool native_bfloat16 = false;
  bool native_half = false;
  bool amx_bfloat16 = false;  // oneDNN's convolutions of bfloat16 are those with tiles

  // Of this process.
  static CpuKernels Here(int threads);
  bool OneDnn(tensorflow::DataType type) const;
  // By oneDNN, with results in float in its scratch.
  bool SumsInFloat(tensorflow::DataType type) const;
};

// Of avx512_bf16, avx512_fp16, amx_bf16.
enum class Instructions { kBfloat16, kHalf, kAmx };

// May oneDNN use them where the processor has them? `most` is the value of ONEDNN_MAX_CPU_ISA, or where that is unset
// or empty of DNNL_MAX_CPU_ISA: names in any case, others than its own are ignored.
bool OneDnnMayUse(Instructions instructions, const std::string& most);

// May KernelWorkspace() of such an op be above 0? Looks at the type of the op alone.
bool HasKernelWorkspace(const std::string& op);

// Bytes that the op's kernel allocates besides its outputs, and holds to its end.
int64_t KernelWorkspace(const SizedOp& op, const CpuKernels& kernels);

// A product of matrices [rows, inner] and [inner, columns], as many of each.
struct MatrixShape {
  int64_t matrices = 1;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  bool first_transposed = false;  // in memory
  bool second_transposed = false;
};

// Of what oneDNN's product of this type takes, the copies of blocks of its operands (2.21, AVX-512 with avx512_bf16;
// 1 and 2 threads; exact in float, and in bfloat16 where `inner` is 512 at most, else 0.93 to 1.5 of what was seen).
int64_t ProductBlocks(tensorflow::DataType type, const MatrixShape& shape, const CpuKernels& kernels);

// Of what KernelWorkspace() says, what a product of this type holds whose result has so many elements, in as many
// matrices.
int64_t ProductSums(tensorflow::DataType type, int64_t elements, int64_t matrices, const CpuKernels& kernels);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_KERNEL_WORKSPACE_H_
