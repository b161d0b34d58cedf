#include "cc/tf/graph/op_traits.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

tensorflow::NodeDef Node(const std::string& op) {
  tensorflow::NodeDef node;
  node.set_name("node");
  node.set_op(op);
  return node;
}

std::string WhyNot(const tensorflow::NodeDef& node) {
  const tensorflow::OpDef* op_def = nullptr;
  EXPECT_TRUE(tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op_def).ok()) << node.op();
  return WhyNotRecomputable(node, *op_def);
}

TEST(OpTraits, ViewsShareTheirFirstInput) {
  for (const char* op : {"Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "Bitcast", "EnsureShape"}) {
    EXPECT_EQ(SharedInput(Node(op), 0), 0) << op;
    EXPECT_TRUE(IsViewOfInput(Node(op), 0)) << op;
    EXPECT_FALSE(IsViewOfInput(Node(op), 1)) << op;
  }
  for (const char* op : {"Relu", "MatMul", "Cast", "ZerosLike", "Snapshot"}) {
    EXPECT_EQ(SharedInput(Node(op), 0), -1) << op;
    EXPECT_FALSE(IsViewOfInput(Node(op), 0)) << op;
  }
}

TEST(OpTraits, IdentityNSharesPortByPort) {
  EXPECT_EQ(SharedInput(Node("IdentityN"), 0), 0);
  EXPECT_EQ(SharedInput(Node("IdentityN"), 2), 2);
  EXPECT_TRUE(IsViewOfInput(Node("IdentityN"), 2));
}

TEST(OpTraits, BothSidesOfASwitchShareItsInput) {
  EXPECT_EQ(SharedInput(Node("Switch"), 0), 0);
  EXPECT_EQ(SharedInput(Node("Switch"), 1), 0);
  EXPECT_FALSE(IsViewOfInput(Node("Switch"), 0));  // control flow reads
}

TEST(OpTraits, AReshapeIsNoPassThrough) {
  EXPECT_TRUE(IsPassThrough(Node("Identity")));
  EXPECT_TRUE(IsPassThrough(Node("IdentityN")));
  EXPECT_FALSE(IsPassThrough(Node("Reshape")));
  EXPECT_FALSE(IsPassThrough(Node("CheckNumerics")));
}

TEST(OpTraits, PureOpsMayRunTwice) {
  for (const char* op : {"Relu", "MatMul", "Conv2D", "FusedBatchNormV3", "StatelessRandomUniformV2", "Dequantize"}) {
    EXPECT_EQ(WhyNot(Node(op)), "") << op;
  }
}

TEST(OpTraits, StatefulOpsMayNot) {
  for (const char* op : {"RandomUniform", "ReadVariableOp", "AssignSubVariableOp", "PrintV2", "Assert",
                         "CollectiveReduceV2", "IteratorGetNext", "DeepCopy", "PyFunc", "_Send", "CudnnRNNV3"}) {
    EXPECT_EQ(WhyNot(Node(op)), "stateful op (" + std::string(op) + ")");
  }
}

// Stateless by their OpDef, all of them.
TEST(OpTraits, SomeStatelessOpsMayNotEither) {
  EXPECT_EQ(WhyNot(Node("FractionalMaxPool")), "random op (FractionalMaxPool)");
  EXPECT_EQ(WhyNot(Node("FractionalAvgPool")), "random op (FractionalAvgPool)");
  for (const char* op : {"InplaceUpdate", "InplaceAdd", "InplaceSub", "_ParallelConcatUpdate"}) {
    EXPECT_EQ(WhyNot(Node(op)), "changes its input in place") << op;
    EXPECT_EQ(SharedInput(Node(op), 0), 0) << op;
  }
  EXPECT_EQ(WhyNot(Node("DebugIdentity")), "may act outside the graph (DebugIdentity)");
  EXPECT_EQ(WhyNot(Node("Switch")), "control flow");
  EXPECT_EQ(WhyNot(Node("Const")), "an input, output or marker of the step");
  EXPECT_EQ(WhyNot(Node("CheckNumerics")), "an input, output or marker of the step");
  EXPECT_EQ(WhyNot(Node("ApplyGradientDescent")), "reads or writes a reference variable");
}

TEST(OpTraits, CollectivesOfOthersMayNot) {
  // Such libraries register their ops without a word on state.
  tensorflow::OpDef op_def;
  for (const char* op : {"HorovodAllreduce", "BytepsPushPull", "NcclReduce"}) {
    op_def.set_name(op);
    EXPECT_EQ(WhyNotRecomputable(Node(op), op_def), "may act outside the graph (" + std::string(op) + ")");
  }
  op_def.set_name("SomebodysSoftplus");
  EXPECT_EQ(WhyNotRecomputable(Node("SomebodysSoftplus"), op_def), "");
}

TEST(OpTraits, CallsOfFunctionsMayNot) {
  tensorflow::NodeDef call = Node("PartitionedCall");
  EXPECT_EQ(WhyNot(call), "");
  (*call.mutable_attr())["f"].mutable_func()->set_name("f");
  EXPECT_EQ(WhyNot(call), "calls a function");
  tensorflow::NodeDef branches = Node("StatelessCase");
  (*branches.mutable_attr())["branches"].mutable_list()->add_func()->set_name("f");
  EXPECT_EQ(WhyNot(branches), "calls a function");
}

TEST(OpTraits, ReadsAndQueriesOfVariables) {
  EXPECT_TRUE(IsVariableRead("ReadVariableOp"));
  EXPECT_FALSE(IsVariableRead("ResourceGather"));
  EXPECT_TRUE(IsVariableQuery("ResourceGather"));
  EXPECT_TRUE(IsVariableQuery("VariableShape"));
  EXPECT_FALSE(IsVariableQuery("AssignVariableOp"));
}

TEST(OpTraits, ViewsAndConstantsRunInlineAndReadsOfVariablesDoNot) {
  for (const char* op : {"Const", "_Arg", "Reshape", "Identity", "Switch", "BroadcastGradientArgs"}) {
    EXPECT_TRUE(RunsInline(op)) << op;
  }
  for (const char* op : {"ReadVariableOp", "TemporaryVariable", "Assign", "AssignAdd", "Mul"}) {
    EXPECT_FALSE(RunsInline(op)) << op;
  }
}

}  // namespace
}  // namespace lms
