#include "cc/tf/import/loop_ends.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "cc/tf/import/import.h"
#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::Element;
using testing::Imported;
using testing::kTile;
using testing::LoopBuilder;

// A loop that reads what does not change in it, and ops that read its result, one after the other. Of its body three
// levels are dead in the end: the Switch, an addition, the NextIteration.
LoopBuilder ReadsWhatEnters(const std::string& rest) {
  LoopBuilder b;
  b.Parse("w = VarHandleOp[256, 64]; read = ReadVariableOp(w); held = Tanh(x)");
  b.Enter("held_in", "held", tensorflow::DT_FLOAT, true);
  b.Enter("read_in", "read", tensorflow::DT_FLOAT, true);
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Parse("more = AddV2(held_in, read_in); body = AddV2(y_switch:1, more)");
  b.Parse("after = Tanh(y_exit); next = Tanh(after); third = Tanh(next); " + rest);
  return b;
}

class Step {
 public:
  Step(LoopBuilder b, const std::string& device, int threads) {
    for (auto& node : *b.item().graph.mutable_node()) {
      node.set_device("/job:localhost/replica:0/task:0/device:" + device);
    }
    step_.emplace(b.item());
    EXPECT_TRUE(ImportGraph(step_->item(), step_->index(), step_->sizes(), &imported_, Deadline(), "", threads).ok());
  }

  OpId OpOf(const std::string& node) const { return imported_.op_of_node[step_->index().Find(node)]; }
  int64_t WorkspaceOf(const std::string& node) const { return imported_.graph.ops[OpOf(node)].workspace_bytes; }

  // Those who hold what the op has read of its variable.
  std::vector<OpId> HoldersOf(const std::string& read) const {
    std::vector<OpId> holders;
    for (const HeldRead& held : imported_.held_reads) {
      if (held.read == OpOf(read)) holders.push_back(held.reader);
    }
    return holders;
  }

 private:
  std::optional<Imported> step_;
  ImportedGraph imported_;
};

TEST(LoopEnds, WithSeveralThreadsResultsAreReadBeforeTheLoopLetsGo) {
  EXPECT_EQ(Step(ReadsWhatEnters("fetch third"), "CPU:0", 1).WorkspaceOf("after"), 0);
  const Step step(ReadsWhatEnters("fetch third"), "CPU:0", 2);
  EXPECT_EQ(step.WorkspaceOf("after"), kTile);
  EXPECT_EQ(step.WorkspaceOf("next"), 0);
  const std::string late = "late = AddV2(y_exit, third); fetch late";
  EXPECT_EQ(Step(ReadsWhatEnters(late), "CPU:0", 2).WorkspaceOf("late"), kTile);
  EXPECT_EQ(Step(ReadsWhatEnters(late), "GPU:0", 2).WorkspaceOf("late"), 0);
  // There in any case.
  EXPECT_EQ(Step(ReadsWhatEnters("last = AddV2(third, held); fetch last"), "CPU:0", 2).WorkspaceOf("after"), 0);
}

TEST(LoopEnds, OnAGpuAsManyLevelsAreBesideWhatALoopHoldsAsItsBodyIsDeep) {
  const Step step(ReadsWhatEnters("fetch third"), "GPU:0", 1);
  EXPECT_EQ(step.WorkspaceOf("after"), kTile);
  EXPECT_EQ(step.WorkspaceOf("next"), kTile);
  EXPECT_EQ(step.WorkspaceOf("third"), 0);
  EXPECT_EQ(step.WorkspaceOf("body"), 0);
}

// Its Exit has a level, and what reads that comes after all its iterations.
TEST(LoopEnds, WhatWaitsForAnotherLoopComesLongAfter) {
  LoopBuilder b = ReadsWhatEnters("fetch third");
  const auto in_other = [](tensorflow::DataType type, bool constant) {
    return std::vector<testing::Attr>{testing::OfType(type), testing::Text("frame_name", "other"),
                                      testing::Bool("is_constant", constant)};
  };
  b.Add("z_enter", "Enter", {"after"}, in_other(tensorflow::DT_FLOAT, false));
  b.Add("z_merge", "Merge", {"z_enter", "z_next"}, {testing::OfType(tensorflow::DT_FLOAT), testing::Int("N", 2)});
  b.Add("goes_on", "Enter", {"go"}, in_other(tensorflow::DT_BOOL, true));
  b.Add("go", "Less", {"zero", "one"}, {testing::OfType(tensorflow::DT_INT32)});
  b.Add("other_cond", "LoopCond", {"goes_on"});
  b.Add("z_switch", "Switch", {"z_merge", "other_cond"}, {testing::OfType(tensorflow::DT_FLOAT)});
  b.Add("z_next", "NextIteration", {"z_switch:1"}, {testing::OfType(tensorflow::DT_FLOAT)});
  b.Add("z_exit", "Exit", {"z_switch"}, {testing::OfType(tensorflow::DT_FLOAT)});
  b.Parse("both = AddV2(y_exit, z_exit); fetch both");
  const Step step(b, "GPU:0", 1);
  EXPECT_EQ(step.WorkspaceOf("after"), kTile);
  EXPECT_EQ(step.WorkspaceOf("both"), 1);  // the predicate, which the other one holds
}

// An update of that time copies the variable, whose old contents stay.
TEST(LoopEnds, WhatWasReadOfAVariableIsHeldTheSameTime) {
  const std::string rest = "update = AssignSubVariableOp(w, after); fetch third, update";
  const Step step(ReadsWhatEnters(rest), "GPU:0", 1);
  const std::vector<OpId> holders = step.HoldersOf("read");
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_GE(holders[0], step.OpOf("next"));
  EXPECT_GE(holders[0], step.OpOf("update"));
  EXPECT_LT(holders[0], step.OpOf("third"));
  EXPECT_TRUE(Step(ReadsWhatEnters(rest), "CPU:0", 2).HoldersOf("read").empty());
}

// Put on a list, which another loop takes in.
TEST(LoopEnds, SoIsWhatALoopTakesInInLists) {
  LoopBuilder b;
  b.ShapeConstant("row", {64});
  b.Parse("w = VarHandleOp[256, 64]; read = ReadVariableOp(w)");
  b.Add("list", "EmptyTensorList", {"row", "rounds"}, {Element(), testing::Type("shape_type", tensorflow::DT_INT32)});
  b.Add("push", "TensorListPushBack", {"list", "read"}, {Element()});
  b.Enter("list_in", "push", tensorflow::DT_VARIANT, true);
  b.Enter("row_in", "row", tensorflow::DT_INT32, true);
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Add("get", "TensorListGetItem", {"list_in", "i_switch:1", "row_in"}, {Element()});
  b.Parse("body = AddV2(y_switch:1, get); after = Tanh(y_exit); update = AssignSubVariableOp(w, after); fetch update");
  const Step step(b, "GPU:0", 1);
  const std::vector<OpId> holders = step.HoldersOf("read");
  ASSERT_FALSE(holders.empty());
  EXPECT_EQ(holders.back(), step.OpOf("update"));
}

}  // namespace
}  // namespace lms
