#include "cc/tf/loops/share_rows.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cc/tf/graph/own_ops.h"
#include "tests/cc/tf/loops/gradient_loop_test.h"

namespace lms {
namespace {

using testing::Element;
using testing::FindNode;
using testing::Imported;
using testing::kTile;
using testing::LoopBuilder;
using testing::ShapeType;

// A loop that reads the rows of "later", kRounds of 256, as its turn comes.
class Rows : public LoopBuilder {
 public:
  explicit Rows(int width = 64) {
    ShapeConstant("row", {width});
    ShapeConstant("first", {0});
    Parse("late = Tanh(x); later = Tanh(late)");
    Add("backwards", "ReverseV2", {"later", "first"}, {testing::Float32()});
    Enter("row_in", "row", tensorflow::DT_INT32, true);
  }

  void List(const std::string& name, const std::string& tensor) {
    Add(name, "TensorListFromTensor", {tensor, "row"}, {Element(), ShapeType()});
    Enter(name + "_in", name, kVariantType, true);
    Add(name + "_get", "TensorListGetItem", {name + "_in", "i_switch:1", "row_in"}, {Element()});
    Carry(name + "_y", "x", name + "_sum", tensorflow::DT_FLOAT);
    Parse(name + "_sum = AddV2(" + name + "_y_switch:1, " + name + "_get); fetch " + name + "_y_exit");
  }

  static constexpr tensorflow::DataType kVariantType = tensorflow::DT_VARIANT;
};

// The graph, changed so.
class Shared {
 public:
  explicit Shared(Rows* rows) : item(rows->item().WithGraph(tensorflow::GraphDef(rows->item().graph))) {
    GraphIndex index;
    EXPECT_TRUE(index.Build(item).ok());
    TensorSizes sizes(item, 32);
    EXPECT_TRUE(sizes.Infer().ok());
    const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), item.graph.library());
    std::vector<NodeTypes> types;
    EXPECT_TRUE(ReadNodeTypes(item.graph, index, library, &types).ok());
    bytes = ShareRows(index, sizes, types, testing::kCpu, &item.graph);
  }

  std::string Label(const std::string& node) const {
    const auto& attrs = FindNode(item.graph, node)->attr();
    return attrs.count(kKernelAttr) == 0 ? "" : attrs.at(kKernelAttr).s();
  }

  tensorflow::grappler::GrapplerItem item;
  int64_t bytes = 0;
};

TEST(ShareRows, AListTakesNoMemoryOfItsOwn) {
  Rows rows;
  rows.List("list", "later");
  const Imported before(rows.item());
  EXPECT_NE(before.BufferIdOf("list"), before.BufferIdOf("later"));
  const Shared shared(&rows);
  EXPECT_EQ(shared.bytes, kTile);
  EXPECT_EQ(shared.Label("list"), kRowsLabel);
  const Imported after(shared.item);
  EXPECT_EQ(after.BufferIdOf("list"), after.BufferIdOf("later"));
  EXPECT_EQ(after.BufferIdOf("list_get"), after.BufferIdOf("later"));
  EXPECT_EQ(after.Buffer("later").bytes, kTile);
}

TEST(ShareRows, TwoDirectionsShareOneTensor) {
  Rows rows;
  rows.List("there", "later");
  rows.List("back", "backwards");
  const Shared shared(&rows);
  EXPECT_EQ(shared.bytes, 3 * kTile);  // two lists, and what is reversed
  EXPECT_EQ(shared.Label("there"), kRowsLabel);
  EXPECT_EQ(shared.Label("back"), kReversedRowsLabel);
  EXPECT_EQ(FindNode(shared.item.graph, "back")->input(0), "later");
  EXPECT_EQ(FindNode(shared.item.graph, "backwards")->op(), "NoOp");
  const Imported after(shared.item);
  EXPECT_EQ(after.BufferIdOf("back"), after.BufferIdOf("there"));
}

TEST(ShareRows, WhatIsReversedStaysWhereOthersReadIt) {
  Rows rows;
  rows.List("back", "backwards");
  rows.Parse("other = Tanh(backwards); fetch other");
  const Shared shared(&rows);
  EXPECT_EQ(shared.Label("back"), kReversedRowsLabel);
  EXPECT_EQ(FindNode(shared.item.graph, "backwards")->op(), "ReverseV2");
}

TEST(ShareRows, AListThatHandsItsElementsToAnotherIsSharedWithThat) {
  Rows rows;
  rows.List("list", "later");
  rows.Add("maker", "EmptyTensorList", {"row", "rounds"}, {Element(), ShapeType()});
  rows.Carry("l", "maker", "push", Rows::kVariantType);
  rows.Add("push", "TensorListPushBack", {"l_switch:1", "list_get"}, {Element()});
  rows.Parse("fetch l_exit");
  const Shared shared(&rows);
  EXPECT_EQ(shared.Label("list"), kRowsLabel);
  const Imported after(shared.item);
  EXPECT_EQ(after.BufferIdOf("l_exit"), after.BufferIdOf("later"));
}

// Each is a reason to let TensorFlow copy.
TEST(ShareRows, OthersAreCopied) {
  const std::vector<std::pair<std::string, std::function<Rows()>>> reasons = {
      {"rows at addresses that kernels do not take",
       [] {
         Rows rows(60);
         rows.Feed("narrow", {256, 60});
         rows.Parse("thin = Tanh(narrow)");
         rows.Add("list", "TensorListFromTensor", {"thin", "row"}, {Element(), ShapeType()});
         rows.Enter("list_in", "list", Rows::kVariantType, true);
         rows.Add("get", "TensorListGetItem", {"list_in", "i_switch:1", "row_in"}, {Element()});
         rows.Carry("y", "get_first", "get", tensorflow::DT_FLOAT);
         rows.Feed("get_first", {60});
         rows.Parse("fetch y_exit");
         return rows;
       }},
      {"elements that the loop has made take their place",
       [] {
         Rows rows;
         rows.Add("list", "TensorListFromTensor", {"later", "row"}, {Element(), ShapeType()});
         rows.Carry("l", "list", "set", Rows::kVariantType);
         rows.Add("get", "TensorListGetItem", {"l_switch:1", "i_switch:1", "row_in"}, {Element()});
         rows.Parse("made = Tanh(get)");
         rows.Add("set", "TensorListSetItem", {"l_switch:1", "i_switch:1", "made"}, {Element()});
         rows.Parse("fetch l_exit");
         return rows;
       }},
      {"the tensor is a variable's",
       [] {
         Rows rows;
         rows.Variable("v", {256, 64});
         rows.Read("read", "v");
         rows.List("list", "read");
         return rows;
       }},
      {"the tensor becomes a variable's",
       [] {
         Rows rows;
         rows.Variable("v", {256, 64});
         rows.List("list", "later");
         rows.Add("assign", "AssignVariableOp", {"v", "later"}, {testing::Float32("dtype")});
         return rows;
       }},
      {"a sum of three begins with a term that nobody else holds",
       [] {
         Rows rows;
         rows.List("list", "later");
         rows.Parse("a = Sin(x); b = Cos(x); sum = AddN(a, b, later); fetch sum; fetch a; fetch b");
         return rows;
       }},
      {"so does one of elements",
       [] {
         Rows rows;
         rows.List("list", "later");
         rows.Feed("some", {64});
         rows.Enter("some_in", "some", tensorflow::DT_FLOAT, true);
         rows.Parse("sum = AddN(some_in, some_in, list_get)");
         rows.Carry("z", "some", "sum", tensorflow::DT_FLOAT);
         rows.Parse("fetch z_exit");
         return rows;
       }},
      {"something is written in place",
       [] {
         Rows rows;
         rows.List("list", "later");
         rows.ShapeConstant("at", {3});
         rows.Add("written", "InplaceUpdate", {"later", "at", "some"}, {testing::Float32()});
         rows.Feed("some", {1, 64});
         rows.Parse("fetch written");
         return rows;
       }},
  };
  for (const auto& [reason, make] : reasons) {
    Rows rows = make();
    const Shared shared(&rows);
    EXPECT_EQ(shared.bytes, 0) << reason;
    EXPECT_EQ(shared.Label("list"), "") << reason;
  }
}

}  // namespace
}  // namespace lms
