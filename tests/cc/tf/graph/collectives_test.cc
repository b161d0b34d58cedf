#include "cc/tf/graph/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/core/report/report_store.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/pass/optimizer.h"
#include "tests/cc/tf/replicas.h"

namespace lms {
namespace {

using testing::Imported;
using testing::ReplicaName;
using testing::TrainReplicas;

tensorflow::NodeDef* Mutable(tensorflow::grappler::GrapplerItem* item, const std::string& name) {
  for (auto& node : *item->graph.mutable_node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

Collectives Find(const tensorflow::grappler::GrapplerItem& item) {
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  return FindCollectives(item.graph, index);
}

std::string Wait(const tensorflow::grappler::GrapplerItem& item) {
  GraphIndex index;
  EXPECT_TRUE(index.Build(item).ok());
  return UnknownWait(item, index);
}

TEST(CollectivesTest, PartsOfOneInstanceAreThoseOfTheSamePlace) {
  const auto item = TrainReplicas(3);
  const Collectives found = Find(item);
  EXPECT_EQ(found.problem, "");
  ASSERT_EQ(found.instances.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    // The backward pass comes to the last layer first.
    const std::string name = "reduce_" + std::to_string(2 - i);
    std::set<std::string> names;
    for (const int node : found.instances[i]) names.insert(item.graph.node(node).name());
    EXPECT_EQ(names, (std::set<std::string>{name, "replica_1/" + name}));
  }
  EXPECT_EQ(Wait(item), "");
  GraphIndex index;
  ASSERT_TRUE(index.Build(item).ok());
  EXPECT_NE(HiddenWait(item, index), "");
}

TEST(CollectivesTest, AGraphWithoutAnyHasNone) {
  const Collectives found = Find(testing::TrainChain(2));
  EXPECT_TRUE(found.instances.empty());
  EXPECT_EQ(found.problem, "");
}

TEST(CollectivesTest, WithoutAnOrderNobodyKnowsWhichBelongTogether) {
  auto item = TrainReplicas(3);
  tensorflow::NodeDef* const reduce = Mutable(&item, "replica_1/reduce_0");
  reduce->mutable_input()->RemoveLast();  // "^replica_1/reduce_1"
  // Its gradient comes after the others, but may be there before they have been reduced.
  const Collectives found = Find(item);
  EXPECT_TRUE(found.instances.empty());
  EXPECT_NE(found.problem.find("are in no order"), std::string::npos) << found.problem;
  EXPECT_NE(Wait(item), "");
}

TEST(CollectivesTest, DevicesWithDifferentNumbers) {
  auto item = TrainReplicas(2);
  *Mutable(&item, "replica_1/update_0")->mutable_input(1) = "replica_1/weight_grad_0";
  Mutable(&item, "replica_1/reduce_0")->set_op("Identity");
  Mutable(&item, "replica_1/reduce_0")->clear_attr();
  (*Mutable(&item, "replica_1/reduce_0")->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  while (Mutable(&item, "replica_1/reduce_0")->input_size() > 1) {
    Mutable(&item, "replica_1/reduce_0")->mutable_input()->RemoveLast();
  }
  EXPECT_NE(Find(item).problem.find("different numbers"), std::string::npos);
  EXPECT_NE(Wait(item), "");
}

TEST(CollectivesTest, PartsOfDifferentKinds) {
  auto item = TrainReplicas(2);
  (*Mutable(&item, "replica_1/reduce_1")->mutable_attr())["merge_op"].set_s("Max");
  EXPECT_NE(Find(item).problem.find("not of one kind"), std::string::npos);
}

// What one part waits for comes before all parts, and what waits for one after all.
TEST(CollectivesTest, TheOrderKeepsToTheBarriers) {
  auto item = TrainReplicas(3);
  // A long way to one part alone.
  testing::GraphBuilder b;
  std::string late = "replica_1/weight_grad_1";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "replica_1/late_" + std::to_string(i);
    b.Float(name, "Neg", {late})->set_device(testing::kOtherCpu);
    late = name;
  }
  for (const auto& node : b.item().graph.node()) *item.graph.add_node() = node;
  *Mutable(&item, "replica_1/reduce_1")->mutable_input(0) = late;
  const Imported imported(item);
  for (const char* reader : {"update_1", "reduce_0"}) {
    for (int replica = 0; replica < 2; ++replica) {
      EXPECT_GT(imported.OpOf(ReplicaName(replica) + reader), imported.OpOf("reduce_1"));
      EXPECT_GT(imported.OpOf(ReplicaName(replica) + reader), imported.OpOf("replica_1/reduce_1"));
    }
  }
  EXPECT_GT(imported.OpOf("reduce_1"), imported.OpOf(late));
}

class ReplicasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ReportStore::Global().Clear();
    ::setenv("LMS_PROFILE_DIR", "/nonexistent", 1);
  }

  bool Optimize(const tensorflow::grappler::GrapplerItem& item, const std::string& budget) {
    tensorflow::RewriterConfig_CustomGraphOptimizer config;
    (*config.mutable_parameter_map())["memory_budget"].set_s(budget);
    LmsOptimizer optimizer;
    EXPECT_TRUE(optimizer.Init(&config).ok());
    EXPECT_FALSE(optimizer.Optimize(nullptr, item, &output_).ok());
    return optimizer.Optimize(nullptr, item, &output_).ok();
  }

  tensorflow::GraphDef output_;
};

TEST_F(ReplicasTest, EachDeviceHasAPlanAndTheSameOne) {
  const auto item = TrainReplicas(8);
  ASSERT_TRUE(Optimize(item, "40%"));
  const std::vector<Report> reports = ReportStore::Global().All();
  ASSERT_EQ(reports.size(), 2U);
  std::set<std::string> devices;
  for (const Report& report : reports) {
    EXPECT_EQ(report.status, ReportStatus::kRewritten) << report.reason;
    EXPECT_LT(report.peak_after_bytes, report.peak_before_bytes);
    EXPECT_EQ(report.other_devices.size(), 1U);
    devices.insert(report.device);
  }
  EXPECT_EQ(devices.size(), 2U);
  EXPECT_NEAR(reports[0].peak_after_bytes, reports[1].peak_after_bytes, 16);  // a constant that both read
  // Copies of the same nodes.
  std::multiset<std::string> copied[2];
  for (const auto& node : output_.node()) {
    if (!IsOwnName(node.name())) continue;
    const int replica = node.device() == testing::kCpu ? 0 : 1;
    const std::string original = OriginalName(node.name());
    EXPECT_EQ(original.rfind("replica_1/", 0) == 0, replica == 1) << node.name();
    copied[replica].insert(original.substr(ReplicaName(replica).size()));
  }
  EXPECT_FALSE(copied[0].empty());
  EXPECT_EQ(copied[0], copied[1]);
}

// No edge leads from device to device that was not there; and with the hidden waits (a part ends when all have begun)
// the rewritten graph can run to its end.
TEST_F(ReplicasTest, NoPartWaitsForWhatWaitsForAnother) {
  for (const char* budget : {"min", "60%", "80%"}) {
    const auto item = TrainReplicas(8);
    ASSERT_TRUE(Optimize(item, budget));
    std::set<std::string> ended;
    std::set<std::string> begun;
    GraphIndex index;
    tensorflow::grappler::GrapplerItem rewritten = item;
    rewritten.graph = output_;
    ASSERT_TRUE(index.Build(rewritten).ok());
    const auto other = [](const std::string& name) {
      return name.rfind("replica_1/", 0) == 0 ? name.substr(10) : "replica_1/" + name;
    };
    for (bool more = true; more;) {
      more = false;
      for (int i = 0; i < index.size(); ++i) {
        const auto& node = output_.node(i);
        if (!index[i].live || ended.count(node.name()) != 0) continue;
        const auto is_there = [&](int n) { return ended.count(output_.node(n).name()) != 0; };
        const bool ready = std::all_of(index[i].inputs.begin(), index[i].inputs.end(),
                                       [&](const auto& t) { return is_there(t.node); }) &&
                           std::all_of(index[i].controls.begin(), index[i].controls.end(), is_there);
        if (!ready) continue;
        more |= begun.insert(node.name()).second;
        if (IsCollective(node.op()) && begun.count(other(node.name())) == 0) continue;
        ended.insert(node.name());
        more = true;
      }
    }
    for (int i = 0; i < index.size(); ++i) {
      if (index[i].live) {
        EXPECT_EQ(ended.count(output_.node(i).name()), 1U) << output_.node(i).name();
      }
    }
    for (int i = 0; i < item.graph.node_size(); ++i) {
      for (const int control : index[i].controls) {
        const std::string edge = "^" + output_.node(control).name();
        const auto& inputs = item.graph.node(i).input();
        if (std::find(inputs.begin(), inputs.end(), edge) != inputs.end()) continue;
        EXPECT_EQ(output_.node(i).device(), output_.node(control).device()) << output_.node(i).name() << edge;
      }
    }
  }
}

}  // namespace
}  // namespace lms
