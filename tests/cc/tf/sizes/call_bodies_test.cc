#include "cc/tf/sizes/call_bodies.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cc/tf/import/import.h"
#include "cc/tf/sizes/dimensions.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/function.h"
#include "tests/cc/tf/function_node.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::DT_RESOURCE;
using tensorflow::FunctionDefHelper;
using testing::Bool;
using testing::Dims;
using testing::FunctionNode;
using testing::GraphBuilder;
using testing::Int;
using testing::Type;
using testing::Types;

testing::Attr ShapeList(const std::string& name, const Dims& dims) {
  testing::Attr attr{name, {}};
  *attr.second.mutable_list()->add_shape() = testing::Shape("", dims).second.shape();
  return attr;
}

void Argument(GraphBuilder* b, const std::string& name, int index, const Dims& dims) {
  b->Add(name, "_Arg", {}, {testing::Float32(), Int("index", index), ShapeList("_output_shapes", dims)});
}

void VariableArgument(GraphBuilder* b, const std::string& name, int index, const Dims& dims) {
  b->Add(name, "_Arg", {},
         {Type("T", DT_RESOURCE), Int("index", index), ShapeList("_handle_shapes", dims),
          Types("_handle_dtypes", {DT_FLOAT})});
}

// (variable, x) -> x times the variable, x, the variable's value: as the forward pass of a layer with a gradient.
tensorflow::FunctionDef Product() {
  return FunctionDefHelper::Create("product", {"w: resource", "x: float"},
                                   {"y: float", "x_again: float", "value: float"}, {},
                                   {FunctionNode("read", "ReadVariableOp", {"w"}, {{"dtype", DT_FLOAT}}),
                                    FunctionNode("y", "MatMul", {"x", "read:value:0"}, {{"T", DT_FLOAT}})},
                                   {{"y", "y:product:0"}, {"x_again", "x"}, {"value", "read:value:0"}});
}

// The same by way of a call of `inner`.
tensorflow::FunctionDef Around(const std::string& name, const std::string& inner) {
  tensorflow::NameAttrList function;
  function.set_name(inner);
  return FunctionDefHelper::Create(name, {"w: resource", "x: float"}, {"y: float", "x_again: float", "value: float"},
                                   {},
                                   {FunctionNode("call", "StatefulPartitionedCall", {"w", "x"},
                                                 {{"Tin", tensorflow::DataTypeSlice{DT_RESOURCE, DT_FLOAT}},
                                                  {"Tout", tensorflow::DataTypeSlice{DT_FLOAT, DT_FLOAT, DT_FLOAT}},
                                                  {"f", function}})},
                                   {{"y", "call:output:0"}, {"x_again", "call:output:1"}, {"value", "call:output:2"}});
}

tensorflow::NodeDef* Call(GraphBuilder* b, const std::string& name, const std::string& function,
                          const std::vector<std::string>& inputs) {
  testing::Attr f{"f", {}};
  f.second.mutable_func()->set_name(function);
  return b->Add(name, "StatefulPartitionedCall", inputs,
                {Types("Tin", {DT_RESOURCE, DT_FLOAT}), Types("Tout", {DT_FLOAT, DT_FLOAT, DT_FLOAT}), f});
}

// x [256, 64] and two products in a row with a variable [64, 64], both calls of `function`.
GraphBuilder TwoCalls(const std::string& function) {
  GraphBuilder b;
  VariableArgument(&b, "w", 0, {64, 64});
  Argument(&b, "x", 1, {-1, 64});
  Call(&b, "first", function, {"w", "x"});
  Call(&b, "second", function, {"w", "first:0"});
  b.Parse("tanh = Tanh(second); again = Tanh(second:1); fetch tanh, again");
  *b.item().graph.mutable_library()->add_function() = Product();
  *b.item().graph.mutable_library()->add_function() = Around("outer", "product");
  *b.item().graph.mutable_library()->add_function() = Around("endless", "endless");
  return b;
}

class SizedCalls {
 public:
  explicit SizedCalls(tensorflow::grappler::GrapplerItem item)
      : item_(std::move(item)), dimensions_(item_, WithSizes()), sizes_(&dimensions_) {
    const std::string before = item_.graph.DebugString();
    EXPECT_TRUE(sizes_.Infer().ok());
    EXPECT_TRUE(item_.graph.DebugString() == before);
  }
  int64_t Bytes(const std::string& node, size_t port = 0) const {
    const std::vector<TensorSize>& outputs = sizes_.Of(node).outputs;
    return port < outputs.size() && outputs[port].known ? outputs[port].bytes : -1;
  }
  const Dimensions& dimensions() const { return dimensions_; }
  const TensorSizes& sizes() const { return sizes_; }

 private:
  static Options WithSizes() {
    Options options;
    EXPECT_TRUE(ParseOptions({{"_seen_sizes", "call|1:0=256"}}, &options, /*internal=*/true).empty());
    return options;
  }

  tensorflow::grappler::GrapplerItem item_;
  Dimensions dimensions_;
  TensorSizes sizes_;
};

TEST(CallBodies, WhatACallThatReadsAVariableReturnsIsKnownAndSoIsAllThatFollows) {
  for (const char* function : {"product", "outer"}) {
    const SizedCalls sized(TwoCalls(function).item());
    for (const char* call : {"first", "second"}) {
      EXPECT_EQ(sized.Bytes(call, 0), testing::kTile) << function;
      EXPECT_EQ(sized.Bytes(call, 1), testing::kTile) << function;
      EXPECT_EQ(sized.Bytes(call, 2), 64 * 64 * 4) << function;
    }
    EXPECT_EQ(sized.Bytes("tanh"), testing::kTile);
    EXPECT_EQ(sized.Bytes("again"), testing::kTile);
  }
}

TEST(CallBodies, OfAVariableThatTheGraphMakesAndWithAllSizesKnown) {
  GraphBuilder b;
  b.Parse("w = VarHandleOp[64, 32]; x[256, 64]");
  Call(&b, "call", "product", {"w", "x"});
  b.Fetch("call");
  *b.item().graph.mutable_library()->add_function() = Product();
  const SizedCalls sized(b.item());
  EXPECT_EQ(sized.Bytes("call"), testing::kTile / 2);
  EXPECT_EQ(sized.Bytes("call", 2), 64 * 32 * 4);
}

TEST(CallBodies, AFunctionThatCallsItselfAndOneThatIsNotThereAreLeftAlone) {
  const SizedCalls endless(TwoCalls("endless").item());
  EXPECT_EQ(endless.Bytes("second"), -1);
  EXPECT_LT(endless.dimensions().item().graph.node_size(), 100);
  GraphBuilder b = TwoCalls("product");
  b.item().graph.mutable_library()->clear_function();
  const int nodes = b.item().graph.node_size();
  CallBodies calls;
  calls.WriteOut(&b.item().graph);
  EXPECT_EQ(calls.Of("first"), nullptr);
  EXPECT_EQ(b.item().graph.node_size(), nodes);
}

// The backward pass of a depthwise convolution: (gradient, input, filter) -> gradients of both.
tensorflow::FunctionDef DepthwiseGradient() {
  const testing::FunctionAttrs attrs = {
      {"T", DT_FLOAT}, {"strides", std::vector<int32_t>{1, 1, 1, 1}}, {"padding", std::string("SAME")}};
  return FunctionDefHelper::Create("backward", {"g: float", "x: float", "r: float"}, {"dx: float", "dr: float"}, {},
                                   {FunctionNode("shapes", "ShapeN", {"x", "r"}, {{"T", DT_FLOAT}, {"N", 2}}),
                                    FunctionNode("dx", "Conv2DBackpropInput", {"shapes:output:0", "r", "g"}, attrs),
                                    FunctionNode("dr", "Conv2DBackpropFilter", {"x", "shapes:output:1", "g"}, attrs)},
                                   {{"dx", "dx:output:0"}, {"dr", "dr:output:0"}});
}

TEST(CallBodies, ACompiledCallHasWorkspaceAndOneThatIsNotCompiledHasNone) {
  for (const bool compiled : {true, false}) {
    GraphBuilder b;
    b.Parse("g[4, 5, 5, 768]; x[4, 5, 5, 768]; r[7, 7, 1, 768]");
    testing::Attr f{"f", {}};
    f.second.mutable_func()->set_name("backward");
    b.Add("call", "PartitionedCall", {"g", "x", "r"},
          {Types("Tin", {DT_FLOAT, DT_FLOAT, DT_FLOAT}), Types("Tout", {DT_FLOAT, DT_FLOAT}), f,
           Bool("_XlaMustCompile", compiled)});
    b.Fetch("call");
    *b.item().graph.mutable_library()->add_function() = DepthwiseGradient();
    const SizedCalls sized(b.item());
    EXPECT_EQ(sized.Bytes("call", 0), 4 * 5 * 5 * 768 * 4);
    EXPECT_EQ(sized.Bytes("call", 1), 7 * 7 * 768 * 4);
    EXPECT_EQ(sized.sizes().Of("call").workspace_bytes, compiled ? 231211008 : 0);
    GraphIndex index;
    ImportedGraph imported;
    ASSERT_TRUE(index.Build(b.item()).ok());
    ASSERT_TRUE(ImportGraph(b.item(), index, sized.sizes(), &imported).ok());
    EXPECT_EQ(imported.graph.ops[imported.op_of_node[index.Find("call")]].workspace_bytes, compiled ? 231211008 : 0);
  }
}

}  // namespace
}  // namespace lms
