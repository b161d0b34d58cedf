#include "cc/tf/sizes/cpu_kernels.h"

#include <gtest/gtest.h>

namespace lms {
namespace {

TEST(CpuKernels, WhatOneDnnMayUseIsReadAsItReadsIt) {
  for (const char* most : {"", "ALL", "AVX512_CORE_FP16", "avx512_core_amx", "AVX10_1_512_AMX", "nonsense"}) {
    EXPECT_TRUE(OneDnnMayUse(Instructions::kBfloat16, most)) << most;
    EXPECT_TRUE(OneDnnMayUse(Instructions::kHalf, most)) << most;
  }
  EXPECT_TRUE(OneDnnMayUse(Instructions::kBfloat16, "AVX512_CORE_BF16"));
  for (const char* most : {"", "ALL", "avx512_core_amx", "AVX10_1_512_AMX", "AVX512_CORE_AMX_FP16", "nonsense"}) {
    EXPECT_TRUE(OneDnnMayUse(Instructions::kAmx, most)) << most;
  }
  for (const char* most : {"AVX512_CORE_FP16", "AVX10_1_512", "AVX512_CORE_BF16", "avx2"}) {
    EXPECT_FALSE(OneDnnMayUse(Instructions::kAmx, most)) << most;
  }
  EXPECT_FALSE(OneDnnMayUse(Instructions::kHalf, "AVX512_CORE_BF16"));
  for (const char* most : {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "avx512_core", "Avx512_Core_VNNI"}) {
    EXPECT_FALSE(OneDnnMayUse(Instructions::kBfloat16, most)) << most;
    EXPECT_FALSE(OneDnnMayUse(Instructions::kHalf, most)) << most;
  }
  for (const char* most : {"", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_AMX", "nonsense"}) {
    EXPECT_TRUE(OneDnnMayUse(Instructions::kAvx2, most)) << most;
  }
  for (const char* most : {"SSE41", "AVX"}) EXPECT_FALSE(OneDnnMayUse(Instructions::kAvx2, most)) << most;
  EXPECT_TRUE(OneDnnMayUse(Instructions::kAvx512, "AVX512_CORE"));
  EXPECT_FALSE(OneDnnMayUse(Instructions::kAvx512, "AVX2_VNNI_2"));
}

}  // namespace
}  // namespace lms
