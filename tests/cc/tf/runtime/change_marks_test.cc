#include "cc/tf/runtime/change_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::Float32;
using testing::GraphBuilder;

const tensorflow::NodeDef* Find(const tensorflow::GraphDef& graph, const std::string& name) {
  for (const auto& node : graph.node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

std::vector<std::string> Inputs(const tensorflow::NodeDef& node) { return {node.input().begin(), node.input().end()}; }

TEST(ChangeMarksTest, AnUpdateWaitsForItsMarkAndTheMarkForWhatTheUpdateWaitsFor) {
  GraphBuilder b;
  b.Feed("x", {64});
  b.Variable("v", {64});
  b.Read("read", "v");
  b.Parse("y = Mul(x, read)");
  b.Add("update", "AssignSubVariableOp", {"v", "y", "^x"}, {Float32("dtype")});
  tensorflow::GraphDef graph = b.item().graph;
  const int before = graph.node_size();
  AddChangeMarks("f", &graph);
  ASSERT_EQ(graph.node_size(), before + 1);  // what only reads or computes has none
  const tensorflow::NodeDef& mark = graph.node(before);
  EXPECT_EQ(mark.op(), kChangeMarkOp);
  EXPECT_EQ(Inputs(mark), (std::vector<std::string>{"v", "^x", "^y"}));
  EXPECT_EQ(mark.attr().at("N").i(), 1);
  EXPECT_FALSE(mark.attr().at("element").b());
  EXPECT_EQ(Inputs(*Find(graph, "update")), (std::vector<std::string>{"v", "y", "^x", "^" + mark.name()}));
}

TEST(ChangeMarksTest, SumsInAVariableOfTheStepChangeNothing) {
  GraphBuilder b;
  b.Parse("x[64]; y[64]");
  b.Add("sum", "TemporaryVariable", {},
        {Float32("dtype"), testing::Shape("shape", {64}), testing::Text("var_name", "s")});
  b.Float("zero", "Assign", {"sum", "x"});
  b.Float("add", "AssignAdd", {"zero", "y"});
  b.Float("end", "DestroyTemporaryVariable", {"add"}, {testing::Text("var_name", "s")});
  tensorflow::GraphDef graph = b.item().graph;
  const int before = graph.node_size();
  AddChangeMarks("g", &graph);
  EXPECT_EQ(graph.node_size(), before);
}

TEST(ChangeMarksTest, AReferenceVariableCannotBeUndone) {
  GraphBuilder b;
  b.Parse("x[64]");
  b.Add("v", "VariableV2", {}, {Float32("dtype"), testing::Shape("shape", {64})});
  b.Float("add", "AssignAdd", {"v", "x"});
  tensorflow::GraphDef graph = b.item().graph;
  const int before = graph.node_size();
  AddChangeMarks("h", &graph);
  ASSERT_EQ(graph.node_size(), before + 1);
  EXPECT_EQ(graph.node(before).attr().at("N").i(), 0);  // nothing of it is kept
}

TEST(ChangeMarksTest, OnlyWhatHasMarksIsKnown) {
  EXPECT_FALSE(UndoChanges("never marked").undone);
  EXPECT_NE(UndoChanges("never marked").why_not, "");
  GraphBuilder b;
  b.Parse("x[64]; y = Tanh(x)");
  tensorflow::GraphDef graph = b.item().graph;
  AddChangeMarks("marked", &graph);
  EXPECT_TRUE(UndoChanges("marked").undone);  // nothing was changed
  ForgetChanges("marked");
  EXPECT_TRUE(UndoChanges("marked").undone);
}

}  // namespace
}  // namespace lms
