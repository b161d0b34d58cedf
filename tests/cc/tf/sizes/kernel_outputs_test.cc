// Figures measured with TensorFlow 2.21 (kernel_outputs.h).

#include "cc/tf/sizes/kernel_outputs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/cc/tf/sizes/ops_of_kernels.h"

namespace lms {
namespace {

using testing::kBfloat16;
using testing::kFloat;
using testing::kHalf;

CpuKernels With(bool avx2, bool avx512) {
  CpuKernels kernels = testing::Measured();
  kernels.avx2 = avx2;
  kernels.avx512 = avx512;
  return kernels;
}

// The shape; {-1} where it is not known.
std::vector<int64_t> Kept(const char* op, tensorflow::DataType type, const std::vector<int64_t>& input,
                          const CpuKernels& kernels, const char* format = "NHWC", bool training = true) {
  tensorflow::NodeDef node;
  node.set_op(op);
  (*node.mutable_attr())["T"].set_type(type);
  (*node.mutable_attr())["data_format"].set_s(format);
  (*node.mutable_attr())["activation_mode"].set_s("Relu");
  (*node.mutable_attr())["is_training"].set_b(training);
  tensorflow::TensorShapeProto shape;
  for (const int64_t side : input) shape.add_dim()->set_size(side);
  const auto kept = ShapeByKernel(node, shape, kernels);
  if (!kept) return {-1};
  std::vector<int64_t> dims;
  for (const auto& dim : kept->dim()) dims.push_back(dim.size());
  return dims;
}

constexpr char kWithRelu[] = "_FusedBatchNormEx";
using Dims = std::vector<int64_t>;

TEST(KernelOutputs, WithAReluABitForEachElementWhereVectorsOfChannelsAreWhole) {
  const CpuKernels wide = With(true, true);
  EXPECT_EQ(Kept(kWithRelu, kFloat, {4, 10, 10, 32}, wide), Dims({1600}));
  EXPECT_EQ(Kept(kWithRelu, kFloat, {4, 10, 10, 24}, wide), Dims({1200}));
  EXPECT_EQ(Kept(kWithRelu, kFloat, {4, 10, 10, 20}, wide), Dims({8000}));
  EXPECT_EQ(Kept(kWithRelu, kFloat, {4, 32, 10, 10}, wide, "NCHW"), Dims({12800}));
  EXPECT_EQ(Kept(kWithRelu, kBfloat16, {4, 10, 10, 16}, wide), Dims({800}));
  EXPECT_EQ(Kept(kWithRelu, kBfloat16, {4, 10, 10, 24}, wide), Dims({9600}));
}

TEST(KernelOutputs, OlderProcessorsKeepBytes) {
  EXPECT_EQ(Kept(kWithRelu, kFloat, {4, 10, 10, 32}, With(true, false)), Dims({1600}));
  EXPECT_EQ(Kept(kWithRelu, kFloat, {4, 10, 10, 32}, With(false, false)), Dims({12800}));
}

TEST(KernelOutputs, WithoutAReluOrTrainingNothingIsKept) {
  const CpuKernels wide = With(true, true);
  EXPECT_EQ(Kept("FusedBatchNormV3", kFloat, {4, 10, 10, 32}, wide), Dims({0}));
  EXPECT_EQ(Kept(kWithRelu, kFloat, {4, 10, 10, 32}, wide, "NHWC", /*training=*/false), Dims({0}));
  // TensorFlow's own kernel: a number.
  EXPECT_EQ(Kept("FusedBatchNormV3", kFloat, {4, 10, 10, 32}, testing::WithoutOneDnn()), Dims());
  EXPECT_EQ(Kept("FusedBatchNormV3", kHalf, {4, 10, 10, 32}, wide), Dims());
}

TEST(KernelOutputs, OfAnOpenShapeOrAnotherOpNothingIsKnown) {
  EXPECT_EQ(Kept(kWithRelu, kFloat, {-1, 10, 10, 32}, With(true, true)), Dims({-1}));
  EXPECT_EQ(Kept("FusedBatchNorm", kFloat, {4, 10, 10, 32}, With(true, true)), Dims({-1}));
}

}  // namespace
}  // namespace lms
