#include "cc/tf/pass/time_ops.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cc/core/report/report_store.h"
#include "cc/tf/pass/optimizer.h"
#include "cc/tf/pass/timed_functions.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::grappler::GrapplerItem;

Options Timing() {
  Options options;
  options.time_ops = "test";
  return options;
}

// Nodes in the order in which each waits for the one before, by control edges alone.
std::vector<std::string> ChainOf(const tensorflow::GraphDef& graph) {
  std::map<std::string, std::string> next;
  std::set<std::string> waiting;
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) {
      if (input.front() != '^') continue;
      EXPECT_TRUE(next.emplace(input.substr(1), node.name()).second) << input;
      waiting.insert(node.name());
    }
  }
  std::vector<std::string> chain;
  for (const auto& [from, to] : next) {
    if (waiting.count(from) == 0) chain.push_back(from);
  }
  EXPECT_EQ(chain.size(), 1U);
  while (!chain.empty() && next.count(chain.back()) != 0) chain.push_back(next[chain.back()]);
  return chain;
}

TEST(TimeOpsTest, ChainsAllOpsInOneOrderAndNotesTheirKeys) {
  const GrapplerItem item = testing::TrainChain(3);
  tensorflow::GraphDef graph;
  ASSERT_TRUE(TimeOps(Timing(), nullptr, item, false, &graph).ok());
  std::vector<TimedFunction> timed = TimedFunctions().Take("test");
  ASSERT_EQ(timed.size(), 1U);
  EXPECT_EQ(timed[0].problem, "");
  EXPECT_EQ(timed[0].function, "step");
  EXPECT_EQ(timed[0].place.device.rfind("CPU ", 0), 0U);
  EXPECT_TRUE(TimedFunctions().Take("test").empty());
  // All but x and the axes of the sum.
  const std::vector<std::string> chain = ChainOf(graph);
  EXPECT_EQ(static_cast<int>(chain.size()), item.graph.node_size() - 2);
  std::map<std::string, std::string> keys;
  for (const TimedOp& op : timed[0].ops) {
    keys[op.name] = op.key;
    EXPECT_TRUE(op.always) << op.name;
  }
  EXPECT_EQ(static_cast<int>(keys.size()), item.graph.node_size());
  EXPECT_EQ(keys["tanh_0"], keys["tanh_1"]);
  EXPECT_NE(keys["tanh_0"], keys["tanh_grad_1"]);
  EXPECT_NE(keys["matmul_0"], keys["weight_grad_0"]);
  EXPECT_EQ(keys["tanh_0"].rfind("Tanh(float[256,64])->float[256,64] ", 0), 0U) << keys["tanh_0"];
}

TEST(TimeOpsTest, LoopsAndWhatIsFoldedStayFree) {
  testing::GraphBuilder b;
  b.Parse("a = Const[4]; folded = Exp(a); x[4]; sum = AddV2(x, folded)");
  b.Float("enter", "Enter", {"sum"}, {testing::Text("frame_name", "f")});
  b.Float("merge", "Merge", {"enter", "next"}, {testing::Int("N", 2)});
  b.Constant("go", {}, tensorflow::DT_BOOL);
  b.Add("cond", "LoopCond", {"go"});
  b.Parse(
      "switch = Switch(merge, cond); body = Exp(switch:1); next = NextIteration(body); exit = Exit(switch); "
      "after = Exp(exit); fetch after");
  tensorflow::GraphDef graph;
  ASSERT_TRUE(TimeOps(Timing(), nullptr, b.item(), false, &graph).ok());
  EXPECT_EQ(ChainOf(graph), (std::vector<std::string>{"sum", "after"}));
  const std::vector<TimedFunction> timed = TimedFunctions().Take("test");
  for (const TimedOp& op : timed.at(0).ops) {
    const bool free = op.name == "folded" || op.name == "body";
    if (free || op.name == "sum" || op.name == "after" || op.name == "a") {
      EXPECT_EQ(op.always, !free) << op.name;
    }
  }
}

TEST(TimeOpsTest, AStepThatMayWaitForOthersIsLeftAlone) {
  testing::GraphBuilder b;
  b.Feed("x", {4});
  b.Add("queue", "FIFOQueueV2", {}, {testing::Types("component_types", {tensorflow::DT_FLOAT})});
  b.Add("put", "QueueEnqueueV2", {"queue", "x"}, {testing::Types("Tcomponents", {tensorflow::DT_FLOAT})});
  b.Fetch("put");
  tensorflow::GraphDef graph;
  EXPECT_TRUE(absl::IsAborted(TimeOps(Timing(), nullptr, b.item(), false, &graph)));
  EXPECT_EQ(graph.node_size(), 0);
  const std::vector<TimedFunction> timed = TimedFunctions().Take("test");
  ASSERT_EQ(timed.size(), 1U);
  EXPECT_NE(timed[0].problem.find("may wait"), std::string::npos) << timed[0].problem;
}

TEST(TimeOpsTest, TheOptimizerChainsTheRewrittenGraphAndAddsNoReport) {
  ReportStore::Global().Clear();
  tensorflow::RewriterConfig_CustomGraphOptimizer config;
  (*config.mutable_parameter_map())["time_ops"].set_s("test");
  (*config.mutable_parameter_map())["profile"].set_s("none");
  (*config.mutable_parameter_map())["memory_budget"].set_s("60%");
  const GrapplerItem item = testing::TrainChain(8);
  tensorflow::ConfigProto proto;
  proto.set_inter_op_parallelism_threads(2);  // for one, another order might do
  LmsOptimizer optimizer;
  ASSERT_TRUE(optimizer.InitWithConfig(proto, &config).ok());
  tensorflow::GraphDef graph;
  EXPECT_TRUE(absl::IsAborted(optimizer.Optimize(nullptr, item, &graph)));
  ASSERT_TRUE(optimizer.Optimize(nullptr, item, &graph).ok());
  EXPECT_TRUE(ReportStore::Global().All().empty());
  const std::vector<TimedFunction> timed = TimedFunctions().Take("test");
  ASSERT_EQ(timed.size(), 1U);
  EXPECT_EQ(timed[0].problem, "");
  std::map<std::string, std::string> keys;
  int copies = 0;
  for (const TimedOp& op : timed[0].ops) keys[op.name] = op.key;
  for (const auto& [name, key] : keys) {
    if (name.rfind("lms/", 0) != 0) continue;
    ++copies;
    for (const char* type : {"Tanh", "MatMul"}) {
      if (TypeOfKey(key) == type) {
        EXPECT_EQ(key, keys[type == std::string("Tanh") ? "tanh_0" : "matmul_0"]);
      }
    }
  }
  EXPECT_GT(copies, 0);
}

}  // namespace
}  // namespace lms
