// Why a buffer may not be evicted: one test for each reason.

#include "cc/tf/import/keep_reasons.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using testing::Float32;
using testing::GraphBuilder;
using testing::Imported;
using testing::kTile;

// x (fed) -> y -> last, with `y` as told; the rest is well-behaved.
class KeptReason : public ::testing::Test {
 protected:
  KeptReason() { b_.Feed("x", {256, 64}); }
  void ReadY(const std::string& tensor = "y") {
    b_.Float("last", "Tanh", {tensor});
    b_.Fetch("last");
  }
  std::string Reason(const std::string& node = "y", int port = 0) {
    const Imported graph(b_.item());
    const MemBuffer& buffer = graph.Buffer(node, port);
    EXPECT_EQ(buffer.evictable, buffer.keep_reason.empty());
    return buffer.keep_reason;
  }
  GraphBuilder b_;
};

TEST_F(KeptReason, NoneForAPlainOp) {
  b_.Float("y", "Relu", {"x"});
  ReadY();
  EXPECT_EQ(Reason(), "");
}

// Not the input's own op: the sum's storage is that of its TemporaryVariable.
TEST_F(KeptReason, ReadsASumThatIsAddedUpInPlace) {
  const testing::Attr type = testing::Type("T", DT_FLOAT);
  const testing::Attr name = testing::Text("var_name", "s");
  b_.Add("variable", "TemporaryVariable", {},
         {testing::Type("dtype", DT_FLOAT), testing::Shape("shape", {256, 64}), name});
  b_.Add("zero", "ZerosLike", {"x"}, {type});
  b_.Add("start", "Assign", {"variable", "zero"}, {type});
  b_.Add("add", "AssignAdd", {"start", "x"}, {type});
  b_.Add("sum", "DestroyTemporaryVariable", {"add"}, {type, name});
  b_.Float("y", "Tanh", {"sum"});
  ReadY();
  EXPECT_EQ(Reason(), "part of a sum that is added up in place");
}

TEST_F(KeptReason, Resident) {
  b_.Constant("y", {256, 64});
  ReadY();
  EXPECT_EQ(Reason(), "present during the whole step");
}

// Before the first step TensorFlow puts a constant in its place; the one that it was made of goes.
TEST_F(KeptReason, ComputedFromConstants) {
  b_.Constant("c", {256, 64});
  b_.Parse("y = Neg(c); last = AddV2(x, y); fetch last");
  EXPECT_EQ(Reason(), "computed from constants once, and kept");
  const Imported graph(b_.item());
  EXPECT_TRUE(graph.Buffer("y").resident);
  EXPECT_EQ(graph.Buffer("y").bytes, kTile);
  EXPECT_EQ(graph.Buffer("c").bytes, 0);
  // Were a copy to wait for the op, it would stay and run in each step.
  EXPECT_FALSE(graph.Op("y").anchor);
  EXPECT_TRUE(graph.Op("last").anchor);
}

// Where somebody waits for "made" it runs in each step, although a constant is in its result's place: and "tiles",
// whose storage it takes over, with it.
TEST_F(KeptReason, ComputedFromConstantsAndInVain) {
  b_.Constant("c", {256, 64});
  b_.Parse("tiles = Neg(c); made = Exp(tiles); late = Relu(x, ^made); last = AddV2(late, made); fetch last");
  EXPECT_EQ(Reason("made"), "computed from constants once, and kept");
  const Imported graph(b_.item());
  EXPECT_TRUE(graph.Buffer("made").resident);
  EXPECT_EQ(graph.Buffer("made").bytes, kTile);
  EXPECT_EQ(graph.Buffer("c").bytes, kTile);
  EXPECT_FALSE(graph.Buffer("tiles").resident);
  EXPECT_EQ(graph.Buffer("tiles").bytes, kTile);
  EXPECT_TRUE(graph.Reads("made", "tiles"));
  EXPECT_EQ(graph.Op("made").workspace_bytes, 0);
  for (const char* op : {"tiles", "made"}) EXPECT_TRUE(graph.Op(op).anchor) << op;
}

TEST_F(KeptReason, WhatRunsInVainNeedsRoomForItsResult) {
  b_.Constant("c", {256, 64});
  b_.Parse("made = Neg(c); late = Relu(x, ^made); last = AddV2(late, made); fetch last");
  EXPECT_EQ(Imported(b_.item()).Op("made").workspace_bytes, kTile);
}

TEST_F(KeptReason, ALargeConstantIsNotComputedBeforehand) {
  b_.Constant("c", {256, 64 * 256});
  b_.Parse("y = Neg(c)");
  ReadY();
  EXPECT_EQ(Reason(), "");
  EXPECT_FALSE(Imported(b_.item()).Buffer("y").resident);
}

TEST_F(KeptReason, Fetched) {
  b_.Float("y", "Relu", {"x"});
  ReadY();
  b_.Fetch("y");
  EXPECT_EQ(Reason(), "returned or preserved by name");
}

TEST_F(KeptReason, FetchedThroughAView) {
  b_.Parse("y = Relu(x); same = Identity(y)");
  ReadY();
  b_.Fetch("same");
  EXPECT_EQ(Reason(), "returned or preserved by name");
  EXPECT_TRUE(Imported(b_.item()).Buffer("y").escapes);
}

TEST_F(KeptReason, Returned) {
  b_.Float("y", "Relu", {"x"});
  ReadY();
  b_.Float("result", "_Retval", {"y"}, {testing::Int("index", 0)});
  b_.item().keep_ops.push_back("result");
  const Imported graph(b_.item());
  EXPECT_EQ(graph.Buffer("y").keep_reason, "returned or preserved by name");
  EXPECT_TRUE(graph.Buffer("y").escapes);
  EXPECT_EQ(Reason("last"), "returned or preserved by name");
}

TEST_F(KeptReason, FedInTheMiddle) {
  b_.Parse("y = Relu(x); z = Relu(y)");
  ReadY("z");
  b_.item().feed.emplace_back("z", tensorflow::Tensor());
  EXPECT_EQ(Reason("z"), "returned or preserved by name");
}

TEST_F(KeptReason, KeptByName) {
  b_.Float("y", "Relu", {"x"});
  ReadY();
  b_.item().keep_ops.push_back("y");
  EXPECT_EQ(Reason(), "returned or preserved by name");
  // It is not renamed, but nobody holds what it makes to the end of the step.
  EXPECT_FALSE(Imported(b_.item()).Buffer("y").escapes);
}

TEST_F(KeptReason, Stateful) {
  b_.ShapeConstant("shape", {256, 64});
  b_.Add("y", "RandomUniform", {"shape"}, {Float32("dtype"), testing::Type("T", DT_INT32)});
  ReadY();
  EXPECT_EQ(Reason(), "stateful op (RandomUniform)");
  // It stays until its last reader, not to the end of the step, though Grappler lists it among the nodes to preserve.
  const Imported graph(b_.item());
  EXPECT_FALSE(graph.Buffer("y").escapes);
  EXPECT_EQ(graph.item().NodesToPreserve().count("y"), 1u);
}

TEST_F(KeptReason, RandomWithoutSayingSo) {
  b_.Feed("image", {4, 64, 64, 3});
  testing::Attr ratio{"pooling_ratio", {}};
  for (const float r : {1.0F, 1.44F, 1.73F, 1.0F}) ratio.second.mutable_list()->add_f(r);
  b_.Float("y", "FractionalMaxPool", {"image"}, {ratio});
  ReadY();
  EXPECT_EQ(Reason(), "random op (FractionalMaxPool)");
}

TEST_F(KeptReason, StatelessRandomIsNone) {
  b_.Parse("shape{256, 64}");
  b_.Add("seed", "Placeholder", {}, {testing::Type("dtype", DT_INT32), testing::Shape("shape", {2})});
  b_.Add("y", "StatelessRandomUniform", {"shape", "seed"},
         {Float32("dtype"), testing::Type("T", DT_INT32), testing::Type("Tseed", DT_INT32)});
  ReadY();
  EXPECT_EQ(Reason(), "");
}

TEST_F(KeptReason, SizeUnknown) {
  b_.Add("any", "Placeholder", {}, {Float32("dtype")})
      ->mutable_attr()
      ->at("shape")
      .mutable_shape()
      ->set_unknown_rank(true);
  b_.Float("y", "Relu", {"any"});
  ReadY();
  EXPECT_EQ(Reason(), "size unknown");
}

TEST_F(KeptReason, OnAnotherDevice) {
  // x, y and last outweigh the others: their device is the one planned.
  b_.Parse("y = Relu(x); small[4]");
  b_.Float("other", "Relu", {"small"})->set_device(testing::kOtherCpu);
  b_.Float("sink", "Relu", {"other"})->set_device(testing::kOtherCpu);
  b_.Fetch("sink");
  ReadY();
  const Imported graph(b_.item());
  EXPECT_FALSE(graph.Buffer("other").evictable);
  EXPECT_EQ(graph.Buffer("other").bytes, 0);
  EXPECT_EQ(graph.Op("other").keep_reason, "on another device");
  EXPECT_EQ(Reason("y"), "");
}

// Replicas have variables of their own: none is resident where another runs.
TEST_F(KeptReason, AVariableOfAnotherDevice) {
  b_.Parse("y = Relu(x); w = VarHandleOp[64, 64]; read = ReadVariableOp(w); sink = L2Loss(read)");
  const int nodes = b_.item().graph.node_size();
  for (int i = nodes - 3; i < nodes; ++i) b_.item().graph.mutable_node(i)->set_device(testing::kOtherCpu);
  b_.Fetch("sink");
  ReadY();
  const Imported graph(b_.item());
  EXPECT_EQ(graph.Buffer("w").bytes, 0);
  EXPECT_EQ(graph.graph().ResidentBytes(), graph.Buffer("x").bytes);
}

TEST_F(KeptReason, ReadOnAnotherDevice) {
  b_.Float("y", "Relu", {"x"});
  b_.Float("scalar", "L2Loss", {"y"})->set_device(testing::kOtherCpu);
  b_.Fetch("scalar");
  ReadY();
  EXPECT_EQ(Reason(), "used inside control flow or on another device");
}

TEST_F(KeptReason, ComputedFromAnotherDevice) {
  b_.Feed("small", {64});
  b_.item().graph.mutable_node(b_.item().graph.node_size() - 1)->set_device(testing::kOtherCpu);
  b_.Float("y", "BiasAdd", {"x", "small"});
  ReadY();
  EXPECT_EQ(Reason(), "reads from another device");
}

TEST_F(KeptReason, NoPlainType) {
  b_.Add("y", "AsString", {"x"}, {Float32()});
  b_.Add("last", "StringLength", {"y"});
  b_.Fetch("last");
  EXPECT_EQ(Reason(), "type string");
}

TEST_F(KeptReason, MadeOfNoPlainType) {
  b_.Add("text", "AsString", {"x"}, {Float32()});
  b_.Add("y", "StringLength", {"text"});
  b_.Add("last", "BitwiseAnd", {"y", "y"}, {testing::Type("T", DT_INT32)});
  b_.Fetch("last");
  EXPECT_EQ(Reason(), "reads type string");
}

TEST_F(KeptReason, InABranch) {
  b_.Parse(
      "p = Placeholder; before = Relu(x); switch = Switch(before, p); y = Relu(switch:1); merge = Merge(switch, y)");
  ReadY("merge");
  EXPECT_EQ(Reason("y"), "used inside control flow or on another device");
  EXPECT_EQ(Reason("before"), "used inside control flow or on another device");
  const Imported graph(b_.item());
  EXPECT_EQ(graph.Op("y").keep_reason, "inside a branch");
  EXPECT_FALSE(graph.Op("y").anchor);
  EXPECT_TRUE(graph.Op("last").anchor);
}

TEST_F(KeptReason, ReadThroughAnOpWithAnEffect) {
  b_.Float("y", "Relu", {"x"});
  b_.Float("checked", "CheckNumerics", {"y"}, {testing::Text("message", "bad")});
  ReadY("checked");
  EXPECT_EQ(Reason(), "read through CheckNumerics: an input, output or marker of the step");
}

TEST_F(KeptReason, ChangedInPlace) {
  b_.Parse("y = Relu(x); rows{0}; row[1, 64]; added = InplaceAdd(y, rows, row)");
  ReadY("added");
  EXPECT_EQ(Reason(), "changed in place by InplaceAdd");
  const Imported graph(b_.item());
  EXPECT_EQ(graph.BufferIdOf("added"), graph.BufferIdOf("y"));
  EXPECT_EQ(graph.Buffer("y").overwritten_by, std::vector<OpId>{graph.OpOf("added")});
  EXPECT_FALSE(graph.Op("added").recomputable);
}

TEST_F(KeptReason, ReadsAReferenceVariable) {
  b_.Add("w", "VariableV2", {}, {Float32("dtype"), testing::Shape("shape", {256, 64})});
  b_.Parse("read = Identity(w); y = AddV2(x, read)");
  ReadY();
  EXPECT_EQ(Reason(), "reads a reference variable");
}

// w is read before a loop whose body changes it; `before`: and which waits for another change of it, before the read.
void ChangeInLoop(GraphBuilder* graph, bool before) {
  GraphBuilder& b = *graph;
  b.Parse("x[256, 64]; w = VarHandleOp[256, 64]; z = Relu(x); p = Placeholder");
  if (before) b.Add("first", "AssignSubVariableOp", {"w", "x"}, {testing::Type("dtype", DT_FLOAT)});
  const std::vector<std::string> after = before ? std::vector<std::string>{"^first"} : std::vector<std::string>();
  const auto with = [&after](std::vector<std::string> inputs) {
    inputs.insert(inputs.end(), after.begin(), after.end());
    return inputs;
  };
  b.Add("read", "ReadVariableOp", with({"w"}), {testing::Type("dtype", DT_FLOAT)});
  b.Parse("y = AddV2(x, read)");
  const testing::Attr frame = testing::Text("frame_name", "loop");
  b.Add("enter_w", "Enter", {"w"},
        {frame, testing::Type("T", tensorflow::DT_RESOURCE), testing::Bool("is_constant", true)});
  b.Float("enter", "Enter", {"z"}, {frame});
  b.Add("enter_p", "Enter", with({"p"}), {frame, testing::Type("T", DT_BOOL), testing::Bool("is_constant", true)});
  b.Float("merge", "Merge", {"enter", "next"}, {testing::Int("N", 2)});
  b.Add("cond", "LoopCond", {"enter_p"});
  b.Parse(
      "switch = Switch(merge, cond); body = Relu(switch:1); update = AssignSubVariableOp(enter_w, body); "
      "next = NextIteration(body); exit = Exit(switch); last = AddV2(y, exit); fetch last");
}

TEST(Import, NothingIsRecomputedFromAVariableThatALoopChanges) {
  GraphBuilder b;
  ChangeInLoop(&b, /*before=*/false);
  const Imported graph(b.item());
  EXPECT_EQ(graph.Op("y").keep_reason, "reads a variable that a loop changes");
  EXPECT_EQ(graph.Op("body").keep_reason, "inside a loop");
  EXPECT_EQ(graph.Buffer("z").keep_reason, "used inside control flow or on another device");
  EXPECT_FALSE(graph.Op("body").anchor);
  EXPECT_LT(graph.OpOf("body"), graph.OpOf("last"));
}

TEST(Import, WhatWasReadAfterAnotherChangeIsNotRecomputedEither) {
  GraphBuilder b;
  ChangeInLoop(&b, /*before=*/true);
  const Imported graph(b.item());
  EXPECT_EQ(graph.Op("y").keep_reason, "reads a variable that a loop changes");
}

}  // namespace
}  // namespace lms
