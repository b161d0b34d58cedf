#include "cc/tf/sizes/workspace.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::Dims;

tensorflow::OpInfo::TensorProperties Floats(const Dims& dims) {
  tensorflow::OpInfo::TensorProperties tensor;
  tensor.set_dtype(tensorflow::DT_FLOAT);
  *tensor.mutable_shape() = testing::Shape("", dims).second.shape();
  return tensor;
}

// All figures are measured: benchmark steps, and functions compiled by XLA on their own.
int64_t FilterGradient(const Dims& input, const Dims& gradient, const Dims& filter, bool with_input_gradient = true) {
  tensorflow::NodeDef node;
  node.set_op("Conv2DBackpropFilter");
  (*node.mutable_attr())["data_format"].set_s("NHWC");
  tensorflow::NodeDef other;
  other.set_op(with_input_gradient ? "Conv2DBackpropInput" : "Identity");
  return CompiledWorkspace(
      {{&other, {}, {}}, {&node, {Floats(input), Floats({4}), Floats(gradient)}, {Floats(filter)}}});
}

TEST(Workspace, XlaMakesTheFilterOfADepthwiseConvolutionDense) {
  EXPECT_EQ(FilterGradient({4, 5, 5, 768}, {4, 5, 5, 768}, {7, 7, 1, 768}), 231211008);
  EXPECT_EQ(FilterGradient({4, 10, 10, 384}, {4, 10, 10, 384}, {7, 7, 1, 384}), 57802752);
  EXPECT_EQ(FilterGradient({4, 20, 20, 192}, {4, 20, 20, 192}, {7, 7, 1, 192}), 14450688);
  EXPECT_EQ(FilterGradient({4, 40, 40, 96}, {4, 40, 40, 96}, {7, 7, 1, 96}), 4263936);
  EXPECT_EQ(FilterGradient({8, 40, 40, 96}, {8, 40, 40, 96}, {7, 7, 1, 96}), 6721536);
  EXPECT_EQ(FilterGradient({4, 40, 40, 96}, {4, 20, 20, 96}, {7, 7, 1, 96}), 3612672);
  EXPECT_EQ(FilterGradient({4, 40, 40, 96}, {4, 40, 40, 96}, {7, 7, 1, 96}, false), 6721536);
}

TEST(Workspace, XlaKeepsFiltersOfGroupsOfSeveralAsTheyAre) {
  EXPECT_EQ(FilterGradient({4, 40, 40, 96}, {4, 40, 40, 96}, {7, 7, 4, 96}), 2532864);
  EXPECT_EQ(FilterGradient({4, 40, 40, 96}, {4, 40, 40, 192}, {7, 7, 1, 192}), 4952832);
  EXPECT_EQ(FilterGradient({4, 40, 40, 96}, {4, 40, 40, 192}, {3, 3, 24, 192}), 5081088);
  EXPECT_EQ(FilterGradient({4, 40, 40, 96}, {4, 40, 40, 96}, {3, 3, 96, 96}), 2789376);
  EXPECT_EQ(CompiledWorkspace({}), 0);
}

bool Knows(const std::vector<std::string>& ops) {
  std::vector<tensorflow::NodeDef> nodes(ops.size());
  std::vector<const tensorflow::NodeDef*> body;
  for (size_t i = 0; i < ops.size(); ++i) {
    nodes[i].set_op(ops[i]);
    body.push_back(&nodes[i]);
  }
  return KnowsCompiledWorkspace(body);
}

TEST(Workspace, ConvolutionsAloneAreKnownWhereXlaCompilesThem) {
  EXPECT_TRUE(Knows({"Conv2D", "Identity"}));
  EXPECT_TRUE(Knows({"ReadVariableOp", "ExpandDims", "Const", "Conv2D", "Squeeze", "Identity"}));
  EXPECT_TRUE(Knows({"ShapeN", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Identity", "Identity"}));
  EXPECT_FALSE(Knows({}));
  EXPECT_FALSE(Knows({"Identity"}));
  EXPECT_FALSE(Knows({"Conv2D", "Relu"}));
  EXPECT_FALSE(Knows({"Conv2D", "Conv2D"}));
  EXPECT_FALSE(Knows({"Conv3D", "Identity"}));
  EXPECT_FALSE(Knows({"MatMul"}));
}

int64_t Einsum(const std::string& equation, const std::vector<Dims>& inputs, const Dims& output) {
  tensorflow::NodeDef node;
  node.set_op("Einsum");
  (*node.mutable_attr())["equation"].set_s(equation);
  SizedOp op{&node, {}, {Floats(output)}};
  for (const Dims& input : inputs) op.inputs.push_back(Floats(input));
  EXPECT_TRUE(HasWorkspace(node));
  return OpWorkspace(op, CpuKernels());
}

TEST(Workspace, EinsumCopiesOperandsThatAreNotInOrderAndItsProduct) {
  const Dims keys = {4, 200, 6, 64};
  const Dims queries = {4, 256, 6, 64};
  const Dims scores = {4, 6, 200, 256};
  EXPECT_EQ(Einsum("aecd,abcd->acbe", {keys, queries}, scores), 7716864);
  EXPECT_EQ(Einsum("acbe,aecd->abcd", {scores, keys}, queries), 2801664);
  EXPECT_EQ(Einsum("acbe,aecd->acbd", {scores, keys}, {4, 6, 256, 64}), 1228800);
  EXPECT_EQ(Einsum("abf,fcd->abcd", {{4, 256, 384}, {384, 6, 64}}, queries), 0);
  EXPECT_EQ(Einsum("abf,cdf->abcd", {{4, 256, 384}, {6, 64, 384}}, queries), 0);
  EXPECT_EQ(Einsum("abf,abd->df", {{4, 256, 384}, {4, 256, 64}}, {64, 384}), 98304);
}

// Measured with ONEDNN_MAX_CPU_ISA=AVX512_CORE and 1, 2 and 4 threads: 600,192 each time; 60,288, 120,448 and 240,768.
TEST(Workspace, EinsumOfBfloat16TakesWhatItsProductDoes) {
  const auto einsum = [](const std::string& equation, const Dims& output, int threads) {
    tensorflow::NodeDef node;
    node.set_op("Einsum");
    (*node.mutable_attr())["equation"].set_s(equation);
    SizedOp op{&node, {Floats({4, 75, 300}), Floats({4, 300, 200})}, {Floats(output)}};
    op.outputs[0].set_dtype(tensorflow::DT_BFLOAT16);
    return OpWorkspace(op, {threads, true, true, false, false, false});
  };
  EXPECT_EQ(einsum("abc,acd->abd", {4, 75, 200}, 1), 75 * 200 * 4);
  EXPECT_EQ(einsum("abc,acd->abd", {4, 75, 200}, 2), 2 * 75 * 200 * 4);
  EXPECT_EQ(einsum("abc,acd->abd", {4, 75, 200}, 8), 4 * 75 * 200 * 4);
  EXPECT_EQ(einsum("abc,cd->abd", {4, 75, 500}, 4), 4 * 75 * 500 * 4);
}

// Measured with AVX-512 and one thread: 541,568 beside the result.
TEST(Workspace, EinsumTakesTheBlocksOfItsProduct) {
  tensorflow::NodeDef node;
  node.set_op("Einsum");
  (*node.mutable_attr())["equation"].set_s("tec,td->ecd");
  const SizedOp op{&node, {Floats({512, 4, 128}), Floats({512, 64})}, {Floats({4, 128, 64})}};
  EXPECT_EQ(OpWorkspace(op, {1, true, true, false, true, false}), 541568);
  EXPECT_EQ(OpWorkspace(op, {1, false, false, false, false, false}), 0);
}

TEST(Workspace, WhatIsNotKnownCountsNothing) {
  EXPECT_EQ(Einsum("...bc,...cd->...bd", {{4, 5, 6}, {4, 6, 7}}, {4, 5, 7}), 0);
  EXPECT_EQ(Einsum("ab->ba", {{4, 5}}, {5, 4}), 0);
  tensorflow::NodeDef node;
  node.set_op("Tanh");
  EXPECT_FALSE(HasWorkspace(node));
  EXPECT_EQ(OpWorkspace({&node, {Floats({4})}, {Floats({4})}}, CpuKernels()), 0);
}

}  // namespace
}  // namespace lms
