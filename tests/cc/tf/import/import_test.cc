#include "cc/tf/import/import.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tensorflow/core/util/util.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using testing::Float32;
using testing::GraphBuilder;
using testing::Imported;
using testing::Int;
using testing::kTile;

// ---- Buffers ----

TEST(Import, ATrainingStep) {
  const Imported step(testing::TrainChain(2));
  EXPECT_EQ(step.imported().device, testing::kCpu);
  // Activations: a tile each, made by their op, evictable.
  const MemBuffer& y = step.Buffer("tanh_0");
  EXPECT_EQ(y.bytes, kTile);
  EXPECT_EQ(y.producer, step.OpOf("tanh_0"));
  EXPECT_EQ(y.name, "tanh_0:0");
  EXPECT_TRUE(y.evictable);
  EXPECT_FALSE(y.resident);
  EXPECT_FALSE(y.escapes);
  EXPECT_TRUE(step.Op("tanh_0").recomputable);
  EXPECT_TRUE(step.Op("tanh_0").anchor);
  // What is fed is there all the time.
  EXPECT_TRUE(step.Buffer("x").resident);
  EXPECT_FALSE(step.Buffer("x").evictable);
  // Ops are in execution order: what an op waits for comes first.
  for (OpId i = 0; i < static_cast<OpId>(step.graph().ops.size()); ++i) {
    for (const OpId dep : step.graph().ops[i].deps) EXPECT_LT(dep, i);
  }
  EXPECT_EQ(step.graph().Validate(), "");
}

// oneDNN makes one node of the two, after the rewrite: an edge from one of them to the other would be a cycle.
TEST(Import, TheGradientOfABiasEndsWithThatOfItsFilter) {
  GraphBuilder b;
  b.Parse(
      "x[2, 8, 8, 4]; gradient[2, 8, 8, 4]; sizes{1, 1, 4, 4}; dy = Neg(gradient); bias = BiasAddGrad(dy); "
      "other = Neg(bias)");
  testing::Attr strides{"strides", {}};
  for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
  b.Float("filter", "Conv2DBackpropFilter", {"x", "sizes", "dy"}, {strides, testing::Text("padding", "SAME")});
  b.Parse("fetch other, filter");
  const Imported step(b.item());
  const bool fused = tensorflow::IsMKLEnabled();
  EXPECT_EQ(step.Op("bias").anchor, !fused);
  EXPECT_EQ(step.Op("bias").recomputable, !fused);
  EXPECT_TRUE(step.Op("filter").anchor);
  const std::vector<OpId>& deps = step.Op("other").deps;
  EXPECT_EQ(std::count(deps.begin(), deps.end(), step.OpOf("filter")), fused ? 1 : 0);
}

// Where several filters' gradients read the tensor, as those of convolutions that are added up do, it may be any of
// them.
TEST(Import, TheGradientOfABiasMayEndWithAnyOfSeveralFilters) {
  for (const bool cycle : {false, true}) {
    GraphBuilder b;
    b.Parse(
        "x[2, 8, 8, 4]; gradient[2, 8, 8, 4]; sizes{1, 1, 4, 4}; dy = Neg(gradient); bias = BiasAddGrad(dy); "
        "other = Neg(bias)");
    testing::Attr strides{"strides", {}};
    for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
    const std::string last = cycle ? "^other" : "^dy";  // what the first of the filters waits for
    b.Float("first", "Conv2DBackpropFilter", {"x", "sizes", "dy", last}, {strides, testing::Text("padding", "SAME")});
    b.Float("second", "Conv2DBackpropFilter", {"x", "sizes", "dy"}, {strides, testing::Text("padding", "VALID")});
    for (const char* result : {"other", "first", "second"}) b.Fetch(result);
    const Imported step(b.item());
    const bool fused = tensorflow::IsMKLEnabled();
    const std::vector<OpId>& deps = step.Op("other").deps;
    EXPECT_EQ(std::count(deps.begin(), deps.end(), step.OpOf("second")), fused ? 1 : 0);
    EXPECT_EQ(std::count(deps.begin(), deps.end(), step.OpOf("first")), fused && !cycle ? 1 : 0);
  }
}

TEST(Import, AVariableIsOneResidentBufferWithItsReads) {
  const Imported step(testing::TrainChain(2));
  const MemBuffer& w = step.Buffer("read_0");
  EXPECT_EQ(step.BufferIdOf("read_0"), step.BufferIdOf("w_0"));
  EXPECT_NE(step.BufferIdOf("read_0"), step.BufferIdOf("read_1"));
  EXPECT_TRUE(w.resident);
  EXPECT_EQ(w.bytes, 64 * 64 * 4);
  EXPECT_EQ(w.overwritten_by, std::vector<OpId>{step.OpOf("update_0")});
  EXPECT_TRUE(step.Reads("matmul_0", "w_0"));
  EXPECT_TRUE(step.Op("matmul_0").recomputable);
  EXPECT_FALSE(step.Op("read_0").recomputable);
}

TEST(Import, AGatherReadsAVariableWithoutChangingIt) {
  GraphBuilder b;
  b.Parse("table = VarHandleOp[100, 64]; ids{3, 4, 5}");
  b.Add("rows", "ResourceGather", {"table", "ids"}, {Float32("dtype"), testing::Type("Tindices", DT_INT32)});
  b.Parse("read = ReadVariableOp(table); y = Relu(read); fetch rows, y");
  const Imported graph(b.item());
  EXPECT_TRUE(graph.Buffer("table").overwritten_by.empty());
  EXPECT_NE(graph.BufferIdOf("rows"), graph.BufferIdOf("table"));
}

TEST(Import, ViewsShareABufferAndAreReadThrough) {
  GraphBuilder b;
  b.Parse("x[256, 64]; y = Relu(x); same = Identity(y); shape{64, 256}");
  b.Float("flat", "Reshape", {"same", "shape"}, {testing::Type("Tshape", DT_INT32)});
  b.Add("pair", "IdentityN", {"x", "flat"}, {testing::Types("T", {DT_FLOAT, DT_FLOAT})});
  b.Parse("z = Tanh(pair:1); fetch z");
  const Imported graph(b.item());
  EXPECT_EQ(graph.BufferIdOf("same"), graph.BufferIdOf("y"));
  EXPECT_EQ(graph.BufferIdOf("flat"), graph.BufferIdOf("y"));
  EXPECT_EQ(graph.BufferIdOf("pair", 0), graph.BufferIdOf("x"));
  EXPECT_EQ(graph.BufferIdOf("pair", 1), graph.BufferIdOf("y"));
  EXPECT_TRUE(graph.Reads("z", "y"));
  EXPECT_FALSE(graph.Reads("same", "y"));
  EXPECT_FALSE(graph.Reads("flat", "y"));
  EXPECT_TRUE(graph.Reads("flat", "shape"));
  EXPECT_TRUE(graph.Buffer("y").evictable);
}

TEST(Import, StorageMayBeTakenOverByElementwiseOpsOnly) {
  GraphBuilder b;
  b.Parse("x[64, 64]; y = Relu(x); of_feed = Tanh(x); sum = AddV2(y, of_feed); product = MatMul(sum, sum)");
  b.Float("twice", "Mul", {"product", "product"});  // two holders of one tensor: neither gives it up
  b.Parse("thrice = AddN(twice, twice, twice); fetch thrice");
  const Imported graph(b.item());
  EXPECT_FALSE(graph.MayForward("of_feed", "x"));
  EXPECT_TRUE(graph.MayForward("sum", "y"));
  EXPECT_TRUE(graph.MayForward("sum", "of_feed"));
  EXPECT_FALSE(graph.MayForward("product", "sum"));
  EXPECT_FALSE(graph.MayForward("twice", "product"));
  EXPECT_FALSE(graph.MayForward("thrice", "twice"));
  EXPECT_EQ(graph.Op("twice").inputs.size(), 1u);
}

TEST(Import, AReferenceVariableIsCountedOnceThroughItsUpdates) {
  GraphBuilder b;
  b.Add("w", "VariableV2", {}, {Float32("dtype"), testing::Shape("shape", {256, 64})});
  b.Parse(
      "x[256, 64]; rate = Const[]; apply = ApplyGradientDescent(w, rate, x); again = AssignAdd(apply, x); "
      "fetch again");
  const Imported graph(b.item());
  EXPECT_EQ(graph.BufferIdOf("apply"), graph.BufferIdOf("w"));
  EXPECT_EQ(graph.BufferIdOf("again"), graph.BufferIdOf("w"));
  // w, what is fed, and the rate's four bytes.
  EXPECT_EQ(graph.graph().ResidentBytes(), 2 * kTile + 4);
}

TEST(Import, UnknownDimensionsAreBoundAndNoted) {
  GraphBuilder b;
  b.Feed("x", {-1, 64});
  b.Parse("y = Relu(x); z = Tanh(y); fetch z");
  const Imported graph(b.item());
  EXPECT_EQ(graph.Buffer("y").bytes, 32 * 64 * 4);  // the helper binds them to 32
  EXPECT_TRUE(graph.Buffer("y").evictable);
  for (const char* name : {"y", "z"}) {
    EXPECT_NE(graph.imported().assumptions_of_buffer[graph.BufferIdOf(name)], 0u) << name;
  }
}

TEST(Import, EmptyTensorsTakeNothing) {
  GraphBuilder b;
  b.Parse("x[0, 64]; y = Relu(x); fetch y");
  const Imported graph(b.item());
  EXPECT_EQ(graph.Buffer("y").bytes, 0);
}

TEST(Import, HalfPrecisionTakesHalf) {
  GraphBuilder b;
  b.Add("x", "Placeholder", {}, {testing::Type("dtype", tensorflow::DT_BFLOAT16), testing::Shape("shape", {256, 64})});
  b.Add("y", "Relu", {"x"}, {testing::Type("T", tensorflow::DT_BFLOAT16)});
  b.Fetch("y");
  EXPECT_EQ(Imported(b.item()).Buffer("y").bytes, kTile / 2);
}

// ---- Loops ----

// Two updates: what is read between them is overwritten by the second one alone, and nothing by the first.
TEST(Import, WhatAVariableHoldsAfterAnUpdateIsAVersionOfItsOwn) {
  GraphBuilder b;
  b.Parse(
      "x[8, 8]; w = VarHandleOp[8, 8]; before = ReadVariableOp(w); y = MatMul(x, before); "
      "first = AssignSubVariableOp(w, y, ^before); between = ReadVariableOp(w, ^first); view = Identity(between); "
      "z = MatMul(x, view); both = MatMul(before, between); value = AddV2(z, both); "
      "second = AssignSubVariableOp(w, value, ^between)");
  b.Add("end", "NoOp", {"^second"});
  b.Fetch("end");
  const Imported graph(b.item());
  const OpId first = graph.OpOf("first"), second = graph.OpOf("second");
  EXPECT_EQ(graph.Buffer("w").overwritten_by, (std::vector<OpId>{first, second}));
  EXPECT_TRUE(graph.Reads("y", "w"));
  EXPECT_TRUE(graph.Reads("both", "w"));  // the older one counts
  EXPECT_FALSE(graph.Reads("z", "w"));
  const std::vector<BufferId>& inputs = graph.Op("z").inputs;
  const auto version = std::find_if(inputs.begin(), inputs.end(),
                                    [&](BufferId i) { return graph.graph().buffers[i].name == "between:0"; });
  ASSERT_NE(version, inputs.end());
  EXPECT_EQ(graph.graph().buffers[*version].overwritten_by, std::vector<OpId>{second});
  EXPECT_EQ(graph.graph().buffers[*version].bytes, 0);
  EXPECT_TRUE(graph.graph().buffers[*version].resident);
}

// Two loop variables: a grows by b in each round, and b enters late. The first a could leave at once, the last cannot.
TEST(Import, WhatLeavesALoopComesAfterAllThatEntersIt) {
  GraphBuilder b;
  b.Parse("x[256, 64]; p = Placeholder; late_0 = Relu(x)");
  for (int i = 1; i < 8; ++i) b.Float("late_" + std::to_string(i), "Relu", {"late_" + std::to_string(i - 1)});
  const testing::Attr frame = testing::Text("frame_name", "loop");
  b.Add("enter_p", "Enter", {"p"}, {frame, testing::Type("T", DT_BOOL), testing::Bool("is_constant", true)});
  b.Add("cond", "LoopCond", {"enter_p"});
  for (const std::string v : {"_a", "_b"}) {
    b.Float("enter" + v, "Enter", {v == "_a" ? "x" : "late_7"}, {frame});
    b.Float("merge" + v, "Merge", {"enter" + v, "next" + v}, {testing::Int("N", 2)});
    b.Float("switch" + v, "Switch", {"merge" + v, "cond"});
    b.Float("next" + v, "NextIteration", {"body" + v});
  }
  b.Parse(
      "body_a = AddV2(switch_a:1, switch_b:1); body_b = Relu(switch_b:1); exit_a = Exit(switch_a); "
      "after = Relu(exit_a); fetch after");
  const Imported graph(b.item());
  for (const char* inside : {"late_7", "enter_b", "body_b", "body_a", "next_a"}) {
    EXPECT_LT(graph.OpOf(inside), graph.OpOf("exit_a")) << inside;
  }
}

TEST(Import, AResultIsNothingToWaitFor) {
  GraphBuilder b;
  b.Parse("x[256, 64]; y = Relu(x)");
  b.Float("result", "_Retval", {"y"}, {testing::Int("index", 0)});
  b.item().keep_ops.push_back("result");
  const Imported graph(b.item());
  EXPECT_TRUE(graph.Op("y").anchor);
  EXPECT_FALSE(graph.Op("result").anchor);
}

// ---- Unsound graphs ----

TEST(Import, RefusesACycle) {
  GraphBuilder b;
  b.Parse("a = Relu(b); b = Relu(a); fetch b");
  EXPECT_FALSE(Imported(b.item(), Imported::Unsound()).status().ok());
}

TEST(Import, RefusesAnOpThatNobodyKnows) {
  GraphBuilder b;
  b.Feed("x", {4});
  b.Float("y", "Relu", {"x"})->set_op("NoSuchOp");
  b.Fetch("y");
  EXPECT_FALSE(Imported(b.item(), Imported::Unsound()).status().ok());
}

// AddN adds up more than two terms in an order that depends on which of them it may overwrite.
TEST(Import, ASumWhoseFirstTermIsItsOwnGetsNoFurtherReaders) {
  GraphBuilder b;
  b.Parse(
      "x[64, 64]; a = Relu(x); b = Tanh(x); c = Exp(x); sum = AddN(a, b, c); other = AddV2(b, c); fetch sum, other");
  const Imported step(b.item());
  // Nobody else reads a, so it is the one that is overwritten, as long as that stays so.
  EXPECT_TRUE(step.Buffer("a").no_more_readers);
  EXPECT_FALSE(step.Buffer("b").no_more_readers);
  EXPECT_TRUE(step.Buffer("b").evictable);
  EXPECT_FALSE(step.Op("sum").recomputable);
}

// The first two are read elsewhere; or one stands there twice, which is not its own then.
TEST(Import, ASumWithoutATermOfItsOwnInFrontKeepsAllOfThem) {
  const std::vector<std::vector<std::string>> sums[] = {{{"a", "b", "c"}, {"a", "b"}},
                                                        {{"b", "a", "a", "c"}, {"b", "c"}}};
  for (const auto& sum : sums) {
    GraphBuilder b;
    b.Parse("x[64, 64]; a = Relu(x); b = Tanh(x); c = Exp(x)");
    b.Float("sum", "AddN", sum[0], {Int("N", static_cast<int64_t>(sum[0].size()))});
    b.Float("other", "AddV2", sum[1]);
    b.Parse("fetch sum, other");
    const Imported step(b.item());
    for (const char* term : {"a", "b", "c"}) {
      EXPECT_TRUE(step.Buffer(term).no_more_readers) << term;
      EXPECT_FALSE(step.Buffer(term).evictable) << term;
    }
  }
}

TEST(Import, ASumOfTwoIsTheSameEitherWay) {
  GraphBuilder b;
  b.Parse("x[64, 64]; a = Relu(x); b = Tanh(x); sum = AddN(a, b); fetch sum");
  const Imported step(b.item());
  EXPECT_FALSE(step.Buffer("a").no_more_readers);
  EXPECT_TRUE(step.Op("sum").recomputable);
}

TEST(Import, RefusesAnOutputThatIsNotThere) {
  GraphBuilder b;
  b.Parse("x[4]; y = Relu(x:3); fetch y");
  GraphIndex index;
  ASSERT_TRUE(index.Build(b.item()).ok());
  const TensorSizes none(b.item(), 1);  // shape inference would refuse it before
  ImportedGraph imported;
  EXPECT_EQ(ImportGraph(b.item(), index, none, &imported).message(), "y reads output 3 of x, which has fewer");
}

TEST(Import, RefusesAnInputTooFew) {
  GraphBuilder b;
  b.Parse("x[4]; y = AddV2(x); fetch y");
  GraphIndex index;
  ASSERT_TRUE(index.Build(b.item()).ok());
  const TensorSizes none(b.item(), 1);
  ImportedGraph imported;
  EXPECT_EQ(ImportGraph(b.item(), index, none, &imported).message(),
            "y has another number of inputs than its op takes");
}

}  // namespace
}  // namespace lms
