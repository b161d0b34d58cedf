// Which kernels a CPU's ops have: oneDNN's or TensorFlow's own, by type and by what the processor can do.

#ifndef LMS_CC_TF_SIZES_CPU_KERNELS_H_
#define LMS_CC_TF_SIZES_CPU_KERNELS_H_

#include <cstdint>
#include <string>

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
  bool amx_bfloat16 = false;  // oneDNN's convolutions and products of bfloat16 are those with tiles
  bool avx2 = false;          // has oneDNN kernels with these, or wider, instructions
  bool avx512 = false;
  int64_t l3_bytes = 0;  // of the processor's largest cache, as Eigen sees it

  // Of this process.
  static CpuKernels Here(int threads);
  bool OneDnn(tensorflow::DataType type) const;
  // By oneDNN, with results in float in its scratch.
  bool SumsInFloat(tensorflow::DataType type) const;
};

// AVX2, AVX-512, avx512_bf16, avx512_fp16, amx_bf16.
enum class Instructions { kAvx2, kAvx512, kBfloat16, kHalf, kAmx };

// May oneDNN use them where the processor has them? `most` is the value of ONEDNN_MAX_CPU_ISA, or where that is unset
// or empty of DNNL_MAX_CPU_ISA: names in any case, others than its own are ignored.
bool OneDnnMayUse(Instructions instructions, const std::string& most);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_CPU_KERNELS_H_
