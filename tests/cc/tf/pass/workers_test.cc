// Steps of several processes that wait for each other in collective operations: whatever each process plans, all come
// to the end.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/core/profile/profile_file.h"
#include "cc/core/report/report_store.h"
#include "cc/tf/graph/collectives.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/pass/optimizer.h"
#include "cc/tf/pass/time_ops.h"
#include "cc/tf/pass/timed_functions.h"
#include "cc/tf/rewrite/rewrite.h"
#include "cc/tf/verify/verify.h"
#include "tests/cc/tf/replicas.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::grappler::GrapplerItem;
using testing::GraphBuilder;
using testing::Imported;
using testing::TrainReplicas;

constexpr int kLayers = 8;

using Parameters = std::map<std::string, tensorflow::AttrValue>;

Parameters Texts(const std::vector<std::pair<std::string, std::string>>& texts) {
  Parameters parameters;
  for (const auto& [name, text] : texts) parameters[name].set_s(text);
  return parameters;
}

GrapplerItem With(const GrapplerItem& item, const GraphDef& graph) {
  GrapplerItem other = item;
  other.graph = graph;
  return other;
}

// What one worker runs under these options.
GraphDef Optimized(const GrapplerItem& item, const Parameters& parameters) {
  tensorflow::RewriterConfig_CustomGraphOptimizer config;
  for (const auto& [name, value] : parameters) (*config.mutable_parameter_map())[name] = value;
  LmsOptimizer optimizer;
  EXPECT_TRUE(optimizer.Init(&config).ok());
  GraphDef output;
  EXPECT_FALSE(optimizer.Optimize(nullptr, item, &output).ok());
  return optimizer.Optimize(nullptr, item, &output).ok() ? output : item.graph;
}

// The names of the collective operations of each device, in their order.
std::vector<std::vector<std::string>> OrderOf(const GrapplerItem& item) {
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  const Collectives found = FindCollectives(item.graph, index);
  EXPECT_EQ(found.problem, "");
  std::vector<std::vector<std::string>> names;
  for (const std::vector<int>& instance : found.instances) {
    names.emplace_back();
    for (const int node : instance) names.back().push_back(item.graph.node(node).name());
  }
  return names;
}

// Runs the graphs of all workers beside each other, each op as soon as it may. A collective operation ends when its
// part has begun on all devices of all workers. `outcomes`: of all predicates, on each worker; what is on the other
// side is dead, and ends without having begun. Returns the ops that never end.
std::set<std::string> NeverEnding(const std::vector<GrapplerItem>& workers, const std::vector<int>& outcomes = {}) {
  struct Worker {
    GraphIndex index;
    std::set<int> begun;
    std::set<int> ended;
    std::set<int> dead;
  };
  std::vector<Worker> states(workers.size());
  // The keys of instances are handed out as the step is traced: in the order of the graph as it came, by name.
  const auto instance_of = [](const NodeDef& node) {
    return node.name().rfind("replica_1/", 0) == 0 ? node.name().substr(10) : node.name();
  };
  std::map<std::string, size_t> parts;  // of each instance, on all workers
  std::map<std::string, size_t> begun;
  for (size_t w = 0; w < workers.size(); ++w) {
    EXPECT_TRUE(states[w].index.Build(workers[w]).ok());
    for (int i = 0; i < states[w].index.size(); ++i) {
      const NodeDef& node = workers[w].graph.node(i);
      if (states[w].index[i].live && IsCollective(node.op())) ++parts[instance_of(node)];
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (size_t w = 0; w < workers.size(); ++w) {
      Worker& state = states[w];
      for (int i = 0; i < state.index.size(); ++i) {
        const NodeDef& node = workers[w].graph.node(i);
        const auto ended = [&](int n) { return state.ended.count(n) != 0; };
        const auto dead = [&](const TensorRef& tensor) {
          if (state.dead.count(tensor.node) != 0) return true;
          return workers[w].graph.node(tensor.node).op() == "Switch" && tensor.port != outcomes.at(w);
        };
        if (!state.index[i].live || ended(i)) continue;
        const auto& inputs = state.index[i].inputs;
        const auto& controls = state.index[i].controls;
        if (!std::all_of(controls.begin(), controls.end(), ended)) continue;
        const auto arrived = [&](const TensorRef& t) { return ended(t.node); };
        const auto alive = [&](const TensorRef& t) { return ended(t.node) && !dead(t); };
        const bool merge = node.op() == "Merge";
        const bool first = merge && std::any_of(inputs.begin(), inputs.end(), alive);
        if (!first && !std::all_of(inputs.begin(), inputs.end(), arrived)) continue;
        const bool waits_for_dead = !merge && std::any_of(controls.begin(), controls.end(),
                                                          [&](int control) { return state.dead.count(control) != 0; });
        if (!first && (waits_for_dead || merge || std::any_of(inputs.begin(), inputs.end(), dead))) {
          state.dead.insert(i);
        } else if (IsCollective(node.op())) {
          if (state.begun.insert(i).second) {
            more = true;
            ++begun[instance_of(node)];
          }
          if (begun[instance_of(node)] < parts[instance_of(node)]) continue;
        }
        state.ended.insert(i);
        more = true;
      }
    }
  }
  std::set<std::string> never;
  for (size_t w = 0; w < workers.size(); ++w) {
    for (int i = 0; i < states[w].index.size(); ++i) {
      if (!states[w].index[i].live || states[w].ended.count(i) != 0) continue;
      never.insert("worker " + std::to_string(w) + ": " + workers[w].graph.node(i).name());
    }
  }
  return never;
}

class WorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ReportStore::Global().Clear();
    ::setenv("LMS_PROFILE_DIR", "/nonexistent", 1);
  }

  // Times that turn what is cheap upside down.
  static std::string SkewedProfile(const GrapplerItem& item) {
    Options options;
    options.time_ops = "workers";
    GraphDef graph;
    EXPECT_TRUE(TimeOps(options, nullptr, item, false, &graph).ok());
    const std::vector<TimedFunction> timed = TimedFunctions().Take("workers");
    std::map<std::string, ProfileEntry> entries;
    double us = 1;
    for (const TimedOp& op : timed.at(0).ops) {
      us = us > 1e5 ? 1 : us * 7;
      entries[op.key] = {us, op.estimated_us, 5};
    }
    const std::string path = (std::filesystem::path(::testing::TempDir()) / "lms_workers.profile").string();
    std::filesystem::remove(path);
    EXPECT_EQ(AddToProfile(path, timed[0].place, entries).problem, "");
    return path;
  }

  // Options that lead to different plans: budgets, measured times, a way to a disk that is fast or slow.
  static std::vector<Parameters> ManyOptions() {
    std::vector<Parameters> many;
    many.push_back(Texts({{"memory_budget", "1GiB"}}));
    many.push_back(Texts({{"memory_budget", "80%"}}));
    many.push_back(Texts({{"memory_budget", "min"}}));
    many.push_back(Texts({{"memory_budget", "60%"}, {"profile", SkewedProfile(testing::TrainChain(kLayers))}}));
    for (const float bandwidth : {1e6F, 1e12F}) {
      many.push_back(Texts({{"memory_budget", "60%"}, {"swap_to", ::testing::TempDir()}}));
      many.back()["swap_out_bandwidth"].set_f(bandwidth);
      many.back()["swap_in_bandwidth"].set_f(bandwidth);
    }
    many.push_back(Texts({{"memory_budget", "70%"}}));
    many.back()["recompute"].set_b(false);
    many.push_back(Texts({{"memory_budget", "60%"}}));
    many.back()["serialize_bytes"].set_i(1);
    return many;
  }
};

TEST_F(WorkersTest, EachKeepsTheOrderAndNoneWaitsForEver) {
  for (const int devices : {1, 2}) {
    const GrapplerItem item = TrainReplicas(kLayers, devices);
    const auto order = OrderOf(item);
    ASSERT_EQ(order.size(), static_cast<size_t>(kLayers));
    std::vector<GrapplerItem> workers;
    std::set<std::string> different;
    for (const Parameters& parameters : ManyOptions()) {
      workers.push_back(With(item, Optimized(item, parameters)));
      different.insert(workers.back().graph.SerializeAsString());
      EXPECT_EQ(OrderOf(workers.back()), order);
      for (const NodeDef& node : workers.back().graph.node()) {
        EXPECT_FALSE(IsOwnName(node.name()) && IsCollective(node.op())) << node.name();
      }
    }
    EXPECT_GE(different.size(), 5U);
    EXPECT_EQ(NeverEnding(workers), std::set<std::string>());
  }
}

// What the check above would say.
TEST_F(WorkersTest, AnotherOrderOnOneWorkerIsADeadlock) {
  const GrapplerItem item = TrainReplicas(kLayers, 1);
  GrapplerItem other = item;
  for (NodeDef& node : *other.graph.mutable_node()) {
    // 3 waits for 5, and 4 for 3, where it is 4 for 5 and 3 for 4.
    const std::map<std::string, std::string> waits = {
        {"reduce_3", "^reduce_5"}, {"reduce_4", "^reduce_3"}, {"reduce_2", "^reduce_4"}};
    if (waits.count(node.name()) != 0) *node.mutable_input()->rbegin() = waits.at(node.name());
  }
  EXPECT_EQ(NeverEnding({other, other}), std::set<std::string>());
  EXPECT_FALSE(NeverEnding({item, other}).empty());
}

// Sparse gradients: gathered in one of two branches.
TEST_F(WorkersTest, BranchesThatExcludeEachOtherAreNoReasonToWait) {
  const GrapplerItem item = testing::TrainWithGathers(kLayers);
  GraphIndex index;
  ASSERT_TRUE(index.Build(item).ok());
  const Collectives order = FindCollectives(item.graph, index);
  ASSERT_EQ(order.instances.size(), kLayers + 5U);
  std::vector<GrapplerItem> workers;
  std::set<std::string> different;
  for (const Parameters& parameters : ManyOptions()) {
    workers.push_back(With(item, Optimized(item, parameters)));
    different.insert(workers.back().graph.SerializeAsString());
    GraphIndex rewritten;
    ASSERT_TRUE(rewritten.Build(workers.back()).ok());
    EXPECT_TRUE(SameOrder(order, FindCollectives(workers.back().graph, rewritten)));
  }
  EXPECT_GE(different.size(), 5U);
  for (const int outcome : {0, 1}) {
    EXPECT_EQ(NeverEnding(workers, std::vector<int>(workers.size(), outcome)), std::set<std::string>());
  }
  // Predicates that differ are a deadlock with stock TensorFlow.
  EXPECT_FALSE(NeverEnding({item, item}, {0, 1}).empty());
}

// first <- control - y <- second: the order of the two rests on y, of which there is a copy.
GrapplerItem OrderThroughATensor() {
  GraphBuilder b;
  b.Feed("x", {256, 64});
  b.Constant("size", {}, tensorflow::DT_INT32);
  b.ShapeConstant("axes", {0, 1});
  const std::vector<testing::Attr> sum = {testing::Text("merge_op", "Add"), testing::Text("final_op", "Id")};
  b.Float("total", "Sum", {"x", "axes"}, {testing::Type("Tidx", tensorflow::DT_INT32)});
  b.Float("first", "CollectiveReduceV2", {"total", "size", "size", "size"}, sum);
  b.Float("y", "Tanh", {"x", "^first"});
  b.Float("used", "Sum", {"y", "axes"}, {testing::Type("Tidx", tensorflow::DT_INT32)});
  b.Float("second", "CollectiveReduceV2", {"y", "size", "size", "size", "^used"}, sum);
  for (NodeDef& node : *b.item().graph.mutable_node()) {
    // The order is y's alone.
    if (node.name() == "used") node.set_input(0, "x");
  }
  b.Fetch("second");
  return b.item();
}

TEST_F(WorkersTest, ACopyBetweenTwoOfThemChangesNoOrder) {
  const Imported step(OrderThroughATensor());
  GrapplerItem rewritten = step.item();
  Plan plan;
  plan.steps.push_back({step.OpOf("second"), step.OpOf("y"), {step.BufferIdOf("y")}, false});
  RewriteResult result;
  ASSERT_TRUE(RewriteGraph(step.imported(), step.index(), plan, RewriteOptions(), &rewritten.graph, &result).ok());
  NodeDef* second = nullptr;
  for (NodeDef& node : *rewritten.graph.mutable_node()) {
    if (node.name() == "second") second = &node;
  }
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(OrderOf(rewritten), OrderOf(step.item()));
  auto& inputs = *second->mutable_input();
  const auto edge = std::find(inputs.begin(), inputs.end(), "^first");
  ASSERT_NE(edge, inputs.end());

  MemoryProfile profile;
  const auto verify = [&] {
    return VerifyRewrite(step.item(), step.index(), rewritten, step.sizes(), 1, SwapLink(), &profile);
  };
  EXPECT_TRUE(verify().ok()) << verify().message();
  // Without that edge nothing but the copy's own waits would be left.
  inputs.erase(edge);
  const std::string copy = RecomputeName(0, "y");
  for (NodeDef& node : *rewritten.graph.mutable_node()) {
    if (node.name() != copy) continue;
    auto& waits = *node.mutable_input();
    waits.erase(std::remove_if(waits.begin(), waits.end(), [](const std::string& w) { return w[0] == '^'; }),
                waits.end());
  }
  EXPECT_NE(verify().message().find("collective operations are no longer in the order"), std::string::npos)
      << verify().message();
}

TEST_F(WorkersTest, AStepOnSeveralProcessesIsLeftAlone) {
  GrapplerItem item = testing::TrainChain(kLayers);
  const std::string task = "/job:worker/replica:0/task:1/device:CPU:0";
  for (NodeDef& node : *item.graph.mutable_node()) node.set_device(task);
  // On one core no more than an order may be asked for: that adds no node.
  EXPECT_NE(Optimized(item, Texts({{"memory_budget", "60%"}})).DebugString(), item.graph.DebugString());
  EXPECT_EQ(ReportStore::Global().All().back().status, ReportStatus::kRewritten);
  for (NodeDef& node : *item.graph.mutable_node()) {
    if (node.op() == "VarHandleOp") node.set_device("/job:ps/replica:0/task:0/device:CPU:0");
  }
  EXPECT_EQ(Optimized(item, Texts({{"memory_budget", "60%"}})).DebugString(), item.graph.DebugString());
  const std::vector<Report> reports = ReportStore::Global().All();
  EXPECT_EQ(reports.back().status, ReportStatus::kSkipped);
  EXPECT_NE(reports.back().reason.find("/job:ps/replica:0/task:0 and /job:worker/replica:0/task:1"), std::string::npos)
      << reports.back().reason;
}

TEST_F(WorkersTest, EachDeviceHasABudgetOfItsOwn) {
  const GrapplerItem item = TrainReplicas(kLayers);
  Optimized(item, Texts({{"memory_budget", "CPU:0=60%, CPU:1=80%"}}));
  const std::vector<Report> reports = ReportStore::Global().All();
  ASSERT_EQ(reports.size(), 2U);
  for (const Report& report : reports) {
    EXPECT_EQ(report.status, ReportStatus::kRewritten) << report.reason;
    EXPECT_EQ(report.budget, report.device == testing::kCpu ? "60%" : "80%");
    EXPECT_LE(report.peak_after_bytes, report.budget_bytes);
  }
  EXPECT_NE(reports[0].budget_bytes, reports[1].budget_bytes);
}

}  // namespace
}  // namespace lms
