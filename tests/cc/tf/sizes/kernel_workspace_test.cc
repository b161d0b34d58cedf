#include "cc/tf/sizes/kernel_workspace.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/cc/tf/sizes/ops_of_kernels.h"

namespace lms {
namespace {

using tensorflow::DataType;
using testing::Amx;
using testing::Avx2;
using testing::Avx512;
using testing::Avx512Fp16;
using testing::AvxNeConvert;
using testing::Dims;
using testing::kBfloat16;
using testing::kDouble;
using testing::kFloat;
using testing::kHalf;
using testing::Measured;
using testing::Op;
using testing::WithoutOneDnn;

Op FilterGradient(DataType type, const Dims& input, const Dims& filter, const Dims& gradient) {
  return Op("Conv2DBackpropFilter").In(type, input).In(tensorflow::DT_INT32, {4}).In(type, gradient).Out(type, filter);
}

Op InputGradient(DataType type, const Dims& input, const Dims& filter, const Dims& gradient) {
  return Op("Conv2DBackpropInput").In(tensorflow::DT_INT32, {4}).In(type, filter).In(type, gradient).Out(type, input);
}

TEST(KernelWorkspace, ReductionsInARingHoldWhatOthersSend) {
  const auto reduction = [](const Dims& dims) { return Op("CollectiveReduceV2").In(kFloat, dims).Out(kFloat, dims); };
  EXPECT_EQ(reduction({1000}).Workspace(), 4000);  // by how many devices is not known
  for (const auto& [devices, bytes] : {std::pair{1, 0}, {2, 2000}, {4, 3000}}) {
    EXPECT_EQ(Op("CollectiveReduceV2").In(kFloat, {1000}).Axes({devices}).Out(kFloat, {1000}).Workspace(), bytes);
  }
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

// A volume's patches: 4,096 places x 432 = 1,769,472; with the other matrices 1,914,368.
TEST(KernelWorkspace, GradientsOfConvolutionsOfVolumesHoldPatchesByTheCache) {
  const auto workspace = [](int64_t volumes, int64_t l3_bytes, bool onednn, const char* op) {
    const Dims input = {volumes, 16, 16, 16, 16}, filter = {3, 3, 3, 16, 32}, gradient = {volumes, 16, 16, 16, 32};
    CpuKernels kernels = onednn ? Measured() : WithoutOneDnn();
    kernels.l3_bytes = l3_bytes;
    Op of(op);
    const bool to_filter = of.Type() == "Conv3DBackpropFilterV2";
    of.In(to_filter ? kFloat : tensorflow::DT_INT32, to_filter ? input : Dims{5});
    of.In(to_filter ? tensorflow::DT_INT32 : kFloat, to_filter ? Dims{5} : filter).In(kFloat, gradient);
    return of.Out(kFloat, to_filter ? filter : input).Workspace(kernels);
  };
  constexpr int64_t kMega = 1 << 20;
  const char* const to_filter = "Conv3DBackpropFilterV2";
  const char* const to_input = "Conv3DBackpropInputV2";
  for (const char* op : {to_filter, to_input}) {
    EXPECT_EQ(workspace(4, 8 * kMega, false, op), 2 * 1769472 * 4) << op;
    EXPECT_EQ(workspace(4, 30 * kMega, false, op), 5 * 1769472 * 4) << op;
    // 18 volumes are 39 times the elements of the tensors: another kernel.
    EXPECT_EQ(workspace(4, 128 * kMega, false, op), 0) << op;
    EXPECT_EQ(workspace(4, 8 * kMega, true, op), 0) << op;
  }
  EXPECT_EQ(workspace(1, 8 * kMega, false, to_input), 1769472 * 4);
  EXPECT_EQ(workspace(1, 8 * kMega, false, to_filter), 2 * 1769472 * 4);
}

TEST(KernelWorkspace, ConvolutionsWithChannelsFirstAreTransposed) {
  const auto convolution = [](DataType type, const char* format) {
    return Op("Conv2D").In(type, {8, 64, 28, 28}).In(type, {3, 3, 64, 32}).Out(type, {8, 32, 14, 14}).Format(format);
  };
  EXPECT_EQ(convolution(kFloat, "NCHW").Workspace(), 8 * (64 * 28 * 28 + 32 * 14 * 14) * 4);
  EXPECT_EQ(convolution(kFloat, "NHWC").Workspace(), 0);
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
