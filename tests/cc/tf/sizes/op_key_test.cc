#include "cc/tf/sizes/op_key.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::OpInfo;
using testing::Bool;
using testing::Dims;

OpInfo::TensorProperties Tensor(const Dims& dims, tensorflow::DataType type = tensorflow::DT_FLOAT) {
  OpInfo::TensorProperties tensor;
  tensor.set_dtype(type);
  tensor.mutable_shape();
  for (const int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_size(dim);
  return tensor;
}

tensorflow::NodeDef MatMul(const std::string& name, bool transpose) {
  testing::GraphBuilder b;
  return *b.Float(name, "MatMul", {"a", "b"}, {Bool("transpose_a", transpose)});
}

std::string Key(const tensorflow::NodeDef& node, const Dims& a = {4, 8}, const Dims& b = {8, 2},
                const Dims& out = {4, 2}) {
  return OpKey(node, {Tensor(a), Tensor(b)}, {Tensor(out)});
}

TEST(OpKeyTest, IsReadableAndTheSameEverywhere) {
  // The hash may change only with a new format: profiles on disk hold it.
  EXPECT_EQ(Key(MatMul("m", false)).rfind("MatMul(float[4,8],float[8,2])->float[4,2] ", 0), 0U);
  EXPECT_EQ(Key(MatMul("m", false)), Key(MatMul("m", false)));
  tensorflow::NodeDef plain;
  plain.set_op("NoOp");
  EXPECT_EQ(OpKey(plain, {}, {}), "NoOp()-> cbf29ce484222325");
}

TEST(OpKeyTest, NamesAndAnnotationsDoNotMatter) {
  tensorflow::NodeDef node = MatMul("layer/matmul", false);
  const std::string key = Key(node);
  node.set_name("lms/copy");
  node.set_device("/device:CPU:1");
  node.set_input(0, "another");
  node.add_input("^control");
  (*node.mutable_attr())["_class"].mutable_list()->add_s("loc:@x");
  (*node.mutable_attr())["_output_shapes"].mutable_list()->add_shape();
  (*node.mutable_attr())["shared_name"].set_s("v");
  (*node.mutable_attr())["seed"].set_i(7);
  (*node.mutable_attr())["body"].mutable_func()->set_name("f_12");
  EXPECT_EQ(Key(node), key);
}

TEST(OpKeyTest, AttributesShapesTypesAndFusedOpsMatter) {
  const std::string key = Key(MatMul("m", false));
  EXPECT_NE(Key(MatMul("m", true)), key);
  EXPECT_NE(Key(MatMul("m", false), {4, 9}), key);
  EXPECT_NE(Key(MatMul("m", false), {4, 8}, {8, 2}, {2, 4}), key);
  const tensorflow::NodeDef node = MatMul("m", false);
  EXPECT_NE(OpKey(node, {Tensor({4, 8}, tensorflow::DT_HALF), Tensor({8, 2})}, {Tensor({4, 2})}), key);
  tensorflow::NodeDef fused = node;
  fused.set_op("_FusedMatMul");
  (*fused.mutable_attr())["fused_ops"].mutable_list()->add_s("BiasAdd");
  const std::string with_bias = Key(fused);
  EXPECT_NE(with_bias, key);
  (*fused.mutable_attr())["fused_ops"].mutable_list()->add_s("Relu");
  EXPECT_NE(Key(fused), with_bias);
}

TEST(OpKeyTest, ValuesOfAttributesAreNotMixedUp) {
  tensorflow::NodeDef one;
  tensorflow::NodeDef other;
  one.set_op("Op");
  other.set_op("Op");
  (*one.mutable_attr())["a"].set_s("x");
  (*one.mutable_attr())["b"].set_s("");
  (*other.mutable_attr())["a"].set_s("");
  (*other.mutable_attr())["b"].set_s("x");
  EXPECT_NE(OpKey(one, {}, {}), OpKey(other, {}, {}));
}

TEST(OpKeyTest, WhatIsUnknownIsWrittenSo) {
  OpInfo::TensorProperties any;
  any.set_dtype(tensorflow::DT_FLOAT);
  any.mutable_shape()->set_unknown_rank(true);
  tensorflow::NodeDef node;
  node.set_op("Op");
  EXPECT_EQ(OpKey(node, {any}, {Tensor({-1, 3})}).rfind("Op(float[?])->float[?,3] ", 0), 0U);
}

}  // namespace
}  // namespace lms
