#include "cc/tf/sizes/row_slices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/core/simulate/liveness.h"
#include "cc/tf/rewrite/rewrite.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::Attr;
using testing::Dims;
using testing::FindNode;
using testing::GraphBuilder;
using testing::HasInput;
using testing::Imported;
using testing::Int;
using testing::Type;

constexpr tensorflow::DataType kInt = tensorflow::DT_INT32;

void Whole(GraphBuilder* b, const Dims& dims) {
  b->Feed("x", dims);
  b->Float("whole", "Exp", {"x"});
}

void AddSlice(GraphBuilder* b, const std::vector<int>& begin, const std::vector<int>& size) {
  b->ShapeConstant("begin", begin);
  b->ShapeConstant("size", size);
  b->Float("part", "Slice", {"whole", "begin", "size"}, {Type("Index", kInt)});
}

void AddStridedSlice(GraphBuilder* b, const std::vector<int>& begin, const std::vector<int>& end,
                     const std::vector<int>& strides, const std::vector<Attr>& masks = {}) {
  b->ShapeConstant("begin", begin);
  b->ShapeConstant("end", end);
  b->ShapeConstant("strides", strides);
  std::vector<Attr> attrs = masks;
  attrs.push_back(Type("Index", kInt));
  b->Float("part", "StridedSlice", {"whole", "begin", "end", "strides"}, attrs);
}

void AddSplit(GraphBuilder* b, int axis, int parts) {
  Attr value{"value", {}};
  value.second.mutable_tensor()->set_dtype(kInt);
  value.second.mutable_tensor()->mutable_tensor_shape();
  value.second.mutable_tensor()->add_int_val(axis);
  b->Add("axis", "Const", {}, {Type("dtype", kInt), value});
  b->Float("part", "Split", {"axis", "whole"}, {Int("num_split", parts)});
}

void AddSplitV(GraphBuilder* b, const std::vector<int>& sizes, int axis) {
  b->ShapeConstant("sizes", sizes);
  Attr value{"value", {}};
  value.second.mutable_tensor()->set_dtype(kInt);
  value.second.mutable_tensor()->mutable_tensor_shape();
  value.second.mutable_tensor()->add_int_val(axis);
  b->Add("axis", "Const", {}, {Type("dtype", kInt), value});
  const Attr index = Type("Tlen", kInt);
  b->Float("part", "SplitV", {"whole", "sizes", "axis"}, {Int("num_split", static_cast<int>(sizes.size())), index});
}

void AddUnpack(GraphBuilder* b, int axis, int parts) {
  b->Float("part", "Unpack", {"whole"}, {Int("num", parts), Int("axis", axis)});
}

// Does "part" lie in the storage of "whole"?
bool Shares(GraphBuilder* b) {
  b->Parse("read = Tanh(part); fetch read");
  const Imported step(b->item());
  return step.BufferIdOf("part") == step.BufferIdOf("whole");
}

// A row of [4, 2, 8] floats is 64 bytes; of [4, 3, 5] it is 60.
bool SliceShares(const Dims& dims, const std::vector<int>& begin, const std::vector<int>& size) {
  GraphBuilder b;
  Whole(&b, dims);
  AddSlice(&b, begin, size);
  return Shares(&b);
}

bool StridedSliceShares(const Dims& dims, const std::vector<int>& begin, const std::vector<int>& end,
                        const std::vector<int>& strides, const std::vector<Attr>& masks = {}) {
  GraphBuilder b;
  Whole(&b, dims);
  AddStridedSlice(&b, begin, end, strides, masks);
  return Shares(&b);
}

bool SplitShares(const Dims& dims, int axis, int parts) {
  GraphBuilder b;
  Whole(&b, dims);
  AddSplit(&b, axis, parts);
  return Shares(&b);
}

bool SplitVShares(const Dims& dims, const std::vector<int>& sizes, int axis) {
  GraphBuilder b;
  Whole(&b, dims);
  AddSplitV(&b, sizes, axis);
  return Shares(&b);
}

bool UnpackShares(const Dims& dims, int axis, int parts) {
  GraphBuilder b;
  Whole(&b, dims);
  AddUnpack(&b, axis, parts);
  return Shares(&b);
}

TEST(RowSlices, ASliceOfWholeRows) {
  EXPECT_TRUE(SliceShares({4, 2, 8}, {1, 0, 0}, {2, 2, 8}));
  EXPECT_FALSE(SliceShares({4, 2, 8}, {1, 0, 0}, {2, 1, 8}));
  EXPECT_FALSE(SliceShares({4, 3, 5}, {1, 0, 0}, {2, 3, 5}));
  EXPECT_TRUE(SliceShares({4, 3, 5}, {0, 0, 0}, {4, 3, 5}));  // all of it
  EXPECT_TRUE(SliceShares({64}, {16}, {32}));
  EXPECT_FALSE(SliceShares({64}, {8}, {32}));
  EXPECT_FALSE(SliceShares({64}, {16}, {8}));
}

TEST(RowSlices, AStridedSliceOfWholeRows) {
  EXPECT_TRUE(StridedSliceShares({4, 2, 8}, {1}, {3}, {1}));
  EXPECT_TRUE(StridedSliceShares({4, 2, 8}, {-1}, {0}, {1}, {Int("shrink_axis_mask", 1)}));
  EXPECT_TRUE(StridedSliceShares({4, 2, 8}, {1, 0}, {3, 0}, {1, 1}, {Int("begin_mask", 2), Int("end_mask", 2)}));
  EXPECT_FALSE(StridedSliceShares({4, 2, 8}, {0}, {4}, {2}));
  EXPECT_FALSE(StridedSliceShares({4, 2, 8}, {0, 0}, {4, 1}, {1, 1}));
  EXPECT_FALSE(StridedSliceShares({4, 3, 5}, {1}, {3}, {1}));
  EXPECT_TRUE(StridedSliceShares({64}, {16}, {48}, {1}));
  EXPECT_FALSE(StridedSliceShares({64}, {16}, {47}, {1}));
}

TEST(RowSlices, ASplitAlongTheFirstDimension) {
  EXPECT_TRUE(SplitShares({4, 2, 8}, 0, 2));
  EXPECT_TRUE(SplitShares({4, 2, 8}, -3, 4));
  EXPECT_FALSE(SplitShares({4, 2, 8}, 1, 2));
  EXPECT_FALSE(SplitShares({4, 3, 5}, 0, 2));
  EXPECT_FALSE(SplitShares({64}, 0, 2));
  EXPECT_TRUE(SplitShares({4, 3, 5}, 1, 1));  // all of it
}

TEST(RowSlices, ASplitIntoSizesAlongTheFirstDimension) {
  EXPECT_TRUE(SplitVShares({4, 2, 8}, {1, 3}, 0));
  EXPECT_FALSE(SplitVShares({4, 2, 8}, {1, 1}, 1));
  EXPECT_FALSE(SplitVShares({4, 3, 5}, {1, 3}, 0));
  EXPECT_TRUE(SplitVShares({64}, {16, 48}, 0));  // gradients that were packed
  EXPECT_TRUE(SplitVShares({64}, {16, 32, 16}, 0));
  EXPECT_FALSE(SplitVShares({64}, {16, 24, 24}, 0));
  EXPECT_FALSE(SplitVShares({60}, {16, 32, 12}, 0));  // of the last the kernel looks at the end as well
}

TEST(RowSlices, AnUnpackOfTheFirstDimension) {
  EXPECT_TRUE(UnpackShares({3, 2, 8}, 0, 3));
  EXPECT_FALSE(UnpackShares({3, 2, 8}, 1, 2));
  EXPECT_FALSE(UnpackShares({3, 3, 5}, 0, 3));
}

TEST(RowSlices, WhereToCutMayBeKnownInTheRunAlone) {
  for (const bool rows : {true, false}) {
    GraphBuilder b;
    Whole(&b, {4, 2, 8});
    b.Add("begin", "Placeholder", {}, {Type("dtype", kInt), testing::Shape("shape", {rows ? 1 : 2})});
    b.item().feed.emplace_back("begin", tensorflow::Tensor());
    b.ShapeConstant("one", std::vector<int>(rows ? 1 : 2, 1));
    b.Add("end", "AddV2", {"begin", "one"}, {Type("T", kInt)});
    b.Float("part", "StridedSlice", {"whole", "begin", "end", "one"},
            {Type("Index", kInt), Int("shrink_axis_mask", rows ? 1 : 3)});
    EXPECT_EQ(Shares(&b), rows);
  }
}

TEST(RowSlices, AllOfTheStorageIsHeldAsLongAsAPartIsRead) {
  GraphBuilder b;
  Whole(&b, {4, 2, 8});
  AddUnpack(&b, 0, 4);
  b.Parse("first = Tanh(part:1); view = Identity(part:3); last = Neg(view); sum = AddV2(first, last); fetch sum");
  const Imported step(b.item());
  EXPECT_TRUE(step.Op("part").inputs.empty());
  EXPECT_TRUE(step.Op("part").outputs.empty());
  EXPECT_TRUE(step.Reads("first", "whole"));
  EXPECT_TRUE(step.Reads("last", "whole"));
}

TEST(RowSlices, WhatTakesOverTheLastPartHoldsAllOfTheStorage) {
  GraphBuilder b;
  Whole(&b, {4, 2, 8});
  AddUnpack(&b, 0, 4);
  b.Parse("first = Tanh(part:1); last = Mul(first, part:3); after = Neg(last); sum = AddV2(after, first); fetch sum");
  const Imported step(b.item());
  EXPECT_EQ(step.Buffer("first").bytes, 64);
  EXPECT_EQ(step.Buffer("last").bytes, 256);
  EXPECT_EQ(step.Buffer("after").bytes, 256);
  EXPECT_EQ(step.Buffer("sum").bytes, 256);  // its kernel tries "after" before "first"
  EXPECT_FALSE(step.MayForward("first", "whole"));
  EXPECT_TRUE(step.MayForward("last", "whole"));
  const std::vector<int64_t> held = Simulate(step.graph(), Plan()).op_bytes;
  const int64_t argument = 256;
  EXPECT_EQ(held[step.OpOf("first")], argument + 256 + 64);
  EXPECT_EQ(held[step.OpOf("last")], argument + 256 + 64);
  EXPECT_EQ(held[step.OpOf("after")], argument + 256 + 64);
}

TEST(RowSlices, TwoPartsInOneOpStayAsTheyAre) {
  GraphBuilder b;
  Whole(&b, {4, 2, 8});
  AddUnpack(&b, 0, 4);
  b.Parse("both = Mul(part, part:3); fetch both");
  const Imported step(b.item());
  EXPECT_EQ(step.Buffer("both").bytes, 64);
  EXPECT_FALSE(step.MayForward("both", "whole"));
}

TEST(RowSlices, AnArgumentIsSharedAVariableIsNot) {
  GraphBuilder b;
  b.Parse("x[4, 2, 8]; w = VarHandleOp[4, 2, 8]; read = ReadVariableOp(w)");
  b.Float("of_argument", "Unpack", {"x"}, {Int("num", 4), Int("axis", 0)});
  b.Float("of_variable", "Unpack", {"read"}, {Int("num", 4), Int("axis", 0)});
  b.Parse("sum = AddV2(of_argument:2, of_variable:2); fetch sum");
  const Imported step(b.item());
  EXPECT_EQ(step.BufferIdOf("of_argument", 2), step.BufferIdOf("x"));
  EXPECT_NE(step.BufferIdOf("of_variable", 2), step.BufferIdOf("read"));
  EXPECT_EQ(step.Buffer("of_variable", 2).bytes, 64);
}

TEST(RowSlices, ReadersOfAPartReadThatOfTheRecomputation) {
  GraphBuilder b;
  Whole(&b, {4, 2, 8});
  AddSplit(&b, 0, 2);
  b.Parse("early = Tanh(part:1); late = Mul(part:1, early); latest = Mul(part, late); fetch latest");
  const Imported step(b.item());
  Plan plan;
  plan.steps.push_back({step.OpOf("late"), step.OpOf("whole"), {step.BufferIdOf("whole")}, false});
  tensorflow::grappler::GrapplerItem item = step.item();
  RewriteResult result;
  ASSERT_TRUE(RewriteGraph(step.imported(), step.index(), plan, RewriteOptions(), &item.graph, &result).ok());
  const std::string whole = RecomputeName(0, "whole");
  const std::string part = RecomputeName(0, "part");
  ASSERT_NE(FindNode(item.graph, whole), nullptr);
  const tensorflow::NodeDef* copy = FindNode(item.graph, part);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->input(0), "axis");
  EXPECT_EQ(copy->input(1), whole);
  EXPECT_TRUE(HasInput(item.graph, "early", "part:1"));
  EXPECT_TRUE(HasInput(item.graph, "late", part + ":1"));
  EXPECT_TRUE(HasInput(item.graph, "latest", part));
  EXPECT_TRUE(HasInput(item.graph, "part", "whole"));
}

TEST(RowSlices, OtherOpsHaveStorageOfTheirOwn) {
  GraphBuilder b;
  Whole(&b, {4, 2, 8});
  b.Float("part", "Exp", {"whole"});
  EXPECT_FALSE(MaySliceRows(*FindNode(b.item().graph, "part")));
  EXPECT_FALSE(Shares(&b));
}

}  // namespace
}  // namespace lms
