#include "cc/tf/sizes/shape_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/shape_inference.h"
#include "tests/cc/tf/graph_builder.h"

REGISTER_OP("LmsTestNoKernel")
    .Input("x: int32")
    .Output("y: int32")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });

namespace lms {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using testing::Attr;
using testing::Bool;
using testing::Dims;
using testing::Float32;
using testing::GraphBuilder;
using testing::Int;
using testing::Text;
using testing::Type;
using testing::Types;

constexpr int64_t kAssumed = 32;

// The shapes of a graph as shape inference and ShapeValues know them.
class Shapes {
 public:
  explicit Shapes(const tensorflow::grappler::GrapplerItem& item, const RecordedShapes& recorded = {},
                  const ShapeValues::SeenNumbers& seen = {})
      : item_(item), properties_(item_) {
    EXPECT_TRUE(properties_.InferStatically(true, false, true, false).ok());
    values_ = std::make_unique<ShapeValues>(item_.graph, properties_, kAssumed, labels_, recorded, seen);
    const std::string before = item_.graph.DebugString();
    values_->Refine();
    EXPECT_EQ(item_.graph.DebugString(), before);
  }

  ShapeValues& values() { return *values_; }

  // {-2}: of unknown rank.
  Dims Of(const std::string& node, size_t port = 0) const { return DimsOf(values_->OutputsOf(node), port); }
  Dims Inferred(const std::string& node) const { return DimsOf(properties_.GetOutputProperties(node), 0); }
  // That the size rests on, by name.
  std::vector<std::string> Assumed(const std::string& node) const {
    std::vector<std::string> names;
    const AssumptionSet set = values_->AssumptionsOf(node, 0);
    for (size_t bit = 0; bit < values_->assumptions().size(); ++bit) {
      if ((set >> bit & 1) == 0) continue;
      for (const std::string& name : values_->assumptions()[bit]) names.push_back(name);
    }
    return names;
  }

 private:
  static Dims DimsOf(const std::vector<ShapeValues::Properties>& outputs, size_t port) {
    if (port >= outputs.size() || outputs[port].shape().unknown_rank()) return {-2};
    Dims dims;
    for (const auto& dim : outputs[port].shape().dim()) dims.push_back(std::max<int64_t>(dim.size(), -1));
    return dims;
  }

  tensorflow::grappler::GrapplerItem item_;
  tensorflow::grappler::GraphProperties properties_;
  ShapeValues::Labels labels_;
  std::unique_ptr<ShapeValues> values_;
};

void ShapeOf(GraphBuilder* b, const std::string& name, const std::string& of) {
  b->Add(name, "Shape", {of}, {Float32(), Type("out_type", DT_INT32)});
}

void Number(GraphBuilder* b, const std::string& name, int value) {
  b->Constant(name, {}, DT_INT32);
  auto* tensor =
      (*b->item().graph.mutable_node(b->item().graph.node_size() - 1)->mutable_attr())["value"].mutable_tensor();
  tensor->set_int_val(0, value);
}

// `name`: numbers of the shape at the places.
void Gather(GraphBuilder* b, const std::string& name, const std::string& shape, const std::vector<int>& places) {
  b->ShapeConstant(name + "_places", places);
  Number(b, name + "_axis", 0);
  b->Add(name, "GatherV2", {shape, name + "_places", name + "_axis"},
         {Type("Tparams", DT_INT32), Type("Tindices", DT_INT32), Type("Taxis", DT_INT32)});
}

void Product(GraphBuilder* b, const std::string& name, const std::string& of) {
  b->ShapeConstant(name + "_axes", {0});
  b->Add(name, "Prod", {of, name + "_axes"}, {Type("T", DT_INT32), Type("Tidx", DT_INT32)});
}

void Pack(GraphBuilder* b, const std::string& name, const std::vector<std::string>& numbers) {
  b->Add(name, "Pack", numbers, {Type("T", DT_INT32), Int("N", static_cast<int64_t>(numbers.size()))});
}

void Reshape(GraphBuilder* b, const std::string& name, const std::string& x, const std::string& shape) {
  b->Add(name, "Reshape", {x, shape}, {Float32(), Type("Tshape", DT_INT32)});
}

void Fill(GraphBuilder* b, const std::string& name, const std::string& shape) {
  b->Constant(name + "_zero", {});
  b->Add(name, "Fill", {shape, name + "_zero"}, {Float32(), Type("index_type", DT_INT32)});
}

// What tf.tensordot makes: `x` [.., .., n] as [a * b, n].
void Rows(GraphBuilder* b, const std::string& name, const std::string& x) {
  ShapeOf(b, name + "_shape", x);
  Gather(b, name + "_outer", name + "_shape", {0, 1});
  Product(b, name + "_rows", name + "_outer");
  Gather(b, name + "_inner", name + "_shape", {2});
  Product(b, name + "_columns", name + "_inner");
  Pack(b, name + "_new", {name + "_rows", name + "_columns"});
  Reshape(b, name, x, name + "_new");
}

TEST(ShapeValues, ArithmeticOnShapesIsEvaluatedThroughAnyNumberOfReshapes) {
  GraphBuilder b;
  b.Feed("x", {8, 5, 6});
  std::string x = "x";
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    Rows(&b, "rows_" + n, x);
    // Back to [8, 5, 6].
    ShapeOf(&b, "old_" + n, x);
    Reshape(&b, "back_" + n, "rows_" + n, "old_" + n);
    b.Float("tanh_" + n, "Tanh", {"back_" + n});
    x = "tanh_" + n;
  }
  b.Fetch(x);
  Shapes shapes(b.item());
  EXPECT_NE(shapes.Inferred("rows_9"), (Dims{40, 6}));  // or there were nothing to do here
  EXPECT_EQ(shapes.Of("rows_9"), (Dims{40, 6}));
  EXPECT_EQ(shapes.Of("tanh_9"), (Dims{8, 5, 6}));
  EXPECT_TRUE(shapes.Assumed("tanh_9").empty());
}

TEST(ShapeValues, WhatIsKnownIsNotEvaluated) {
  Shapes shapes(testing::TrainChain(3));
  EXPECT_EQ(shapes.values().evaluations(), 0);
}

// A feed of two numbers, and zeros [their sum, the second one].
GraphBuilder ZerosOfNumbers() {
  GraphBuilder b;
  b.Add("numbers", "Placeholder", {}, {Type("dtype", DT_INT32), testing::Shape("shape", {2})});
  b.item().feed.emplace_back("numbers", tensorflow::Tensor());
  Number(&b, "axis", 0);
  b.Add("sum", "Sum", {"numbers", "axis"}, {Type("T", DT_INT32), Type("Tidx", DT_INT32)});
  b.Add("parts", "Unpack", {"numbers"}, {Type("T", DT_INT32), Int("num", 2)});
  Pack(&b, "dims", {"sum", "parts:1"});
  Fill(&b, "zeros", "dims");
  b.Float("tanh", "Tanh", {"zeros"});
  b.Fetch("tanh");
  return b;
}

TEST(ShapeValues, NumbersThatTheFirstCallWasGivenAreFollowed) {
  GraphBuilder b = ZerosOfNumbers();
  const ShapeValues::SeenNumbers seen = {{"numbers", {12, 5}}, {"no_such_node", {1}}};
  Shapes shapes(b.item(), {}, seen);
  EXPECT_EQ(shapes.Of("tanh"), (Dims{17, 5}));
  EXPECT_TRUE(shapes.Assumed("tanh").empty());
  EXPECT_EQ(shapes.values().SeenLines(), (std::vector<std::string>{"numbers = [12, 5] (first call)"}));
  // What other calls bring is looked for where the size arises, and nowhere else.
  const std::vector<ShapeValues::OpenNode> open = shapes.values().OpenNodes();
  ASSERT_EQ(open.size(), 1);
  EXPECT_EQ(open[0].name, "zeros");
  EXPECT_EQ(open[0].elements, 85);
  EXPECT_TRUE(open[0].told);
  EXPECT_FALSE(open[0].recorded);
  // A number of iterations is another matter: it must hold for every call.
  EXPECT_EQ(shapes.values().ScalarOf("sum", 0), std::nullopt);

  Shapes without(b.item());
  EXPECT_EQ(without.Of("tanh"), (Dims{kAssumed, kAssumed}));
  EXPECT_TRUE(without.values().SeenLines().empty());
}

TEST(ShapeValues, WhatTheRunHasShownCountsMoreThanTheFirstCall) {
  GraphBuilder b = ZerosOfNumbers();
  Shapes shapes(b.item(), {{"zeros:0", {40, 7}}}, {{"numbers", {12, 5}}});
  EXPECT_EQ(shapes.Of("tanh"), (Dims{40, 7}));
  EXPECT_TRUE(shapes.values().SeenLines().empty());
  ASSERT_EQ(shapes.values().OpenNodes().size(), 1);
  EXPECT_TRUE(shapes.values().OpenNodes()[0].recorded);
}

TEST(ShapeValues, NumbersThatDoNotFitTheArgumentAreNotTaken) {
  GraphBuilder b = ZerosOfNumbers();
  for (const std::vector<int64_t>& numbers : {std::vector<int64_t>{12}, {12, 5, 1}, {int64_t{1} << 40, 5}}) {
    Shapes shapes(b.item(), {}, {{"numbers", numbers}});
    EXPECT_EQ(shapes.Of("tanh"), (Dims{kAssumed, kAssumed}));
    EXPECT_TRUE(shapes.values().SeenLines().empty());
  }
}

// Repeats x [4, 3] three times along axis 1, as tf.repeat does; its gradient is a Sum over the new axis.
TEST(ShapeValues, AxesAndMultiplesAreEvaluated) {
  GraphBuilder b;
  b.Feed("x", {4, 3});
  ShapeOf(&b, "shape", "x");
  Number(&b, "three", 3);
  Number(&b, "two", 2);
  Pack(&b, "multiples", {"three", "two"});
  b.Add("doubled", "Mul", {"multiples", "shape"}, {Type("T", DT_INT32)});
  b.Float("tiled", "Tile", {"x", "doubled"}, {Type("Tmultiples", DT_INT32)});
  ShapeOf(&b, "tiled_shape", "tiled");
  b.Constant("row", {6 * 3});
  ShapeOf(&b, "row_shape", "row");
  b.Add("axes", "BroadcastGradientArgs", {"row_shape", "tiled_shape"}, {Type("T", DT_INT32)});
  b.Float("sum", "Sum", {"tiled", "axes"}, {Type("Tidx", DT_INT32)});
  for (const char* name : {"sum", "tiled"}) b.Fetch(name);
  Shapes shapes(b.item());
  EXPECT_EQ(shapes.Of("tiled"), (Dims{48, 18}));
  EXPECT_EQ(shapes.Of("axes"), (Dims{1}));
  EXPECT_EQ(shapes.Of("sum"), (Dims{18}));
}

TEST(ShapeValues, BroadcastsWithFloatsInBetween) {
  GraphBuilder b;
  b.Feed("x", {4, 10});
  ShapeOf(&b, "shape", "x");
  b.Add("floats", "Cast", {"shape"}, {Type("SrcT", DT_INT32), Type("DstT", DT_FLOAT)});
  b.Parse("half = Const[]; halved = Mul(floats, half)");
  b.Add("whole", "Cast", {"halved"}, {Type("SrcT", DT_FLOAT), Type("DstT", DT_INT32)});
  Fill(&b, "filled", "whole");
  b.Fetch("filled");
  EXPECT_EQ(Shapes(b.item()).Of("filled"), (Dims{2, 5}));
}

TEST(ShapeValues, OpsWithStateAreNotEvaluated) {
  GraphBuilder b;
  b.ShapeConstant("shape", {2});
  Number(&b, "least", 1);
  Number(&b, "most", 2);  // so that 1 is all that it can be
  b.Add("random", "RandomUniformInt", {"shape", "least", "most"}, {Type("T", DT_INT32), Type("Tout", DT_INT32)});
  Fill(&b, "filled", "random");
  b.Fetch("filled");
  Shapes shapes(b.item());
  EXPECT_EQ(shapes.values().evaluations(), 0);
  EXPECT_EQ(shapes.Of("filled"), (Dims{kAssumed, kAssumed}));
  EXPECT_EQ(shapes.Assumed("filled"), (std::vector<std::string>{"filled:0", "filled:1"}));
}

TEST(ShapeValues, LargeTensorsAreNotEvaluated) {
  for (const int count : {4096, 4097}) {
    GraphBuilder b;
    Number(&b, "none", 0);
    Number(&b, "count", count);
    Number(&b, "one", 1);
    b.Add("range", "Range", {"none", "count", "one"}, {Type("Tidx", DT_INT32)});
    b.ShapeConstant("axes", {0});
    b.Add("last", "Max", {"range", "axes"}, {Type("T", DT_INT32), Type("Tidx", DT_INT32)});
    Pack(&b, "shape", {"last"});
    Fill(&b, "filled", "shape");
    b.Fetch("filled");
    EXPECT_EQ(Shapes(b.item()).Of("filled"), count == 4096 ? (Dims{4095}) : (Dims{kAssumed}));
  }
}

// 2^40 numbers, of which no memory must be asked for.
TEST(ShapeValues, WhatWouldBeLargeIsRefusedBeforeItIsMade) {
  GraphBuilder b;
  Number(&b, "million", 1 << 20);
  Pack(&b, "shape", {"million", "million"});
  Number(&b, "two", 2);
  b.Add("filled", "Fill", {"shape", "two"}, {Type("T", DT_INT32), Type("index_type", DT_INT32)});
  b.ShapeConstant("axes", {0, 1});
  b.Add("sum", "Max", {"filled", "axes"}, {Type("T", DT_INT32), Type("Tidx", DT_INT32)});
  Pack(&b, "new", {"sum"});
  Fill(&b, "result", "new");
  b.Fetch("result");
  EXPECT_EQ(Shapes(b.item()).Of("result"), (Dims{kAssumed}));
}

TEST(ShapeValues, AnErrorOfAKernelDoesNoHarm) {
  GraphBuilder b;
  b.Parse("six{6}; none{0}");
  b.Add("divided", "FloorDiv", {"six", "none"}, {Type("T", DT_INT32)});
  Fill(&b, "filled", "divided");
  b.Parse("tanh = Tanh(filled); fetch tanh");
  Shapes shapes(b.item());
  EXPECT_GT(shapes.values().evaluations(), 0);
  EXPECT_EQ(shapes.Of("tanh"), (Dims{kAssumed}));
}

TEST(ShapeValues, AnOpWithoutACpuKernelDoesNoHarm) {
  GraphBuilder b;
  b.ShapeConstant("six", {6});
  b.Add("seven", "LmsTestNoKernel", {"six"});
  Fill(&b, "filled", "seven");
  b.Fetch("filled");
  EXPECT_EQ(Shapes(b.item()).Of("filled"), (Dims{kAssumed}));
}

// A condition in whose branches sizes are computed: what comes out is as large as the larger.
TEST(ShapeValues, EachDeviceOfAGroupGivesAsManyRows) {
  GraphBuilder b;
  b.Parse("x[3, 4]; key{1}");
  Attr five{"value", {}};
  five.second.mutable_tensor()->set_dtype(DT_INT32);
  five.second.mutable_tensor()->mutable_tensor_shape();
  five.second.mutable_tensor()->add_int_val(5);
  b.Add("devices", "Const", {}, {Type("dtype", DT_INT32), five});
  b.Float("gathered", "CollectiveGatherV2", {"x", "devices", "key", "key"}, {Int("Nordering_token", 0)});
  b.Parse("next = Exp(gathered); fetch next");
  const Shapes shapes(b.item());
  EXPECT_EQ(shapes.Of("gathered"), (Dims{15, 4}));
  EXPECT_EQ(shapes.Of("next"), (Dims{15, 4}));
}

TEST(ShapeValues, InBranches) {
  GraphBuilder b;
  b.Feed("x", {8, 5, 6});
  b.Constant("which", {}, DT_BOOL);
  b.Float("switched", "Switch", {"x", "which"});
  Rows(&b, "rows", "switched:1");
  ShapeOf(&b, "other_shape", "switched");
  Gather(&b, "last", "other_shape", {0, 2});
  Fill(&b, "other", "last");
  b.Parse("merged = Merge(rows, other); tanh = Tanh(merged); fetch tanh");
  Shapes shapes(b.item());
  EXPECT_EQ(shapes.Of("rows"), (Dims{40, 6}));
  EXPECT_EQ(shapes.Of("other"), (Dims{8, 6}));
  EXPECT_EQ(shapes.Of("tanh"), (Dims{40, 6}));
  EXPECT_TRUE(shapes.Assumed("tanh").empty());
}

// A branch hands what it has computed to its gradient as an optional.
TEST(ShapeValues, WhatAnOptionalHolds) {
  GraphBuilder b;
  b.Feed("x", {8, 5, 6});
  b.Constant("which", {}, DT_BOOL);
  b.Float("switched", "Switch", {"x", "which"});
  Rows(&b, "rows", "switched:1");
  b.Add("some", "OptionalFromValue", {"rows"}, {Types("Toutput_types", {DT_FLOAT})});
  b.Add("none", "OptionalNone", {});
  b.Add("merged", "Merge", {"none", "some"}, {Type("T", tensorflow::DT_VARIANT), Int("N", 2)});
  Attr open{"output_shapes", {}};
  *open.second.mutable_list()->add_shape() = testing::Shape("", {-1, 6}).second.shape();
  b.Add("value", "OptionalGetValue", {"merged"}, {Types("output_types", {DT_FLOAT}), open});
  b.Fetch("value");
  EXPECT_EQ(Shapes(b.item()).Of("value"), (Dims{40, 6}));
}

// A loop whose counter goes from 1 by 1, with a variable that `body` makes of itself ("in" to "out"), and `shape`,
// which every iteration hands on as it is.
class Loop {
 public:
  explicit Loop(GraphBuilder* b) : b_(*b) {
    Number(&b_, "start", 1);
    Number(&b_, "bound", 5);
    Variable("i", "start", DT_INT32);
    Enter("limit", "bound", DT_INT32, true);
    b_.Add("less", "Less", {"i_merge", "limit"}, {Type("T", DT_INT32)});
    b_.Add("cond", "LoopCond", {"less"});
    Body("i", DT_INT32);
    Number(&b_, "one", 1);
    b_.item().graph.mutable_node(b_.item().graph.node_size() - 1)->add_input("^i");
    b_.Add("i_more", "AddV2", {"i", "one"}, {Type("T", DT_INT32)});
    Back("i", "i_more", DT_INT32);
  }
  void Enter(const std::string& name, const std::string& from, tensorflow::DataType type, bool constant) {
    b_.Add(name, "Enter", {from}, {Type("T", type), Text("frame_name", "loop"), Bool("is_constant", constant)});
  }
  void Variable(const std::string& name, const std::string& from, tensorflow::DataType type) {
    Enter(name + "_enter", from, type, false);
    b_.Add(name + "_merge", "Merge", {name + "_enter", name + "_next"}, {Type("T", type), Int("N", 2)});
  }
  void Body(const std::string& name, tensorflow::DataType type) {
    b_.Add(name + "_switch", "Switch", {name + "_merge", "cond"}, {Type("T", type)});
    b_.Add(name, "Identity", {name + "_switch:1"}, {Type("T", type)});
    b_.Add(name + "_exit", "Exit", {name + "_switch"}, {Type("T", type)});
    b_.Fetch(name + "_exit");
  }
  void Back(const std::string& name, const std::string& from, tensorflow::DataType type) {
    b_.Add(name + "_next", "NextIteration", {from}, {Type("T", type)});
  }

 private:
  GraphBuilder& b_;
};

TEST(ShapeValues, WhatALoopChangesIsNoConstant) {
  GraphBuilder b;
  Loop loop(&b);
  Pack(&b, "size", {"i"});  // 1, then 2, ...
  Fill(&b, "filled", "size");
  b.Add("doubled", "AddV2", {"filled", "filled"}, {Float32()});
  b.Fetch("doubled");
  Shapes shapes(b.item());
  EXPECT_EQ(shapes.Of("filled"), (Dims{kAssumed}));
  EXPECT_EQ(shapes.Assumed("doubled"), std::vector<std::string>{"filled:0"});
  EXPECT_FALSE(shapes.values().ScalarOf("i", 0).has_value());
  EXPECT_FALSE(shapes.values().ScalarOf("i_exit", 0).has_value());
  EXPECT_EQ(shapes.values().ScalarOf("limit", 0), 5);
}

TEST(ShapeValues, WhatALoopHandsOnAsItIsIsOne) {
  GraphBuilder b;
  b.Feed("x", {8, 5});
  ShapeOf(&b, "outside", "x");
  Loop loop(&b);
  loop.Variable("shape", "outside", DT_INT32);
  loop.Body("shape", DT_INT32);
  loop.Back("shape", "shape", DT_INT32);
  Fill(&b, "filled", "shape");
  b.Fetch("filled");
  EXPECT_EQ(Shapes(b.item()).Of("filled"), (Dims{8, 5}));
}

// A loop's variable begins with a shape that is computed: it keeps it, or, where each iteration adds a row, it does
// not.
TEST(ShapeValues, TheShapeOfALoopsVariable) {
  for (const bool grows : {false, true}) {
    GraphBuilder b;
    b.Feed("x", {8, 5, 6});
    Rows(&b, "rows", "x");  // [40, 6]
    Loop loop(&b);
    loop.Variable("y", "rows", DT_FLOAT);
    loop.Body("y", DT_FLOAT);
    b.Constant("row", {1, 6});
    loop.Enter("row_inside", "row", DT_FLOAT, true);
    Number(&b, "axis", 0);
    loop.Enter("axis_inside", "axis", DT_INT32, true);
    b.Add("longer", "ConcatV2", {"y", "row_inside", "axis_inside"}, {Float32(), Int("N", 2), Type("Tidx", DT_INT32)});
    b.Float("tanh", "Tanh", {grows ? "longer" : "y"});
    loop.Back("y", "tanh", DT_FLOAT);
    Shapes shapes(b.item());
    EXPECT_EQ(shapes.Of("rows"), (Dims{40, 6}));
    EXPECT_EQ(shapes.Of("y"), grows ? (Dims{kAssumed, 6}) : (Dims{40, 6})) << grows;
    EXPECT_EQ(shapes.Assumed("y").empty(), !grows);
    if (grows) {
      EXPECT_EQ(shapes.Of("longer"), (Dims{kAssumed + 1, 6}));
    }
  }
}

// x [?, 6] is taken for [32, 6]: so is what follows, products included. What does not depend on it is known.
TEST(ShapeValues, WhatRestsOnAnAssumptionIsKnown) {
  GraphBuilder b;
  b.Feed("x", {-1, 6});
  ShapeOf(&b, "shape", "x");
  Product(&b, "elements", "shape");
  Pack(&b, "flat", {"elements"});
  Reshape(&b, "line", "x", "flat");
  b.Parse("w = Const[6, 3]; product = MatMul(x, w)");
  b.Float("gradient", "MatMul", {"x", "product"}, {Bool("transpose_a", true)});
  b.Feed("mask", {10});
  b.Add("where", "Where", {"mask"}, {Float32()});
  for (const char* name : {"line", "gradient", "where"}) b.Fetch(name);
  Shapes shapes(b.item());
  EXPECT_EQ(shapes.Of("line"), Dims{kAssumed * 6});
  EXPECT_EQ(shapes.Assumed("line"), std::vector<std::string>{"x:0"});
  EXPECT_EQ(shapes.Of("product"), (Dims{kAssumed, 3}));
  EXPECT_EQ(shapes.Assumed("product"), std::vector<std::string>{"x:0"});
  EXPECT_EQ(shapes.Of("gradient"), (Dims{6, 3}));
  EXPECT_TRUE(shapes.Assumed("gradient").empty());
  EXPECT_EQ(shapes.Of("where"), (Dims{kAssumed, 1}));
  EXPECT_EQ(shapes.Assumed("where"), std::vector<std::string>{"where:0"});
}

// A chain of 20,000 ops on one number: no deep recursion.
TEST(ShapeValues, LongChains) {
  GraphBuilder b;
  Number(&b, "n0", 7);
  constexpr int kOps = 20000;
  for (int i = 1; i <= kOps; ++i) {
    b.Add("n" + std::to_string(i), "Identity", {"n" + std::to_string(i - 1)}, {Type("T", DT_INT32)});
  }
  Pack(&b, "shape", {"n" + std::to_string(kOps)});
  Fill(&b, "filled", "shape");
  b.Fetch("filled");
  EXPECT_EQ(Shapes(b.item()).Of("filled"), Dims{7});
}

}  // namespace
}  // namespace lms
