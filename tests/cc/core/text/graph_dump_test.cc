#include "cc/core/text/graph_dump.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cc/core/base/text_file.h"
#include "cc/core/search/planner.h"
#include "cc/core/text/text_format.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

namespace fs = std::filesystem;

class GraphDumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / "lms_graph_dump";
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string Text(const std::string& name) const {
    std::string text;
    EXPECT_EQ(ReadTextFile((root_ / name).string(), &text), "");
    return text;
  }

  fs::path root_;
};

TEST_F(GraphDumpTest, WritesTheGraphAndThePlanSideBySide) {
  const MemGraph graph = testing::Chain(20, 4096);
  const Plan plan = PlanForLeastPeak(graph, PlannerOptions()).plan;
  ASSERT_FALSE(plan.steps.empty());
  const GraphDump dump((root_ / "a" / "b").string(), "step", 7);
  EXPECT_EQ(dump.Write(graph), "");
  EXPECT_EQ(dump.Write(graph, plan), "");
  EXPECT_EQ(Text("a/b/step-7.lmsgraph"), WriteGraph(graph));
  EXPECT_EQ(Text("a/b/step-7.lmsplan"), WritePlan(graph, plan));
  EXPECT_EQ(dump.Write(testing::Chain(2, 1)), "");  // in its place
  EXPECT_EQ(Text("a/b/step-7.lmsgraph"), WriteGraph(testing::Chain(2, 1)));
}

TEST_F(GraphDumpTest, NamesThatNoFileCanHave) {
  EXPECT_EQ(GraphDump(root_.string(), "../scope/ü x\n", 1).Write(MemGraph()), "");
  EXPECT_EQ(Text(".._scope____x_-1.lmsgraph"), "lms-graph 1\n");
  EXPECT_EQ(GraphDump(root_.string(), std::string(1000, 'f'), 1).Write(MemGraph()), "");
  EXPECT_EQ(Text(std::string(150, 'f') + "-1.lmsgraph"), "lms-graph 1\n");
}

TEST_F(GraphDumpTest, WhatGoesWrongIsReturned) {
  fs::create_directories(root_ / "step-1.lmsgraph");
  EXPECT_NE(GraphDump(root_.string(), "step", 1).Write(MemGraph()).find("step-1.lmsgraph: cannot be written: "),
            std::string::npos);
  std::ofstream(root_ / "file") << "text";
  EXPECT_NE(GraphDump((root_ / "file").string(), "step", 1).Write(MemGraph()), "");
  EXPECT_NE(GraphDump((root_ / "file" / "below").string(), "step", 1).Write(MemGraph()).find("cannot be made: "),
            std::string::npos);
}

}  // namespace
}  // namespace lms
