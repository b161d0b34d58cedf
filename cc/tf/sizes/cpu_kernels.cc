#include "cc/tf/sizes/cpu_kernels.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>

#include "Eigen/Core"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/util/util.h"

namespace lms {

using tensorflow::DataType;

bool OneDnnMayUse(Instructions instructions, const std::string& most) {
  // In rising order. Below AVX512_CORE oneDNN refuses what TensorFlow, which looks at the processor only, gives it of
  // short floats.
  static const char* const kWithoutAmx[] = {"sse41",
                                            "avx",
                                            "avx2",
                                            "avx2_vnni",
                                            "avx2_vnni_2",
                                            "avx512_core",
                                            "avx512_core_vnni",
                                            "avx512_core_bf16",
                                            "avx512_core_fp16",
                                            "avx10_1_512"};
  // By Instructions: the first of these that has them.
  static const char* const kFirst[] = {"avx2", "avx512_core", "avx512_core_bf16", "avx512_core_fp16", "none of them"};
  const std::string first = kFirst[static_cast<int>(instructions)];
  std::string name = most;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto end = std::find(std::begin(kWithoutAmx), std::end(kWithoutAmx), first);
  return std::find(std::begin(kWithoutAmx), end, name) == end;
}

CpuKernels CpuKernels::Here(int threads) {
  // What the processor can do is looked up once, as TensorFlow and oneDNN do.
  static const CpuKernels here = [] {
    namespace port = tensorflow::port;
    CpuKernels kernels;
    kernels.l3_bytes = Eigen::l3CacheSize();
    kernels.onednn_float = tensorflow::IsMKLEnabled();
    if (!kernels.onednn_float) return kernels;
    kernels.onednn_bfloat16 = tensorflow::IsDataTypeSupportedByOneDNNOnThisCPU(tensorflow::DT_BFLOAT16);
    kernels.onednn_half = tensorflow::IsDataTypeSupportedByOneDNNOnThisCPU(tensorflow::DT_HALF);
    std::string most;
    for (const char* name : {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"}) {
      const char* value = std::getenv(name);
      if (value != nullptr && *value != '\0') most = value;
    }
    const auto usable = [&most](port::CPUFeature feature, Instructions instructions) {
      return port::TestCPUFeature(feature) && OneDnnMayUse(instructions, most);
    };
    kernels.avx2 = usable(port::CPUFeature::AVX2, Instructions::kAvx2);
    kernels.avx512 = usable(port::CPUFeature::AVX512F, Instructions::kAvx512);
    kernels.native_bfloat16 = usable(port::CPUFeature::AVX512_BF16, Instructions::kBfloat16);
    kernels.native_half = usable(port::CPUFeature::AVX512_FP16, Instructions::kHalf);
    kernels.amx_bfloat16 = usable(port::CPUFeature::AMX_BF16, Instructions::kAmx);
    return kernels;
  }();
  CpuKernels kernels = here;
  kernels.threads = threads;
  return kernels;
}

bool CpuKernels::OneDnn(DataType type) const {
  if (type == tensorflow::DT_BFLOAT16) return onednn_bfloat16;
  if (type == tensorflow::DT_HALF) return onednn_half;
  return type == tensorflow::DT_FLOAT && onednn_float;
}

bool CpuKernels::SumsInFloat(DataType type) const {
  if (type == tensorflow::DT_BFLOAT16) return onednn_bfloat16 && !native_bfloat16;
  return type == tensorflow::DT_HALF && onednn_half && !native_half;
}

}  // namespace lms
