#include "cc/tf/sizes/kernel_workspace.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DataType;
using testing::Dims;

constexpr DataType kFloat = tensorflow::DT_FLOAT;
constexpr DataType kHalf = tensorflow::DT_HALF;
constexpr DataType kBfloat16 = tensorflow::DT_BFLOAT16;
constexpr DataType kDouble = tensorflow::DT_DOUBLE;

// Processors, by what TensorFlow and oneDNN have for float, bfloat16 and half, and natively for the last two.
// Zen 4, Zen 5, Cooper Lake: AVX-512 and avx512_bf16. The one on which all figures were measured.
CpuKernels Measured(int threads = 2) { return {threads, true, true, false, true, false}; }
// Skylake, Cascade Lake, Ice Lake: AVX-512 alone. Measured with ONEDNN_MAX_CPU_ISA=AVX512_CORE.
CpuKernels Avx512(int threads = 2) { return {threads, true, true, false, false, false}; }
// Sapphire Rapids and later: avx512_fp16 as well.
CpuKernels Avx512Fp16() { return {2, true, true, true, true, true}; }
// The same with AMX. Measured on such a Xeon.
CpuKernels Amx(int threads = 2) { return {threads, true, true, true, true, true, true}; }
// Haswell, Zen 1 to 3: AVX2.
CpuKernels Avx2() { return {2, true, false, false, false, false}; }
// Sierra Forest, Lunar Lake: AVX_NE_CONVERT and no AVX-512. Not measured.
CpuKernels AvxNeConvert() { return {2, true, true, true, false, false}; }
CpuKernels WithoutOneDnn() { return {2, false, false, false, false, false}; }

class Op {
 public:
  explicit Op(const std::string& type) { node_.set_op(type); }

  Op& In(DataType type, const Dims& dims) { return Add(type, dims, &op_.inputs); }
  Op& Out(DataType type, const Dims& dims) { return Add(type, dims, &op_.outputs); }
  Op& Format(const std::string& format) {
    (*node_.mutable_attr())["data_format"].set_s(format);
    return *this;
  }
  Op& True(const char* name) {
    (*node_.mutable_attr())[name].set_b(true);
    return *this;
  }
  Op& Window(const std::vector<int64_t>& sides) {
    for (const int64_t side : sides) (*node_.mutable_attr())["ksize"].mutable_list()->add_i(side);
    return *this;
  }
  Op& Strides(const std::vector<int64_t>& strides) {
    for (const int64_t stride : strides) (*node_.mutable_attr())["strides"].mutable_list()->add_i(stride);
    return *this;
  }
  Op& Axes(const std::vector<int>& axes) {
    tensorflow::Tensor value(tensorflow::DT_INT32, {static_cast<int64_t>(axes.size())});
    for (size_t i = 0; i < axes.size(); ++i) value.flat<int32_t>()(i) = axes[i];
    In(tensorflow::DT_INT32, {static_cast<int64_t>(axes.size())});
    value.AsProtoTensorContent(op_.inputs.back().mutable_value());
    return *this;
  }
  int64_t Workspace(const CpuKernels& kernels = Measured()) {
    EXPECT_TRUE(HasKernelWorkspace(node_.op()));
    op_.node = &node_;
    return KernelWorkspace(op_, kernels);
  }

 private:
  Op& Add(DataType type, const Dims& dims, std::vector<tensorflow::OpInfo::TensorProperties>* tensors) {
    tensors->emplace_back();
    tensors->back().set_dtype(type);
    *tensors->back().mutable_shape() = testing::Shape("", dims).second.shape();
    return *this;
  }

  tensorflow::NodeDef node_;
  SizedOp op_;
};

Op FilterGradient(DataType type, const Dims& input, const Dims& filter, const Dims& gradient) {
  return Op("Conv2DBackpropFilter").In(type, input).In(tensorflow::DT_INT32, {4}).In(type, gradient).Out(type, filter);
}

Op InputGradient(DataType type, const Dims& input, const Dims& filter, const Dims& gradient) {
  return Op("Conv2DBackpropInput").In(tensorflow::DT_INT32, {4}).In(type, filter).In(type, gradient).Out(type, input);
}

// Patches of one image: 1,024 places x 144 = 147,456; with the other matrices 184,832. In halves 30 MiB are 15,728,640:
// 86 images at a time.
TEST(KernelWorkspace, GradientsOfConvolutionsHoldPatchesOfSoManyImagesAsMakeUp30Mb) {
  const Dims input = {8, 32, 32, 16}, filter = {3, 3, 16, 32}, gradient = {8, 32, 32, 32};
  EXPECT_EQ(FilterGradient(kHalf, input, filter, gradient).Workspace(), 86 * 147456 * 2);
  EXPECT_EQ(FilterGradient(kHalf, {1, 32, 32, 16}, filter, {1, 32, 32, 32}).Workspace(), 86 * 147456 * 2);
  EXPECT_EQ(InputGradient(kHalf, input, filter, gradient).Workspace(), 86 * 147456 * 2);
  // A single image; a thread of its own that has more than 256 KB to do.
  EXPECT_EQ(InputGradient(kHalf, {1, 32, 32, 16}, filter, {1, 32, 32, 32}).Workspace(), 147456 * 2);
  EXPECT_EQ(InputGradient(kHalf, input, filter, gradient).Workspace(Measured(1)), 147456 * 2);
  EXPECT_EQ(InputGradient(kDouble, input, filter, gradient).Workspace(), 147456 * 8);
  EXPECT_EQ(FilterGradient(kDouble, input, filter, gradient).Workspace(), 22 * 147456 * 8);
}

TEST(KernelWorkspace, GradientsOfConvolutionsWithStridesAndLargeFilters) {
  // Measured: 25.298, 28.440 - 0.048, 7.373 - 1.180, 18.364 - 3.211 MB.
  EXPECT_EQ(FilterGradient(kHalf, {4, 64, 64, 3}, {7, 7, 3, 32}, {4, 32, 32, 32}).Workspace(), 25288704);
  EXPECT_EQ(FilterGradient(kHalf, {16, 30, 30, 24}, {5, 5, 24, 40}, {16, 26, 26, 40}).Workspace(), 28392000);
  EXPECT_EQ(FilterGradient(kHalf, {64, 8, 8, 256}, {3, 3, 256, 256}, {64, 8, 8, 256}).Workspace(), 6193152);
  EXPECT_EQ(InputGradient(kHalf, {8, 56, 56, 64}, {1, 1, 64, 64}, {8, 28, 28, 64}).Workspace(), 15153152);
}

TEST(KernelWorkspace, GradientsOfConvolutionsByOneDnnTakeNothing) {
  const Dims input = {8, 32, 32, 16}, filter = {3, 3, 16, 32}, gradient = {8, 32, 32, 32};
  for (const DataType type : {kFloat, kBfloat16}) {
    EXPECT_EQ(FilterGradient(type, input, filter, gradient).Workspace(), 0);
    EXPECT_EQ(InputGradient(type, input, filter, gradient).Workspace(), 0);
  }
  // Without oneDNN: 43 images of floats, as an image is too little work for two threads in bfloat16 only.
  EXPECT_EQ(FilterGradient(kFloat, input, filter, gradient).Workspace(WithoutOneDnn()), 43 * 147456 * 4);
  EXPECT_EQ(InputGradient(kFloat, input, filter, gradient).Workspace(WithoutOneDnn()), 147456 * 4);
  EXPECT_EQ(InputGradient(kBfloat16, input, filter, gradient).Workspace(WithoutOneDnn()), 86 * 147456 * 2);
  // Empty tensors and unknown ranks.
  EXPECT_EQ(FilterGradient(kHalf, {0, 32, 32, 16}, {3, 3, 0, 32}, {0, 0, 0, 0}).Workspace(), 0);
  EXPECT_EQ(Op("Conv2DBackpropFilter").Workspace(), 0);
}

TEST(KernelWorkspace, ConvolutionsWithChannelsFirstAreTransposed) {
  const auto convolution = [](DataType type, const char* format) {
    return Op("Conv2D").In(type, {8, 64, 28, 28}).In(type, {3, 3, 64, 32}).Out(type, {8, 32, 14, 14}).Format(format);
  };
  EXPECT_EQ(convolution(kFloat, "NCHW").Workspace(), 8 * (64 * 28 * 28 + 32 * 14 * 14) * 4);
  EXPECT_EQ(convolution(kFloat, "NHWC").Workspace(), 0);
}

TEST(KernelWorkspace, ProductsOfHalvesAreComputedInFloat) {
  const auto product = [](DataType type) {
    return Op("MatMul").In(type, {256, 512}).In(type, {512, 1024}).Out(type, {256, 1024});
  };
  EXPECT_EQ(product(kHalf).Workspace(), (256 * 512 + 512 * 1024 + 256 * 1024) * 4);
  EXPECT_EQ(product(kFloat).Workspace(), 0);
  EXPECT_EQ(product(kBfloat16).Workspace(WithoutOneDnn()), (256 * 512 + 512 * 1024 + 256 * 1024) * 4);
  EXPECT_EQ(Op("BatchMatMulV2").In(kHalf, {8, 128, 256}).In(kHalf, {256, 512}).Out(kHalf, {8, 128, 512}).Workspace(),
            (8 * 128 * 256 + 256 * 512 + 8 * 128 * 512) * 4);
}

TEST(KernelWorkspace, GradientsOfConvolutionsDependOnTheProcessorByWhatTensorFlowGivesToOneDnn) {
  const Dims input = {8, 32, 32, 16}, filter = {3, 3, 16, 32}, gradient = {8, 32, 32, 32};
  const auto both = [&](DataType type, const CpuKernels& kernels) {
    return FilterGradient(type, input, filter, gradient).Workspace(kernels) +
           InputGradient(type, input, filter, gradient).Workspace(kernels);
  };
  for (const CpuKernels& kernels : {Measured(), Avx512(), Avx512Fp16(), AvxNeConvert()}) {
    EXPECT_EQ(both(kFloat, kernels), 0);
    EXPECT_EQ(both(kBfloat16, kernels), 0);
  }
  EXPECT_EQ(both(kFloat, Avx2()), 0);
  for (const CpuKernels& kernels : {Avx512Fp16(), AvxNeConvert()}) EXPECT_EQ(both(kHalf, kernels), 0);
  // TensorFlow's own: 86 images at a time in both.
  for (const CpuKernels& kernels : {Measured(), Avx512(), Avx2(), WithoutOneDnn()}) {
    EXPECT_EQ(both(kHalf, kernels), 2 * 86 * 147456 * 2);
  }
  for (const CpuKernels& kernels : {Avx2(), WithoutOneDnn()}) EXPECT_EQ(both(kBfloat16, kernels), 2 * 86 * 147456 * 2);
}

TEST(KernelWorkspace, ProductsWithoutInstructionsForTheTypeAddUpInFloat) {
  const auto product = [](DataType type, const CpuKernels& kernels) {
    return Op("MatMul").In(type, {300, 700}).In(type, {700, 500}).Out(type, {300, 500}).Workspace(kernels);
  };
  // Measured: 600,192, with 1, 2 and 4 threads.
  for (const int threads : {1, 2, 4}) EXPECT_EQ(product(kBfloat16, Avx512(threads)), 300 * 500 * 4);
  EXPECT_EQ(product(kBfloat16, AvxNeConvert()), 300 * 500 * 4);
  EXPECT_EQ(product(kHalf, AvxNeConvert()), 300 * 500 * 4);
  // In registers: copies of blocks alone.
  EXPECT_LT(product(kBfloat16, Avx512Fp16()), 300 * 500 * 4);
  EXPECT_LT(product(kHalf, Avx512Fp16()), 300 * 500 * 4);
  EXPECT_EQ(product(kFloat, Avx512()), 0);
  constexpr int64_t kCopies = (300 * 700 + 700 * 500 + 300 * 500) * 4;
  EXPECT_EQ(product(kBfloat16, Avx2()), kCopies);
  EXPECT_EQ(product(kHalf, Avx512()), kCopies);
  // A matrix for each thread: measured 36,992, 73,856 and 147,584 of 12 matrices; 110,720 of 3.
  const auto batch = [](int64_t matrices, int threads) {
    return Op("BatchMatMulV2")
        .In(kBfloat16, {matrices, 96, 160})
        .In(kBfloat16, {160, 96})
        .Out(kBfloat16, {matrices, 96, 96})
        .Workspace(Avx512(threads));
  };
  EXPECT_EQ(batch(12, 1), 96 * 96 * 4);
  EXPECT_EQ(batch(12, 2), 2 * 96 * 96 * 4);
  EXPECT_EQ(batch(12, 4), 4 * 96 * 96 * 4);
  EXPECT_EQ(batch(3, 4), 3 * 96 * 96 * 4);
  EXPECT_EQ(batch(0, 4), 0);
  EXPECT_EQ(Op("MatMul").Workspace(Avx512()), 0);
}

// Measured: 196,736 and 16,777,344, with and without instructions for the type; 384 for one row of 64.
TEST(KernelWorkspace, ProductsWithABiasAddUpInFloat) {
  const auto product = [](DataType type, int64_t rows, int64_t columns, const CpuKernels& kernels) {
    return Op("_FusedMatMul")
        .In(type, {rows, 128})
        .In(type, {128, columns})
        .Out(type, {rows, columns})
        .Workspace(kernels);
  };
  for (const CpuKernels& kernels : {Measured(), Avx512()}) {
    EXPECT_EQ(product(kBfloat16, 512, 96, kernels), 196736);
    EXPECT_EQ(product(kBfloat16, 4096, 1024, kernels), 16777344);
    EXPECT_EQ(product(kBfloat16, 1, 64, kernels), 384);
    EXPECT_EQ(product(kFloat, 512, 96, kernels), 0);
  }
  EXPECT_EQ(product(kBfloat16, 512, 96, Avx2()), (512 * 128 + 128 * 96 + 512 * 96) * 4);
  for (const CpuKernels& kernels : {Avx512Fp16(), Amx()}) {
    EXPECT_EQ(product(kBfloat16, 512, 96, kernels), 196736);
    EXPECT_EQ(product(kHalf, 512, 96, kernels), 0);  // oneDNN's reference
  }
}

// Measured on an AMD EPYC with avx512_bf16, one thread.
TEST(KernelWorkspace, ProductsCopyBlocksOfTheirOperands) {
  CpuKernels kernels = Measured();
  kernels.threads = 1;
  const auto blocks = [&](DataType type, const Dims& dims, bool first, bool second) {
    return ProductBlocks(type, {4, dims[0], dims[1], dims[2], first, second}, kernels);
  };
  const auto of_float = [&](const Dims& dims) {
    return Dims{blocks(kFloat, dims, false, false), blocks(kFloat, dims, false, true),
                blocks(kFloat, dims, true, false), blocks(kFloat, dims, true, true)};
  };
  EXPECT_EQ(of_float({512, 256, 64}), Dims({768, 66432, 263040, 328704}));
  EXPECT_EQ(of_float({256, 1024, 96}), Dims({768, 131968, 541568, 672768}));
  EXPECT_EQ(of_float({96, 1024, 256}), Dims({768, 131968, 203648, 334848}));
  EXPECT_EQ(of_float({1024, 1024, 1024}), Dims({131968, 131968, 672768, 672768}));
  EXPECT_EQ(of_float({64, 2048, 64}), Dims({768, 263040, 136064, 267264}));
  EXPECT_EQ(of_float({300, 64, 64}), Dims({768, 17280, 39296, 55808}));
  EXPECT_EQ(of_float({100, 48, 30}), Dims({768, 13184, 20096, 32512}));
  EXPECT_EQ(of_float({197, 197, 64}), Dims({768, 54144, 164800, 218176}));
  EXPECT_EQ(of_float({1, 512, 512}), Dims({131968, 131968, 131968, 131968}));
  EXPECT_EQ(of_float({512, 512, 1}), Dims({768, 768, 541568, 541568}));
  EXPECT_EQ(of_float({64, 1, 64}), Dims({768, 768, 768, 768}));
  const auto of_bfloat16 = [&](const Dims& dims) {
    return Dims{blocks(kBfloat16, dims, false, false), blocks(kBfloat16, dims, true, false)};
  };
  EXPECT_EQ(of_bfloat16({512, 256, 64}), Dims({33664, 164864}));
  EXPECT_EQ(of_bfloat16({256, 300, 64}), Dims({41856, 205824}));
  EXPECT_EQ(of_bfloat16({1536, 384, 384}), Dims({50048, 246784}));
  EXPECT_EQ(of_bfloat16({128, 512, 512}), Dims({66432, 205824}));
  EXPECT_EQ(of_bfloat16({1024, 1024, 1024}), Dims({132096, 1393792}));
  EXPECT_EQ(blocks(kBfloat16, {64, 2048, 64}, false, false), 148480);
  // More than half of K: not exact. Measured: 476,288.
  EXPECT_EQ(blocks(kBfloat16, {256, 1024, 96}, true, false), 443520);
  // Two threads; as many as have something to do.
  kernels.threads = 2;
  EXPECT_EQ(blocks(kFloat, {256, 512, 64}, true, true), 1345152);
  EXPECT_EQ(blocks(kFloat, {100, 48, 30}, false, true), 26112);
  EXPECT_EQ(ProductBlocks(kFloat, {1, 100, 48, 30, false, true}, kernels), 13184);
  // Another kernel, and without oneDNN.
  EXPECT_EQ(blocks(kHalf, {512, 256, 64}, true, true), 0);
  EXPECT_EQ(ProductBlocks(kFloat, {1, 512, 256, 64, true, true}, WithoutOneDnn()), 0);
}

TEST(KernelWorkspace, BatchesOfProductsTakeBlocks) {
  CpuKernels kernels = Measured();
  kernels.threads = 1;
  const auto batch = Op("BatchMatMulV2").In(kFloat, {4, 256, 512}).In(kFloat, {4, 256, 64}).Out(kFloat, {4, 512, 64});
  Op transposed = batch;
  EXPECT_EQ(transposed.True("adj_x").Workspace(kernels), 263040);
  EXPECT_EQ(transposed.Workspace(WithoutOneDnn()), 0);
}

TEST(KernelWorkspace, ConvolutionsOfOnePlaceWithoutInstructionsForTheTypeAddUpInFloat) {
  const auto convolution = [](DataType type, int64_t side, int64_t stride, const CpuKernels& kernels) {
    return Op("Conv2D")
        .In(type, {8, 28, 28, 64})
        .In(type, {side, side, 64, 128})
        .Out(type, {8, 28 / stride, 28 / stride, 128})
        .Strides({1, stride, stride, 1})
        .Workspace(kernels);
  };
  // Measured: 402,560, 804,992 and 1,609,856; with a stride of 2, 126,720 and 253,184.
  for (const int threads : {1, 2, 4}) {
    EXPECT_EQ(convolution(kBfloat16, 1, 1, Avx512(threads)), threads * 28 * 28 * 128 * 4);
  }
  EXPECT_EQ(convolution(kBfloat16, 1, 2, Avx512(1)), 14 * 14 * (128 * 4 + 64 * 2));
  EXPECT_EQ(convolution(kBfloat16, 1, 2, Avx512(2)), 2 * 14 * 14 * (128 * 4 + 64 * 2));
  EXPECT_EQ(convolution(kBfloat16, 1, 1, Avx512(64)), 8 * 28 * 28 * 128 * 4);  // images
  EXPECT_EQ(convolution(kBfloat16, 3, 1, Avx512()), 0);
  EXPECT_EQ(convolution(kFloat, 1, 1, Avx512()), 0);
  for (const CpuKernels& kernels : {Measured(), Avx512Fp16(), Avx2(), WithoutOneDnn()}) {
    EXPECT_EQ(convolution(kBfloat16, 1, 1, kernels), 0);
  }
}

// Measured: 20,504 and 32,816 with one and two threads; with a stride of 2, 53,848 and 91,312; larger filters 0.02 to
// 0.5 MB for each thread.
TEST(KernelWorkspace, ConvolutionsWithAmxCopyTheirInput) {
  const auto convolution = [](const char* op, DataType type, int64_t side, int64_t stride, const CpuKernels& kernels) {
    return Op(op)
        .In(type, {8, 28, 28, 64})
        .In(type, {side, side, 64, 128})
        .Out(type, {8, 28 / stride, 28 / stride, 128})
        .Strides({1, stride, stride, 1})
        .Workspace(kernels);
  };
  for (const char* op : {"Conv2D", "_FusedConv2D"}) {
    EXPECT_EQ(convolution(op, kBfloat16, 1, 1, Amx(1)), 5 * 4096);
    EXPECT_EQ(convolution(op, kBfloat16, 1, 1, Amx(2)), 8 * 4096);
    EXPECT_EQ(convolution(op, kBfloat16, 1, 2, Amx(1)), 14 * 14 * 64 * 2 + 7 * 4096);
    EXPECT_EQ(convolution(op, kBfloat16, 1, 2, Amx(2)), 2 * 14 * 14 * 64 * 2 + 10 * 4096);
    EXPECT_EQ(convolution(op, kBfloat16, 3, 1, Amx(1)), (64 + 7) * 4096);
    EXPECT_EQ(convolution(op, kBfloat16, 3, 1, Amx(2)), (2 * 64 + 10) * 4096);
    EXPECT_EQ(convolution(op, kBfloat16, 3, 1, Avx512Fp16()), 0);
    EXPECT_EQ(convolution(op, kFloat, 3, 1, Amx()), 0);
    EXPECT_EQ(convolution(op, kHalf, 3, 1, Amx()), 0);
  }
}

TEST(KernelWorkspace, WhatOneDnnMayUseIsReadAsItReadsIt) {
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
}

TEST(KernelWorkspace, PoolingNotesWhereTheMaximaWere) {
  const auto pool = [](DataType type, int64_t window, const Dims& out) {
    return Op("MaxPool").In(type, {4, 40, 40, 16}).Out(type, out).Window({1, window, window, 1});
  };
  EXPECT_EQ(pool(kFloat, 2, {4, 20, 20, 16}).Workspace(), 25600);
  EXPECT_EQ(pool(kFloat, 17, {4, 10, 10, 16}).Workspace(), 25600);
  EXPECT_EQ(pool(kHalf, 2, {4, 20, 20, 16}).Workspace(), 0);
  EXPECT_EQ(pool(kFloat, 2, {4, 20, 20, 16}).Workspace(WithoutOneDnn()), 0);
  const auto gradient = [](DataType type) {
    return Op("MaxPoolGrad")
        .In(type, {8, 56, 56, 64})
        .In(type, {8, 28, 28, 64})
        .In(type, {8, 28, 28, 64})
        .Out(type, {8, 56, 56, 64});
  };
  EXPECT_EQ(gradient(kFloat).Workspace(), 401408 * (4 + 8));
  EXPECT_EQ(gradient(kHalf).Workspace(), 401408 * (2 + 8));
}

TEST(KernelWorkspace, BatchNormOfShortFloatsAndOfChannelsFirst) {
  constexpr int64_t kElements = 8 * 28 * 28 * 48;
  const auto forward = [](DataType type, const char* format) {
    return Op("FusedBatchNormV3").In(type, {8, 28, 28, 48}).Out(type, {8, 28, 28, 48}).Format(format);
  };
  const auto gradient = [](DataType type, const char* format) {
    return Op("FusedBatchNormGradV3")
        .In(type, {8, 28, 28, 48})
        .In(type, {8, 28, 28, 48})
        .Out(type, {8, 28, 28, 48})
        .Format(format);
  };
  EXPECT_EQ(forward(kHalf, "NHWC").Workspace(), 0);
  EXPECT_EQ(forward(kHalf, "NCHW").Workspace(), kElements * 2 * 2);
  EXPECT_EQ(gradient(kHalf, "NHWC").Workspace(), kElements * 4);
  EXPECT_EQ(gradient(kHalf, "NCHW").Workspace(), kElements * (4 + 3 * 2));
  EXPECT_EQ(gradient(kBfloat16, "NHWC").Workspace(), 0);
  // With avx512_fp16 the forward one alone is oneDNN's.
  EXPECT_EQ(forward(kHalf, "NCHW").Workspace(Avx512Fp16()), 0);
  EXPECT_EQ(gradient(kHalf, "NHWC").Workspace(Avx512Fp16()), kElements * 4);
  EXPECT_EQ(gradient(kHalf, "NCHW").Workspace(Avx512Fp16()), kElements * (4 + 3 * 2));
  EXPECT_EQ(gradient(kFloat, "NCHW").Workspace(), 0);
  EXPECT_EQ(gradient(kFloat, "NHWC").Workspace(WithoutOneDnn()), 0);
  EXPECT_EQ(gradient(kFloat, "NCHW").Workspace(WithoutOneDnn()), kElements * 3 * 4);
  EXPECT_EQ(forward(kFloat, "NCHW").Workspace(WithoutOneDnn()), kElements * 2 * 4);
}

TEST(KernelWorkspace, ReductionsOfMoreThanThreeRunsOfAxesAreTransposedFirst) {
  const auto sum = [](const Dims& dims, const std::vector<int>& axes) {
    return Op("Sum").In(kFloat, dims).Axes(axes).Out(kFloat, {}).Workspace();
  };
  const Dims five = {8, 14, 20, 6, 16};
  constexpr int64_t kBytes = 8 * 14 * 20 * 6 * 16 * 4;
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 4}, {1, 2}, {0, 1, 2, 3, 4}}) {
    EXPECT_EQ(sum(five, axes), 0);
  }
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{{0, 2}, {1, 3}, {1, 2, 4}, {0, 2, 4}, {1, -1}}) {
    EXPECT_EQ(sum(five, axes), kBytes);
  }
  EXPECT_EQ(sum({1, 900, 80, 16}, {0, 2}), 0);  // kept, reduced, kept
  EXPECT_EQ(sum({8, 1, 20, 16}, {0, 2}), 0);
  EXPECT_EQ(sum(five, {0, 7}), 0);
  // Axes that are not known.
  EXPECT_EQ(Op("Sum").In(kFloat, five).In(tensorflow::DT_INT32, {2}).Out(kFloat, {}).Workspace(), 0);
}

TEST(KernelWorkspace, CrossEntropyTakesANumberForEachExample) {
  Op sparse("SparseSoftmaxCrossEntropyWithLogits");
  sparse.In(kFloat, {4096, 3}).In(tensorflow::DT_INT32, {4096}).Out(kFloat, {4096}).Out(kFloat, {4096, 3});
  EXPECT_EQ(sparse.Workspace(), 4096 * 4);
  Op dense("SoftmaxCrossEntropyWithLogits");
  dense.In(kHalf, {4096, 3}).In(kHalf, {4096, 3}).Out(kHalf, {4096}).Out(kHalf, {4096, 3});
  EXPECT_EQ(dense.Workspace(), 4096 * 2);
}

TEST(KernelWorkspace, OfOtherOpsAndTypesNothingIsKnown) {
  EXPECT_EQ(CpuKernels::Here(3).threads, 3);
  EXPECT_FALSE(CpuKernels::Here(3).OneDnn(kDouble));
  EXPECT_FALSE(HasKernelWorkspace("Tanh"));
}

}  // namespace
}  // namespace lms
