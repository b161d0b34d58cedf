// What TensorFlow's CPU kernels allocate for themselves: convolutions, matrix products, pooling, batch norm,
// reductions, cross-entropy.
//
// Which kernel runs depends on the machine. TensorFlow takes oneDNN's for float, and for bfloat16 and half where the
// processor has instructions of a kind for them (it says so itself); other types, and all of them with
// TF_ENABLE_ONEDNN_OPTS=0, get TensorFlow's own. These hold patches of images (gradients of convolutions), or copies as
// float (products of half): rules without a processor in them, but for volumes, whose patches fill its largest cache.
//
// oneDNN's kernels ask TensorFlow's allocator for scratch in forward convolutions and in products alone; what its other
// kernels take, gradients of convolutions too, comes from malloc. Where it has no instructions for bfloat16 it adds up
// in float what a thread computes, a whole matrix or image. Otherwise its products hold copies of blocks of their
// operands, for each thread up to 0.7 MB in float and 1.7 MB in short floats (product_workspace.h); those of
// convolutions count nothing here, up to 0.7 MB, but with AMX. MatMul of floats is another kernel, which takes nothing;
// one of bfloat16 that is fused with a bias always adds up in float.
//
// The rules were read from the kernels (2.21), and measured op by op with lms.memory (benchmarks/workspace.py): on an
// AMD EPYC with AVX-512 and avx512_bf16 (Zen 5), there also with oneDNN off, and held to AVX512_CORE, AVX2, AVX and
// SSE41 by ONEDNN_MAX_CPU_ISA. The kernels of half that avx512_fp16 brings were looked at there with the processor's
// flags replaced, which is where the 0.7 MB come from; an Intel Xeon (Sapphire Rapids) showed the same scratch for
// gradients of convolutions, 6,916 bytes. Half and AMX: an Intel Xeon with avx512_fp16 and amx_bf16. The figures are
// the largest seen, no limits. Not measured: processors with AVX_NE_CONVERT and without AVX-512, for which the float
// sums are assumed; AMX of half.

#ifndef LMS_CC_TF_SIZES_KERNEL_WORKSPACE_H_
#define LMS_CC_TF_SIZES_KERNEL_WORKSPACE_H_

#include <cstdint>
#include <string>

#include "cc/tf/sizes/cpu_kernels.h"
#include "cc/tf/sizes/sized_op.h"

namespace lms {

// May KernelWorkspace() of such an op be above 0? Looks at the type of the op alone.
bool HasKernelWorkspace(const std::string& op);

// Bytes that the op's kernel allocates besides its outputs, and holds to its end.
int64_t KernelWorkspace(const SizedOp& op, const CpuKernels& kernels);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_KERNEL_WORKSPACE_H_
