#include "cc/tf/pass/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cc/core/base/fault_injection.h"
#include "cc/core/base/text_file.h"
#include "cc/core/graph/node_names.h"
#include "cc/core/profile/profile_file.h"
#include "cc/core/report/earlier_plans.h"
#include "cc/core/report/report_store.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/text/text_format.h"
#include "cc/tf/pass/library.h"
#include "cc/tf/pass/profile_choice.h"
#include "cc/tf/pass/time_ops.h"
#include "cc/tf/pass/timed_functions.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"
#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"
#include "tests/cc/tf/replicas.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::grappler::GrapplerItem;
using testing::kTile;
using Config = tensorflow::RewriterConfig_CustomGraphOptimizer;

class OptimizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ReportStore::Global().Clear();
    EarlierPlans::Global().Clear();
    ::setenv("LMS_PROFILE_DIR", "/nonexistent", 1);  // whatever this machine's user has measured
  }
  void TearDown() override { InjectFailure(""); }

  void Set(const std::string& option, const std::string& value) {
    (*config_.mutable_parameter_map())[option].set_s(value);
  }
  void SetBudget(int64_t bytes) { (*config_.mutable_parameter_map())["memory_budget"].set_i(bytes); }

  // Both iterations that Grappler makes by default. True where the graph was changed; it is in output_ then.
  bool Optimize(const GrapplerItem& item) {
    proto_.set_inter_op_parallelism_threads(2);  // whatever processors there are
    LmsOptimizer optimizer;
    EXPECT_TRUE(optimizer.InitWithConfig(proto_, &config_).ok());
    output_.Clear();
    const absl::Status first = optimizer.Optimize(nullptr, item, &output_);
    EXPECT_TRUE(absl::IsAborted(first));
    EXPECT_EQ(output_.node_size(), 0);
    const absl::Status second = optimizer.Optimize(nullptr, item, &output_);
    EXPECT_TRUE(second.ok() || absl::IsAborted(second)) << second.message();
    if (!second.ok()) {
      EXPECT_EQ(output_.node_size(), 0);
    }
    return second.ok();
  }

  Report Last() const {
    const std::vector<Report> reports = ReportStore::Global().All();
    EXPECT_FALSE(reports.empty());
    return reports.empty() ? Report() : reports.back();
  }

  // What the last report says about a profile; "" for nothing.
  std::string ProfileWarning() const {
    for (const std::string& warning : Last().warnings) {
      if (warning.find("profile") != std::string::npos) return warning;
    }
    return "";
  }

  static int OwnNodes(const GraphDef& graph) {
    int own = 0;
    for (const auto& node : graph.node()) own += IsOwnName(node.name()) ? 1 : 0;
    return own;
  }

  tensorflow::ConfigProto proto_;
  Config config_;
  GraphDef output_;
};

TEST_F(OptimizerTest, AStepThatFitsIsLeftAlone) {
  Set("memory_budget", "1GiB");
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kFits);
  EXPECT_EQ(Last().peak_after_bytes, Last().peak_before_bytes);
  EXPECT_EQ(Last().nodes_after, Last().nodes_before);
  EXPECT_TRUE(Last().decisions.empty());
}

TEST_F(OptimizerTest, AStepOverItsBudgetIsRewrittenToStayUnderIt) {
  // Eight layers. Resident: x and eight weights of a quarter tile: 3 tiles (and the axes of a sum). At the turn eight
  // activations and the gradient are held: 9 tiles, or 8 where storage is taken over.
  const GrapplerItem item = testing::TrainChain(8);
  const int64_t budget = 3 * kTile + 6 * kTile;
  SetBudget(budget);
  ASSERT_TRUE(Optimize(item));
  const Report report = Last();
  EXPECT_EQ(report.status, ReportStatus::kRewritten) << report.reason;
  EXPECT_EQ(report.function, "step");
  EXPECT_EQ(report.resident_bytes, 3 * kTile + 8);
  EXPECT_GT(report.peak_before_bytes, budget);
  EXPECT_LE(report.peak_after_bytes, budget);
  EXPECT_EQ(report.budget_bytes, budget);
  EXPECT_EQ(report.device, testing::kCpu);
  EXPECT_FALSE(report.decisions.empty());
  EXPECT_GT(report.predicted_time_overhead, 0);
  EXPECT_EQ(report.nodes_before, item.graph.node_size());
  EXPECT_EQ(report.nodes_after, output_.node_size());
  EXPECT_GT(OwnNodes(output_), 0);
  // What is handed out can be read again and is not rewritten twice.
  GrapplerItem again = item;
  again.graph = output_;
  EXPECT_FALSE(Optimize(again));
  EXPECT_EQ(Last().status, ReportStatus::kSkipped);
}

TEST_F(OptimizerTest, ConstantsOfPlansBeforeAreResident) {
  GrapplerItem item = testing::TrainChain(8);
  testing::GraphBuilder more;
  more.Constant("constant", {256, 64});
  more.Float("shifted", "AddV2", {"x", "constant"});
  item.graph.MergeFrom(more.item().graph);
  item.fetch.push_back("shifted");
  SetBudget(10 * kTile);
  ASSERT_TRUE(Optimize(item));
  const Report first = Last();
  ASSERT_EQ(first.constant_bytes, kTile + 8);
  ASSERT_TRUE(Optimize(item));  // under the same options it is the same instance
  EXPECT_EQ(Last().resident_bytes, first.resident_bytes);
  SetBudget(11 * kTile);
  ASSERT_TRUE(Optimize(item));
  EXPECT_EQ(Last().resident_bytes, first.resident_bytes + first.constant_bytes);
  EXPECT_EQ(Last().constant_bytes, first.constant_bytes);
  EXPECT_LE(Last().peak_after_bytes, 11 * kTile);
  SetBudget(12 * kTile);
  ASSERT_TRUE(Optimize(item));
  EXPECT_EQ(Last().resident_bytes, first.resident_bytes + 2 * first.constant_bytes);
  item.id = "another";
  ASSERT_TRUE(Optimize(item));
  EXPECT_EQ(Last().resident_bytes, first.resident_bytes);
}

TEST_F(OptimizerTest, TheSameGraphGetsTheSameRewrite) {
  Set("memory_budget", "60%");
  ASSERT_TRUE(Optimize(testing::TrainChain(8)));
  const std::string first = output_.DebugString();
  ASSERT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_TRUE(output_.DebugString() == first);
}

TEST_F(OptimizerTest, AnInfeasibleBudgetNamesOneThatIsNot) {
  SetBudget(3 * kTile + 100);
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  const Report infeasible = Last();
  EXPECT_EQ(infeasible.status, ReportStatus::kInfeasible);
  EXPECT_GT(infeasible.min_budget_bytes, 3 * kTile);
  EXPECT_NE(infeasible.reason.find(std::to_string(infeasible.min_budget_bytes)), std::string::npos);
  SetBudget(infeasible.min_budget_bytes);
  EXPECT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kRewritten) << Last().reason;
}

// The peak itself would not do: the planner leaves a margin of every budget unused.
TEST_F(OptimizerTest, TheLeastPeakNamesTheBudgetThatLeadsToIt) {
  Set("memory_budget", "min");
  ASSERT_TRUE(Optimize(testing::TrainChain(8)));
  const Report least = Last();
  EXPECT_EQ(least.status, ReportStatus::kRewritten) << least.reason;
  EXPECT_EQ(least.budget_bytes, least.min_budget_bytes);
  EXPECT_GT(least.budget_bytes, least.peak_after_bytes);
  SetBudget(least.min_budget_bytes);
  EXPECT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kRewritten) << Last().reason;
  SetBudget(least.peak_after_bytes);
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kInfeasible);
  EXPECT_EQ(Last().min_budget_bytes, least.min_budget_bytes);
}

TEST_F(OptimizerTest, TheLeastBudgetThatIsFoundForOneThatCannotBeMetCanBe) {
  SetBudget(kTile);
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  ASSERT_EQ(Last().status, ReportStatus::kInfeasible);
  SetBudget(Last().min_budget_bytes);
  EXPECT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kRewritten) << Last().reason;
}

TEST_F(OptimizerTest, ABudgetUnderTheWeightsSaysSo) {
  SetBudget(kTile);
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kInfeasible);
  EXPECT_NE(Last().reason.find("weights, inputs and constants alone take"), std::string::npos);
}

TEST_F(OptimizerTest, StrictMakesAnInfeasibleStepFail) {
  SetBudget(kTile);
  (*config_.mutable_parameter_map())["strict"].set_b(true);
  ASSERT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kInfeasible);
  const std::string fail = StrictName("budget_not_met");
  const tensorflow::NodeDef* node = testing::FindNode(output_, fail);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->op(), "Assert");
  // Everything that may have an effect waits for it; what is fed or constant does not.
  EXPECT_TRUE(testing::HasInput(output_, "update_0", "^" + fail));
  EXPECT_TRUE(testing::HasInput(output_, "loss", "^" + fail));
  EXPECT_FALSE(testing::HasInput(output_, "x", "^" + fail));
  EXPECT_FALSE(testing::HasInput(output_, "axes", "^" + fail));
  // The words are in the graph.
  const tensorflow::NodeDef* message = testing::FindNode(output_, StrictName("message"));
  ASSERT_NE(message, nullptr);
  EXPECT_NE(message->attr().at("value").tensor().string_val(0).find("lms (strict): the budget of"), std::string::npos);
}

TEST_F(OptimizerTest, StrictLeavesAFeasibleStepAlone) {
  (*config_.mutable_parameter_map())["strict"].set_b(true);
  Set("memory_budget", "70%");
  ASSERT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(testing::FindNode(output_, StrictName("budget_not_met")), nullptr);
}

TEST_F(OptimizerTest, ProblemsWithOptionsAreAllReported) {
  Set("memory_buget", "1GiB");
  Set("strict", "maybe");
  (*config_.mutable_parameter_map())["unknown_dim"].mutable_list();
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kFailed);
  EXPECT_EQ(Last().stage, "options");
  for (const char* word : {"memory_buget", "strict='maybe'", "'unknown_dim' has a value of a type"}) {
    EXPECT_NE(Last().reason.find(word), std::string::npos) << Last().reason;
  }
}

TEST_F(OptimizerTest, GraphsAndPlansAreDumpedUnderTheReportsNumber) {
  const std::filesystem::path root = std::filesystem::path(::testing::TempDir()) / "lms_optimizer_dump";
  std::filesystem::remove_all(root);
  Set("dump_graphs", root.string());
  Set("memory_budget", "60%");
  ASSERT_TRUE(Optimize(testing::TrainChain(8)));
  const Report report = Last();
  const std::string name = (root / ("step-" + std::to_string(report.sequence))).string();
  std::string text;
  MemGraph graph;
  ASSERT_EQ(ReadTextFile(name + ".lmsgraph", &text), "");
  ASSERT_EQ(ReadGraph(text, "graph", {}, &graph), "");
  EXPECT_EQ(WriteGraph(graph), text);
  EXPECT_EQ(graph.ResidentBytes(), report.resident_bytes);
  EXPECT_EQ(graph.ops.size(), report.timeline_before.size());
  EXPECT_EQ(*std::max_element(report.timeline_before.begin(), report.timeline_before.end()), report.peak_before_bytes);
  EXPECT_EQ(graph.TotalCostUs(), report.step_time_us);
  Plan plan;
  ASSERT_EQ(ReadTextFile(name + ".lmsplan", &text), "");
  ASSERT_EQ(ReadPlan(text, "plan", graph, &plan), "");
  EXPECT_EQ(ValidatePlan(graph, plan), "");
  EXPECT_EQ(plan.steps.size(), report.decisions.size());
  EXPECT_DOUBLE_EQ(plan.CostUs(graph), report.predicted_time_overhead * report.step_time_us);
  // A step that fits is written too, costs included, and has no plan.
  Set("memory_budget", "1GiB");
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kFits);
  const std::string fits = (root / ("step-" + std::to_string(Last().sequence))).string();
  ASSERT_EQ(ReadTextFile(fits + ".lmsgraph", &text), "");
  ASSERT_EQ(ReadGraph(text, "graph", {}, &graph), "");
  EXPECT_EQ(graph.TotalCostUs(), report.step_time_us);
  EXPECT_FALSE(std::filesystem::exists(fits + ".lmsplan"));
  std::filesystem::remove_all(root);
}

TEST_F(OptimizerTest, ADumpThatCannotBeWrittenIsAWarning) {
  Set("dump_graphs", "/dev/null/graphs");
  Set("memory_budget", "60%");
  EXPECT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kRewritten);
  // The graph and the plan. (On a slow machine, or under a sanitizer, the clock may end planning, which is told as
  // well.)
  const std::vector<std::string> warnings = Last().warnings;
  EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                          [](const std::string& warning) { return warning.rfind("dump_graphs: ", 0) == 0; }),
            2);
  ASSERT_FALSE(warnings.empty());
  EXPECT_EQ(Last().warnings[0].rfind("dump_graphs: /dev/null/graphs: cannot be made: ", 0), 0u) << Last().warnings[0];
}

TEST_F(OptimizerTest, NoConfigIsTheDefaults) {
  LmsOptimizer optimizer;
  EXPECT_TRUE(optimizer.Init(nullptr).ok());
  GraphDef output;
  EXPECT_TRUE(absl::IsAborted(optimizer.Optimize(nullptr, testing::TrainChain(2), &output)));
  EXPECT_TRUE(absl::IsAborted(optimizer.Optimize(nullptr, testing::TrainChain(2), &output)));
  EXPECT_EQ(Last().status, ReportStatus::kFits);
  EXPECT_NE(Last().budget.find("auto ("), std::string::npos);
}

TEST_F(OptimizerTest, EachFunctionHasItsOwnIterations) {
  Set("memory_budget", "60%");
  LmsOptimizer optimizer;
  ASSERT_TRUE(optimizer.Init(&config_).ok());
  GrapplerItem one = testing::TrainChain(8);
  GrapplerItem two = one;
  two.id = "another";
  GraphDef output;
  EXPECT_TRUE(absl::IsAborted(optimizer.Optimize(nullptr, one, &output)));
  EXPECT_TRUE(absl::IsAborted(optimizer.Optimize(nullptr, two, &output)));
  EXPECT_TRUE(optimizer.Optimize(nullptr, one, &output).ok());
  EXPECT_TRUE(optimizer.Optimize(nullptr, two, &output).ok());
}

TEST_F(OptimizerTest, AGraphThatIsNoGraphIsReportedAndLeftAlone) {
  Set("memory_budget", "min");
  GrapplerItem item = testing::TrainChain(2);
  item.graph.mutable_node(3)->set_input(0, "nowhere");
  EXPECT_FALSE(Optimize(item));
  EXPECT_EQ(Last().status, ReportStatus::kFailed);
  EXPECT_EQ(Last().stage, "index");
  EXPECT_NE(Last().reason.find("nowhere"), std::string::npos);
}

// Other optimizers leave such a graph, of a loop in a branch that is never taken.
TEST_F(OptimizerTest, OfACycleTheReportSaysThatTensorFlowDropsItAndSoDoesTheLog) {
  Set("memory_budget", "min");
  GrapplerItem item = testing::TrainChain(2);
  const testing::Imported step(item);
  item.graph.mutable_node(step.index().Find("tanh_0"))->add_input("^loss");
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(Optimize(item));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(Last().status, ReportStatus::kSkipped);
  EXPECT_EQ(Last().stage, "index");
  EXPECT_EQ(Last().reason,
            "TensorFlow drops the whole result of its graph optimizers: the graph has a cycle outside its loops");
  EXPECT_NE(log.find(Last().reason), std::string::npos) << log;
}

TEST_F(OptimizerTest, AnEmptyGraphAndOneWithoutResultsAreLeftAlone) {
  Set("memory_budget", "min");
  EXPECT_FALSE(Optimize(testing::GraphBuilder().item()));
  EXPECT_EQ(Last().status, ReportStatus::kSkipped);
  testing::GraphBuilder b;
  b.Parse("x = Const[4]; y = Relu(x)");
  EXPECT_FALSE(Optimize(b.item()));
  EXPECT_EQ(Last().status, ReportStatus::kSkipped);
  EXPECT_EQ(Last().reason, "no op of the graph runs");
}

class OptimizerStage : public OptimizerTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(OptimizerStage, AFailureLeavesTheGraphAlone) {
  Set("memory_budget", "60%");
  ASSERT_TRUE(InjectFailure(GetParam()));
  EXPECT_FALSE(Optimize(testing::TrainChain(8)));
  EXPECT_EQ(Last().status, ReportStatus::kFailed);
  EXPECT_EQ(Last().stage, GetParam());
  EXPECT_NE(Last().reason.find("failure injected into stage " + GetParam()), std::string::npos) << Last().reason;
  InjectFailure("");
  EXPECT_TRUE(Optimize(testing::TrainChain(8)));
}

INSTANTIATE_TEST_SUITE_P(Each, OptimizerStage, ::testing::ValuesIn(Stages()),
                         [](const ::testing::TestParamInfo<std::string>& stage) { return stage.param; });

TEST_F(OptimizerTest, OnGpusASwapperBesideItIsNamed) {
  GrapplerItem item = testing::TrainChain(8);
  for (tensorflow::NodeDef& node : *item.graph.mutable_node()) {
    node.set_device("/job:localhost/replica:0/task:0/device:GPU:0");
  }
  Set("memory_budget", "60%");
  const auto warned = [this] {
    const std::vector<std::string> warnings = Last().warnings;
    return std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
      return warning.find("SCHEDULING_HEURISTICS") != std::string::npos;
    });
  };
  EXPECT_TRUE(Optimize(item));
  EXPECT_TRUE(warned());
  auto* const rewrites = proto_.mutable_graph_options()->mutable_rewrite_options();
  rewrites->set_memory_optimization(tensorflow::RewriterConfig::SCHEDULING_HEURISTICS);
  EXPECT_TRUE(Optimize(item));
  EXPECT_FALSE(warned());
  rewrites->set_memory_optimization(tensorflow::RewriterConfig::SWAPPING_HEURISTICS);
  EXPECT_TRUE(Optimize(item));
  EXPECT_TRUE(warned());
  // On a CPU it does not swap.
  EXPECT_TRUE(Optimize(testing::TrainChain(8)));
  EXPECT_FALSE(warned());
}

// Of a step on two devices, wherever planning one of them fails.
TEST_F(OptimizerTest, WhatIsSaidToBeRewrittenIs) {
  Set("memory_budget", "60%");
  int second_alone_failed = 0;
  for (const std::string& stage : Stages()) {
    for (const std::string& kind : FailureKinds()) {
      for (int at = 1; at <= 4; ++at) {
        ReportStore::Global().Clear();
        ASSERT_TRUE(InjectFailure(stage, kind, at, /*times=*/1));
        const bool changed = Optimize(testing::TrainReplicas(8));
        InjectFailure("");
        int rewritten = 0;
        int failed = 0;
        for (const Report& report : ReportStore::Global().All()) {
          rewritten += report.status == ReportStatus::kRewritten ? 1 : 0;
          failed += report.status == ReportStatus::kFailed ? 1 : 0;
        }
        EXPECT_EQ(changed, rewritten > 0) << stage << " " << kind << " " << at;
        second_alone_failed += rewritten == 1 && failed == 1 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(second_alone_failed, 0);
}

TEST(OptimizerRegistration, ASecondCopyFindsTheNameTaken) {
  EXPECT_TRUE(RegisterOptimizer());
  EXPECT_FALSE(RegisterOptimizer());
  EXPECT_NE(tensorflow::grappler::CustomGraphOptimizerRegistry::CreateByNameOrNull(kOptimizerName), nullptr);
}

TEST(Failure, AStageThatDoesNotExistIsRefused) {
  EXPECT_FALSE(InjectFailure("nonsense"));
  EXPECT_NO_THROW(FailIfInjected("plan"));
}

// What every op of the step is measured to take, as a profile.
std::string ProfileOf(const GrapplerItem& item, double us, const std::string& name) {
  Options options;
  options.time_ops = "profile";
  GraphDef graph;
  EXPECT_TRUE(TimeOps(options, nullptr, item, false, &graph).ok());
  const std::vector<TimedFunction> timed = TimedFunctions().Take("profile");
  std::map<std::string, ProfileEntry> entries;
  for (const TimedOp& op : timed.at(0).ops) entries[op.key] = {us, op.estimated_us, 5};
  const std::string path = (std::filesystem::path(::testing::TempDir()) / name).string();
  std::filesystem::remove(path);
  EXPECT_EQ(AddToProfile(path, timed[0].place, entries).problem, "");
  return path;
}

TEST_F(OptimizerTest, AProfileOfTheStepPricesIt) {
  const GrapplerItem item = testing::TrainChain(8);
  const std::string path = ProfileOf(item, 7, "lms_step.profile");
  SetBudget(9 * kTile);
  Set("profile", "none");
  ASSERT_TRUE(Optimize(item));
  EXPECT_EQ(Last().profile, "");
  EXPECT_EQ(Last().profiled_share, 0);
  for (const Decision& decision : Last().decisions) EXPECT_EQ(decision.priced_by, "estimate");
  Set("profile", path);
  ASSERT_TRUE(Optimize(item));
  const Report report = Last();
  EXPECT_EQ(report.profile, path);
  EXPECT_DOUBLE_EQ(report.profiled_share, 1);
  EXPECT_DOUBLE_EQ(report.step_time_us, 7.0 * item.graph.node_size());
  int recomputed = 0;
  for (const Decision& decision : report.decisions) {
    EXPECT_EQ(decision.priced_by, "profile");
    if (decision.kind != "recompute") continue;
    EXPECT_EQ(decision.cost_us, 7);
    ++recomputed;
  }
  EXPECT_GT(recomputed, 0);
  EXPECT_DOUBLE_EQ(report.predicted_time_overhead, 7.0 * recomputed / report.step_time_us);
  EXPECT_EQ(ProfileWarning(), "");
}

TEST_F(OptimizerTest, TheDevicesOwnProfileIsUsedByItself) {
  const GrapplerItem item = testing::TrainChain(8);
  const std::filesystem::path directory = std::filesystem::path(::testing::TempDir()) / "lms_own_profiles";
  std::filesystem::create_directories(directory);
  const ProfilePlace place = PlaceOf("", nullptr, 0);
  ::setenv("LMS_PROFILE_DIR", directory.c_str(), 1);
  const std::string own = DefaultProfilePath(place.device);
  std::filesystem::rename(ProfileOf(item, 7, "lms_moved.profile"), own);
  SetBudget(9 * kTile);
  ASSERT_TRUE(Optimize(item));
  EXPECT_EQ(Last().profile, own);
  EXPECT_DOUBLE_EQ(Last().profiled_share, 1);
  // With another number of threads it is another place, which has no profile.
  EXPECT_NE(DefaultProfilePath(PlaceOf("", nullptr, 1000).device), own);
  std::filesystem::remove_all(directory);
}

TEST_F(OptimizerTest, AProfileThatDoesNotBelongHereIsRefusedWithTheReason) {
  const GrapplerItem item = testing::TrainChain(8);
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "lms_foreign.profile").string();
  SetBudget(9 * kTile);
  Set("profile", path);
  const ProfilePlace here = PlaceOf("", nullptr, 0);
  const auto warning = [this, &item] {
    EXPECT_TRUE(Optimize(item));
    EXPECT_EQ(Last().profile, "");
    EXPECT_EQ(Last().profiled_share, 0);
    return ProfileWarning();
  };
  EXPECT_NE(warning().find("does not exist"), std::string::npos);
  ProfilePlace other = here;
  other.device = "CPU of another make";
  ASSERT_EQ(AddToProfile(path, other, {{"Tanh()", {1, 1, 1}}}).problem, "");
  EXPECT_NE(warning().find("measured on CPU of another make"), std::string::npos);
  other = here;
  other.tensorflow = "1.0";
  ASSERT_EQ(AddToProfile(path, other, {{"Tanh()", {1, 1, 1}}}).problem, "");
  EXPECT_NE(warning().find("with TensorFlow 1.0, this is"), std::string::npos);
  ASSERT_EQ(WriteTextFile(path, "lms-profile 1\nnonsense\n"), "");
  EXPECT_NE(warning().find(path + ":2: there is no statement \"nonsense\""), std::string::npos);
  ASSERT_EQ(AddToProfile(path, here, {{"Tanh()", {1, 1, 1}}}).problem, "");
  EXPECT_TRUE(Optimize(item));
  EXPECT_EQ(Last().profile, path);
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".old");
}

TEST_F(OptimizerTest, WhatStepsTakeMoreIsAMargin) {
  const GrapplerItem item = testing::TrainChain(8);
  const int64_t budget = 3 * kTile + 8 + 8 * kTile;
  SetBudget(budget);
  ASSERT_TRUE(Optimize(item));
  const Report first = Last();
  Set("_feedback", "1.25|call 3 took more");
  ASSERT_TRUE(Optimize(item));
  const Report second = Last();
  EXPECT_EQ(second.budget_bytes, budget);
  // 8 tiles / 1.25.
  EXPECT_LE(second.peak_after_bytes - second.resident_bytes, 8 * kTile * 4 / 5);
  EXPECT_LT(second.peak_after_bytes, first.peak_after_bytes);
  EXPECT_NE(second.reason.find("; planned again: call 3 took more"), std::string::npos);
  // What no plan can make up for in full is made up for in part, or the first plan stays.
  Set("_feedback", "100|call 5 took much more");
  ASSERT_TRUE(Optimize(item));
  EXPECT_EQ(Last().status, ReportStatus::kRewritten);
  EXPECT_LE(Last().peak_after_bytes, first.peak_after_bytes);
  // A step that was said to fit.
  SetBudget(first.peak_before_bytes + 1);
  Set("_feedback", "1.25|call 3 took more");
  ASSERT_TRUE(Optimize(item));
  EXPECT_EQ(Last().status, ReportStatus::kRewritten);
}

TEST_F(OptimizerTest, SizesOfArgumentsAreInTheReport) {
  testing::GraphBuilder b;
  b.Feed("x", {-1, 64});
  b.Parse("tanh = Tanh(x); exp = Exp(tanh); fetch exp");
  Set("memory_budget", "1GiB");
  Set("unknown_dim", "x=100");
  EXPECT_FALSE(Optimize(b.item()));
  EXPECT_EQ(Last().status, ReportStatus::kFits);
  EXPECT_EQ(Last().sizes, std::vector<std::string>{"x:0 = 100 (unknown_dim)"});
  EXPECT_EQ(Last().resident_bytes, 100 * 64 * 4);
  EXPECT_TRUE(Last().warnings.empty());
  Set("unknown_dim", "x:1=100");
  EXPECT_FALSE(Optimize(b.item()));
  EXPECT_EQ(Last().status, ReportStatus::kFailed);
  EXPECT_NE(Last().reason.find("x:1=100 contradicts the shape [?, 64]"), std::string::npos);
  Set("unknown_dim", "y=100");
  EXPECT_FALSE(Optimize(b.item()));
  EXPECT_EQ(Last().sizes, std::vector<std::string>{"x:0 = 32 (assumed)"});
  ASSERT_EQ(Last().warnings.size(), 1u);
  EXPECT_NE(Last().warnings[0].find("it names y"), std::string::npos);
}

TEST_F(OptimizerTest, ALoopWhoseEntryWaitsForItsResultIsLeftAlone) {
  testing::LoopBuilder b;
  b.Parse("late = Tanh(x, ^i_exit); other = Tanh(x)");
  b.Carry("y", "late", "other_switch:1", tensorflow::DT_FLOAT);
  b.Carry("other", "other", "other_switch:1", tensorflow::DT_FLOAT);
  b.Parse("fetch y_exit, i_exit");
  SetBudget(kTile);
  EXPECT_FALSE(Optimize(b.item()));
  EXPECT_EQ(Last().status, ReportStatus::kSkipped);
  EXPECT_NE(Last().reason.find("what enters a loop"), std::string::npos) << Last().reason;
}

}  // namespace
}  // namespace lms
