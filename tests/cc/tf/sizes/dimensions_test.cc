#include "cc/tf/sizes/dimensions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/tf/sizes/tensor_sizes.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using tensorflow::DT_RESOURCE;
using testing::Dims;
using testing::GraphBuilder;
using testing::Int;
using testing::Text;
using testing::Type;
using testing::Types;
using Lines = std::vector<std::string>;

testing::Attr ShapesAttr(const std::string& name, const std::vector<Dims>& shapes) {
  testing::Attr attr{name, {}};
  attr.second.mutable_list();
  for (const Dims& dims : shapes) *attr.second.mutable_list()->add_shape() = testing::Shape("", dims).second.shape();
  return attr;
}

void Arg(GraphBuilder* b, const std::string& name, int index, const Dims& dims, const std::string& user_name = "") {
  b->Add(name, "_Arg", {},
         {Type("T", DT_FLOAT), Int("index", index), ShapesAttr("_output_shapes", {dims}),
          Text("_user_specified_name", user_name)});
}

Options With(const std::string& unknown_dim, const std::string& seen) {
  Options options;
  OptionMap map;
  if (!unknown_dim.empty()) map["unknown_dim"] = unknown_dim;
  if (!seen.empty()) map["_seen_sizes"] = seen;
  EXPECT_TRUE(ParseOptions(map, &options, /*internal=*/true).empty());
  return options;
}

// The bytes of tensors under the options; -1 where they are not known.
class Sized {
 public:
  Sized(const tensorflow::grappler::GrapplerItem& item, const Options& options)
      : before_(item.graph.DebugString()), item_(item), dimensions_(item_, options), sizes_(&dimensions_) {
    EXPECT_TRUE(sizes_.Infer().ok());
    // Whatever is bound, it is not in the graph that will run.
    EXPECT_TRUE(item_.graph.DebugString() == before_);
  }
  int64_t Bytes(const std::string& node, size_t port = 0) const {
    const std::vector<TensorSize>& outputs = sizes_.Of(node).outputs;
    return port < outputs.size() && outputs[port].known ? outputs[port].bytes : -1;
  }
  bool Assumed(const std::string& node) const { return sizes_.Of(node).outputs.at(0).assumptions != 0; }
  const Dimensions& dimensions() const { return dimensions_; }

 private:
  std::string before_;
  tensorflow::grappler::GrapplerItem item_;
  Dimensions dimensions_;
  TensorSizes sizes_;
};

// images [?, 6] and tokens [?, ?] of two batches of their own.
tensorflow::grappler::GrapplerItem TwoArguments() {
  GraphBuilder b;
  Arg(&b, "images", 0, {-1, 6});
  Arg(&b, "tokens", 1, {-1, -1}, "inputs");
  // [B, 6] -> [B * 2, 3]: the product of the unknown dimension and a known one.
  b.ShapeConstant("rows", {-1, 3});
  b.Add("flat", "Reshape", {"images", "rows"}, {testing::Float32(), Type("Tshape", DT_INT32)});
  b.ShapeConstant("all", {-1});
  b.Add("line", "Reshape", {"tokens", "all"}, {testing::Float32(), Type("Tshape", DT_INT32)});
  b.Float("tanh", "Tanh", {"line"});
  // [T * S, T * S], by way of the shape as a tensor.
  b.Add("shape", "Shape", {"line"}, {testing::Float32(), Type("out_type", DT_INT32)});
  b.ShapeConstant("axis", {0});
  b.Add("twice", "ConcatV2", {"shape", "shape", "axis"}, {Type("T", DT_INT32), Int("N", 2), Type("Tidx", DT_INT32)});
  b.Constant("zero", {});
  b.Add("square", "Fill", {"twice", "zero"}, {testing::Float32(), Type("index_type", DT_INT32)});
  b.Fetch("tanh");
  return b.item();
}

TEST(Dimensions, SizesOfTheCallAreCarriedThroughReshapesAndShapeArithmetic) {
  const Sized sized(TwoArguments(), With("", "first call|0:0=64,1:0=5,1:1=7"));
  EXPECT_EQ(sized.Bytes("images"), 64 * 6 * 4);
  EXPECT_EQ(sized.Bytes("flat"), 128 * 3 * 4);
  EXPECT_EQ(sized.Bytes("tanh"), 35 * 4);
  EXPECT_EQ(sized.Bytes("square"), 35 * 35 * 4);
  EXPECT_EQ(sized.dimensions().lines(),
            (Lines{"images:0 = 64 (first call)", "tokens:0 = 5 (first call)", "tokens:1 = 7 (first call)"}));
  EXPECT_TRUE(sized.dimensions().open().empty());
}

// The gradient of a bias: summed over the axes along which the bias was broadcast. And that of a mean: a shape of which
// one entry is replaced by 1.
TEST(Dimensions, WhatIsMadeOfShapesIsFolded) {
  GraphBuilder b;
  Arg(&b, "x", 0, {-1, 8});
  Arg(&b, "row", 1, {-1});
  b.Constant("bias", {8});
  b.Add("x_shape", "Shape", {"x"}, {testing::Float32(), Type("out_type", DT_INT32)});
  b.Add("bias_shape", "Shape", {"bias"}, {testing::Float32(), Type("out_type", DT_INT32)});
  b.Add("axes", "BroadcastGradientArgs", {"x_shape", "bias_shape"}, {Type("T", DT_INT32)});
  b.Float("x_grad", "Sum", {"x", "axes"}, {Type("Tidx", DT_INT32)});
  b.Float("bias_grad", "Sum", {"x", "axes:1"}, {Type("Tidx", DT_INT32)});
  b.Parse("both{0, 1}; second{1}; one{1}");
  b.Add("stitched", "DynamicStitch", {"both", "second", "x_shape", "one"}, {Type("T", DT_INT32), Int("N", 2)});
  b.Add("column", "Reshape", {"row", "stitched"}, {testing::Float32(), Type("Tshape", DT_INT32)});
  for (const char* name : {"x_grad", "bias_grad", "column"}) b.Fetch(name);
  const Sized sized(b.item(), With("", "first call|0:0=64,1:0=64"));
  EXPECT_EQ(sized.Bytes("x_grad"), 64 * 8 * 4);
  EXPECT_EQ(sized.Bytes("bias_grad"), 8 * 4);
  EXPECT_EQ(sized.Bytes("column"), 64 * 4);
}

// A loop's gradient with respect to a variable begins with zeros of the variable's shape. Asked in the body of a loop,
// and of a variable whose shape nobody knows.
TEST(Dimensions, TheShapeOfAVariableIsKnown) {
  GraphBuilder b;
  const auto resource = Type("T", DT_RESOURCE);
  b.Add("kernel", "_Arg", {}, {resource, Int("index", 0), ShapesAttr("_handle_shapes", {{3, 5}})});
  b.Add("open", "_Arg", {}, {resource, Int("index", 1), ShapesAttr("_handle_shapes", {{-1, 5}})});
  b.Add("in_loop", "Enter", {"kernel"}, {resource, Text("frame_name", "loop"), testing::Bool("is_constant", true)});
  b.Constant("zero", {});
  for (const std::string of : {"kernel", "open", "in_loop"}) {
    b.Add(of + "_shape", "VariableShape", {of}, {Type("out_type", DT_INT32)});
    b.Add(of + "_zeros", "Fill", {of + "_shape", "zero"}, {testing::Float32(), Type("index_type", DT_INT32)});
    b.Fetch(of + "_zeros");
  }
  const Sized sized(b.item(), With("", ""));
  EXPECT_EQ(sized.Bytes("kernel_zeros"), 3 * 5 * 4);
  EXPECT_EQ(sized.Bytes("in_loop_zeros"), 3 * 5 * 4);
  EXPECT_EQ(sized.Bytes("open_zeros"), -1);
}

TEST(Dimensions, ByNameOfTheNodeOrOfTheParameter) {
  const Sized sized(TwoArguments(), With("images=10, inputs:1=3, =2", ""));
  EXPECT_EQ(sized.Bytes("flat"), 20 * 3 * 4);
  EXPECT_EQ(sized.Bytes("tanh"), 2 * 3 * 4);
  EXPECT_TRUE(sized.dimensions().open().empty());
}

TEST(Dimensions, WhatNobodyKnowsIsAssumedAndSaid) {
  const Sized sized(TwoArguments(), With("image=10", "first call|0:0=4"));
  EXPECT_EQ(sized.Bytes("flat"), 8 * 3 * 4);
  EXPECT_EQ(sized.Bytes("tanh"), 32 * 32 * 4);
  EXPECT_EQ(sized.dimensions().open(), (ShapeValues::Labels{{"tokens", {"tokens:0", "tokens:1"}}}));
  EXPECT_EQ(sized.dimensions().strange(), Lines{"image"});
  // [T * S] of two assumed sizes.
  EXPECT_EQ(sized.Bytes("square"), int64_t{1024} * 1024 * 4);
  EXPECT_TRUE(sized.Assumed("square"));
  EXPECT_FALSE(sized.Assumed("flat"));
}

TEST(Dimensions, AContradictionIsAProblem) {
  EXPECT_EQ(Sized(TwoArguments(), With("images:1=6", "")).dimensions().problems(), Lines());
  EXPECT_EQ(Sized(TwoArguments(), With("images:1=7", "")).dimensions().problems().size(), 1u);
  EXPECT_EQ(Sized(TwoArguments(), With("images:2=7", "")).dimensions().problems().size(), 1u);
}

TEST(Dimensions, AGraphThatLeavesNothingOpenIsNotCopied) {
  const tensorflow::grappler::GrapplerItem item = testing::TrainChain(2);
  const Dimensions dimensions(item, With("7", ""));
  EXPECT_EQ(&dimensions.item(), &item);
}

TEST(Dimensions, AnAssumptionThatTheGraphContradictsCostsNoSizes) {
  GraphBuilder b;
  b.Feed("x", {-1});
  b.ShapeConstant("rows", {-1, 7});  // 32 is no multiple of 7
  b.Add("flat", "Reshape", {"x", "rows"}, {testing::Float32(), Type("Tshape", DT_INT32)});
  b.Parse("tanh = Tanh(flat); fetch tanh");
  EXPECT_EQ(Sized(b.item(), With("", "")).Bytes("tanh"), 32 * 7 * 4);
  EXPECT_EQ(Sized(b.item(), With("x=14", "")).Bytes("tanh"), 14 * 4);
}

TEST(Dimensions, AnEnsureShapeThatLeavesTheDimensionOpenDoesNoHarm) {
  GraphBuilder b;
  Arg(&b, "x", 0, {-1, 4});
  b.Float("ensured", "EnsureShape", {"x"}, {testing::Shape("shape", {-1, 4})});
  tensorflow::NodeDef* tanh = b.Float("tanh", "Tanh", {"ensured"});
  (*tanh->mutable_attr())["_output_shapes"] = ShapesAttr("_output_shapes", {{-1, 4}}).second;
  b.Fetch("tanh");
  EXPECT_EQ(Sized(b.item(), With("", "first call|0:0=9")).Bytes("tanh"), 9 * 4 * 4);
}

void Iterator(GraphBuilder* b, const std::string& name, int index) {
  b->Add(name, "_Arg", {}, {Type("T", DT_RESOURCE), Int("index", index)});
}

std::vector<testing::Attr> Elements() {
  return {Types("output_types", {DT_FLOAT, DT_INT32}), ShapesAttr("output_shapes", {{-1, 8}, {-1}})};
}

TEST(Dimensions, ElementsOfTwoIterators) {
  GraphBuilder b;
  Iterator(&b, "train", 0);
  Iterator(&b, "other", 1);
  b.Add("next", "IteratorGetNext", {"train"}, Elements());
  b.Add("again", "IteratorGetNext", {"other"}, Elements());
  b.Parse("tanh = Tanh(next); tanh2 = Tanh(again); fetch tanh, tanh2");
  const Sized sized(b.item(), With("", "Keras batch_size|0.0:0=64,0.1:0=64;dataset|1.0:0=3,1.1:0=3"));
  EXPECT_EQ(sized.Bytes("tanh"), 64 * 8 * 4);
  EXPECT_EQ(sized.Bytes("next", 1), 64 * 4);
  EXPECT_EQ(sized.Bytes("tanh2"), 3 * 8 * 4);
  EXPECT_EQ(sized.dimensions().lines()[0], "train[0]:0 = 64 (Keras batch_size)");
  EXPECT_EQ(Sized(b.item(), With("train=5", "")).Bytes("tanh"), 5 * 8 * 4);
}

// Several steps in one call: the first element is taken before a loop, the next ones inside it, and an element is
// handed on as an optional through Enter, Merge, Switch and NextIteration.
TEST(Dimensions, ElementsInALoop) {
  GraphBuilder b;
  Iterator(&b, "iterator", 0);
  b.Add("first", "IteratorGetNextAsOptional", {"iterator"}, Elements());
  const auto variant = Type("T", tensorflow::DT_VARIANT);
  b.Add("enter", "Enter", {"first"}, {variant, Text("frame_name", "loop")});
  b.Add("iterator_in_loop", "Enter", {"iterator"},
        {Type("T", DT_RESOURCE), Text("frame_name", "loop"), testing::Bool("is_constant", true)});
  b.Add("merge", "Merge", {"enter", "following"}, {variant, Int("N", 2)});
  b.Add("has_value", "OptionalHasValue", {"merge"});
  b.Add("cond", "LoopCond", {"has_value"});
  b.Add("switch", "Switch", {"merge", "cond"}, {variant});
  b.Add("body", "Identity", {"switch:1"}, {variant});
  b.Add("element", "OptionalGetValue", {"body"}, Elements());
  b.Float("tanh", "Tanh", {"element"});
  b.Add("next", "IteratorGetNextAsOptional", {"iterator_in_loop", "^tanh"}, Elements());
  b.Add("following", "NextIteration", {"next"}, {variant});
  b.Add("exit", "Exit", {"switch"}, {variant});
  b.Fetch("exit");
  EXPECT_EQ(Sized(b.item(), With("", "dataset|0.0:0=48,0.1:0=48")).Bytes("tanh"), 48 * 8 * 4);
}

TEST(Dimensions, AnOptionalThatIsNoElementIsLeftAlone) {
  GraphBuilder b;
  Arg(&b, "x", 0, {6});
  b.Add("optional", "OptionalFromValue", {"x"}, {Types("Toutput_types", {DT_FLOAT})});
  b.Add("value", "OptionalGetValue", {"optional"},
        {Types("output_types", {DT_FLOAT}), ShapesAttr("output_shapes", {{-1}})});
  b.Fetch("value");
  const Sized sized(b.item(), With("", ""));
  EXPECT_TRUE(sized.dimensions().lines().empty());
}

}  // namespace
}  // namespace lms
