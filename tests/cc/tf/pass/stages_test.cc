// Each stage of a device's pass by itself, on steps whose sizes are known to the byte.

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/base/fault_injection.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_pass.h"
#include "cc/tf/pass/measure_stage.h"
#include "cc/tf/pass/meet_budget.h"
#include "cc/tf/pass/place_stage.h"
#include "cc/tf/pass/plan_stage.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/pass/rewrite_stage.h"
#include "cc/tf/pass/shortfall.h"
#include "tests/cc/tf/cpu_pool_device.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::grappler::GrapplerItem;
using testing::kTile;

// Eight layers: 3 tiles are resident (and the axes of a sum), about 8 are held at the turn.
class StagesTest : public ::testing::Test {
 protected:
  StagesTest() : item_(testing::TrainChain(8)) {}
  void SetUp() override { ::setenv("LMS_PROFILE_DIR", "/nonexistent", 1); }
  void TearDown() override { InjectFailure(""); }

  const DeviceContext& Context(int64_t budget_bytes) {
    options_.memory_budget.kind = budget_bytes == 0 ? Budget::Kind::kMin : Budget::Kind::kBytes;
    options_.memory_budget.bytes = budget_bytes;
    return ContextOn(nullptr);
  }

  // For the options as they are.
  const DeviceContext& ContextOn(tensorflow::grappler::Cluster* cluster) {
    facts_.emplace(item_, options_);
    stages_.emplace(Deadline(), &report_);
    account_.emplace(&facts_->work, &report_);
    context_.emplace(DeviceContext{options_, cluster, item_, /*threads=*/2, "", *facts_, *stages_, *account_});
    return *context_;
  }

  // All stages up to where a plan is looked for.
  Candidates UpToCandidates(const DeviceContext& context) {
    read_ = ReadGraph(context);
    EXPECT_TRUE(read_.status.ok()) << read_.status;
    PriceOps(context, &read_.imported);
    measured_ = MeasureStep(context, read_);
    goal_ = ResolveGoal(context, read_, measured_).goal;
    Candidates candidates = ImportCandidates(context, read_, goal_, read_.imported);
    EXPECT_TRUE(candidates.status.ok()) << candidates.status;
    FindCandidates(context, read_, &candidates);
    return candidates;
  }

  GrapplerItem item_;
  Options options_;
  Report report_;
  std::optional<StepFacts> facts_;
  std::optional<StageWatch> stages_;
  std::optional<PlanAccount> account_;
  std::optional<DeviceContext> context_;
  ReadStep read_;
  MeasuredStep measured_;
  BudgetGoal goal_;
};

constexpr int64_t kBudget = 3 * kTile + 6 * kTile;

TEST_F(StagesTest, ReadingSaysWhatTheStepIs) {
  const ReadStep read = ReadGraph(Context(kBudget));
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.imported.device, testing::kCpu);
  EXPECT_EQ(static_cast<int>(read.imported.op_of_node.size()), item_.graph.node_size());
  EXPECT_FALSE(read.marks.any());
  EXPECT_EQ(read.hidden, "");
  EXPECT_EQ(read.imported.graph.TotalCostUs(), 0);  // not priced yet
}

TEST_F(StagesTest, WhatCannotBeReadIsAStatus) {
  item_.graph.mutable_node(item_.graph.node_size() - 1)->add_input("^nowhere");
  EXPECT_FALSE(ReadGraph(Context(kBudget)).status.ok());
}

TEST_F(StagesTest, PricesAreEstimatesWithoutAProfile) {
  const DeviceContext& context = Context(kBudget);
  ReadStep read = ReadGraph(context);
  const Prices prices = PriceOps(context, &read.imported);
  EXPECT_GT(read.imported.graph.TotalCostUs(), 0);
  EXPECT_EQ(prices.profile, "");
  EXPECT_EQ(prices.profiled_share, 0);
}

TEST_F(StagesTest, MeasuringSetsTheGoal) {
  const DeviceContext& context = Context(kBudget);
  ReadStep read = ReadGraph(context);
  PriceOps(context, &read.imported);
  const MeasuredStep measured = MeasureStep(context, read);
  const BudgetGoal goal = ResolveGoal(context, read, measured).goal;
  EXPECT_EQ(goal.step().resident, 3 * kTile + 8);
  EXPECT_GT(goal.step().peak, kBudget);
  EXPECT_EQ(goal.step().peak, measured.profile.peak_bytes);
  EXPECT_TRUE(goal.Over());
  EXPECT_EQ(measured.assumption, "");
  EXPECT_EQ(measured.Activations(), measured.profile.peak_bytes - measured.profile.resident_bytes);
}

TEST_F(StagesTest, AnAutomaticBudgetSaysWhereNothingIsKnownOfTheDevice) {
  options_.memory_budget.kind = Budget::Kind::kAuto;
  for (const bool gpu : {false, true}) {
    if (gpu) {
      for (auto& node : *item_.graph.mutable_node()) node.set_device("/job:localhost/replica:0/task:0/device:GPU:0");
    }
    facts_.emplace(item_, options_);
    stages_.emplace(Deadline(), &report_);
    account_.emplace(&facts_->work, &report_);
    const DeviceContext context{options_, nullptr, item_, /*threads=*/2, "", *facts_, *stages_, *account_};
    ReadStep read = ReadGraph(context);
    ASSERT_TRUE(read.status.ok()) << read.status;
    PriceOps(context, &read.imported);
    const AskedFor asked = ResolveGoal(context, read, MeasureStep(context, read));
    EXPECT_FALSE(asked.goal.Over());
    EXPECT_EQ(asked.warning.find("GPU:0 has is not known") != std::string::npos, gpu) << asked.warning;
  }
}

struct Pooled {
  const char* description;
  Budget::Kind kind;
  int64_t bytes;
  double percent;
  int64_t limit_bytes;
  bool nearer;     // the pool's limit than the budget
  bool automatic;  // planned for what the pool has
};

TEST_F(StagesTest, WhereThePoolHasLessThanWasAskedForItsLimitIsTheBudget) {
  const int64_t low = kBudget;
  const int64_t high = 100 * kTile;
  for (const Pooled& c : {Pooled{"more bytes", Budget::Kind::kBytes, high, 0, low, true, true},
                          {"a share that is more", Budget::Kind::kPercent, 0, 95, low, true, true},
                          {"a share that is less", Budget::Kind::kPercent, 0, 30, low, false, false},
                          {"fewer bytes", Budget::Kind::kBytes, low - kTile, 0, low, false, false},
                          {"more bytes, and the step fits", Budget::Kind::kBytes, high, 0, high / 2, true, false}}) {
    SCOPED_TRACE(c.description);
    const testing::PooledCpu cpu(c.limit_bytes);
    options_.memory_budget = Budget();
    options_.memory_budget.kind = c.kind;
    options_.memory_budget.bytes = c.bytes;
    options_.memory_budget.percent = c.percent;
    const DeviceContext& context = ContextOn(cpu.cluster());
    ReadStep read = ReadGraph(context);
    ASSERT_TRUE(read.status.ok()) << read.status;
    PriceOps(context, &read.imported);
    EXPECT_TRUE(read.arenas.empty());
    const MeasuredStep measured = MeasureStep(context, read);
    EXPECT_EQ(PoolLimitIsNearer(context, read, measured), c.nearer);
    if (c.nearer) read.arenas = ReadArenas(context, read.imported.device, true);
    EXPECT_EQ(read.arenas.empty(), !c.nearer);
    const AskedFor asked = ResolveGoal(context, read, MeasureStep(context, read));
    EXPECT_EQ(asked.goal.automatic(), c.automatic);
    EXPECT_EQ(asked.warning.find("it is planned for that") != std::string::npos, c.automatic) << asked.warning;
    if (c.automatic) {
      EXPECT_EQ(asked.goal.budget_bytes(), c.limit_bytes + asked.goal.step().outside);
      EXPECT_TRUE(asked.goal.Over());
    }
  }
}

TEST_F(StagesTest, PlacesAreForWhatADeviceHasAndForStepsThatAreSeenAsAWhole) {
  // Never freed: its requests are seen to as long as the process lives.
  const auto& cpu = *new testing::PooledCpu(kBudget);
  options_.memory_budget.kind = Budget::Kind::kAuto;
  const DeviceContext& context = ContextOn(cpu.cluster());
  ReadStep read = ReadGraph(context);
  PriceOps(context, &read.imported);
  const BudgetGoal goal = ResolveGoal(context, read, MeasureStep(context, read)).goal;
  EXPECT_TRUE(MayPlace(context, read, goal));
  EXPECT_FALSE(MayPlace(context, read, goal.AsLeast()));
  read.hidden = ", not counting what a call holds";
  EXPECT_FALSE(MayPlace(context, read, goal));
  read.hidden.clear();
  const std::vector<ArenaSettings> arenas = std::exchange(read.arenas, {});
  EXPECT_FALSE(MayPlace(context, read, goal));
  read.arenas = arenas;
  // A pool that is to be made is planned with places too, whatever this process has.
  const DeviceContext& without = ContextOn(nullptr);
  EXPECT_FALSE(MayPlace(without, read, goal));
  options_.pool_bytes = 1 << 20;
  EXPECT_FALSE(MayPlace(without, read, goal));  // lms will not be on in it
  options_.pool_exact = true;
  EXPECT_TRUE(MayPlace(without, read, goal));
  options_.pool_bytes = 0;
  options_.place = false;
  EXPECT_FALSE(MayPlace(context, read, goal));
}

TEST_F(StagesTest, CandidatesAreWhatWasReadWhereThereAreNoLoops) {
  const Candidates candidates = UpToCandidates(Context(kBudget));
  ASSERT_TRUE(candidates.status.ok());
  EXPECT_FALSE(candidates.imported_again);
  EXPECT_FALSE(candidates.swap.link.usable());
  EXPECT_FALSE(candidates.Hinted());
  EXPECT_EQ(candidates.imported.graph.ops.size(), read_.imported.graph.ops.size());
}

TEST_F(StagesTest, APlanIsForTheLimitAndCounted) {
  const DeviceContext& context = Context(kBudget);
  const Candidates candidates = UpToCandidates(context);
  Attempt attempt;
  attempt.limit = goal_.LimitForPlan();
  const Strategy strategy = PlanStep(context, goal_, candidates, attempt);
  ASSERT_TRUE(strategy.planned.feasible);
  EXPECT_LE(strategy.planned.peak_bytes, attempt.limit);
  EXPECT_GT(report_.planner_work, 0);
  EXPECT_EQ(report_.planner_work, facts_->work.done());
}

TEST_F(StagesTest, WhatPlansDoWithoutIsNotAskedFor) {
  const DeviceContext& context = Context(kBudget);
  const Candidates candidates = UpToCandidates(context);
  Restraint restraint;
  Restraint::Kinds all = {};
  all.fill(true);
  while (restraint.Tighten(all)) {
  }
  const PlannerOptions planner = PlannerFor(context, goal_, candidates, restraint);
  EXPECT_TRUE(planner.recompute);  // the last kind stays
  EXPECT_FALSE(planner.move);
  EXPECT_FALSE(StrategyFor(context, goal_, candidates, Attempt{0, 0, restraint}).order);
}

TEST_F(StagesTest, ARewriteIsVerified) {
  const DeviceContext& context = Context(kBudget);
  const Candidates candidates = UpToCandidates(context);
  Attempt attempt;
  attempt.limit = goal_.LimitForPlan();
  DevicePlan planned;
  Strategy strategy = PlanStep(context, goal_, candidates, attempt);
  planned.result = strategy.planned;
  if (!strategy.order.empty()) {
    planned.ordered = InOrder(candidates.imported, strategy.order);
    planned.order_limit = attempt.limit;
  }
  const RewrittenStep rewritten = RewriteAndVerify(context, read_, candidates, planned, Restraint());
  ASSERT_TRUE(rewritten.status.ok()) << rewritten.status;
  EXPECT_LE(rewritten.profile.peak_bytes, kBudget);
  EXPECT_GE(rewritten.item.graph.node_size(), item_.graph.node_size());
  EXPECT_EQ(rewritten.profile.resident_bytes, measured_.profile.resident_bytes);
}

TEST_F(StagesTest, WhatARewriteThrowsIsAStatus) {
  const DeviceContext& context = Context(kBudget);
  const Candidates candidates = UpToCandidates(context);
  InjectFailure("rewrite");
  const RewrittenStep rewritten = RewriteAndVerify(context, read_, candidates, DevicePlan(), Restraint());
  EXPECT_FALSE(rewritten.status.ok());
  EXPECT_NE(rewritten.thrown, nullptr);
}

TEST_F(StagesTest, TheBudgetIsMetWithoutWhatFails) {
  // Without edges ops run ahead: by how much depends on the times and the workspace of this processor's kernels.
  constexpr int64_t kEasyBudget = kBudget + kTile;
  const DeviceContext& context = Context(kEasyBudget);
  Candidates candidates = UpToCandidates(context);
  InjectFailure("verify", "error", /*at=*/1, /*times=*/1);
  std::vector<std::string> warnings;
  const BudgetResult result = MeetBudget(context, read_, goal_, &candidates, &warnings);
  EXPECT_EQ(result.outcome, BudgetOutcome::kRewritten);
  EXPECT_LE(result.rewritten.profile.peak_bytes, kEasyBudget);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("a plan was given up (verify: "), std::string::npos) << warnings[0];
}

TEST_F(StagesTest, TheLeastHasABudgetThatIsFeasible) {
  const DeviceContext& context = Context(0);
  Candidates candidates = UpToCandidates(context);
  std::vector<std::string> warnings;
  const BudgetResult least = MeetBudget(context, read_, goal_, &candidates, &warnings);
  ASSERT_EQ(least.outcome, BudgetOutcome::kRewritten);
  ASSERT_GT(least.budget_bytes, 0);
  const DeviceContext& asked = Context(least.budget_bytes);
  candidates = UpToCandidates(asked);
  const BudgetResult result = MeetBudget(asked, read_, goal_, &candidates, &warnings);
  EXPECT_EQ(result.outcome, BudgetOutcome::kRewritten);
  EXPECT_LE(result.rewritten.profile.peak_bytes, least.budget_bytes);
}

constexpr int64_t kRounding = 4096;  // of a few chunks, to whole units

constexpr int64_t kResident = 3 * kTile;

// A budget that is automatic, and what is free on the device in one piece: of any of these numbers of bytes, beside
// what is resident.
class AutomaticTest : public StagesTest {
 protected:
  BudgetResult Meet(int64_t budget_bytes, const std::vector<int64_t>& free_bytes, bool strict = false) {
    const DeviceContext& context = Context(budget_bytes);
    Candidates candidates = UpToCandidates(context);
    options_.memory_budget.kind = Budget::Kind::kAuto;
    options_.strict = strict;
    goal_ = BudgetGoal(options_, options_.memory_budget, budget_bytes, goal_.step());
    read_.arenas.clear();
    for (const int64_t bytes : free_bytes) {
      read_.arenas.emplace_back();
      read_.arenas.back().pieces = {{0, kResident + bytes, false, 0}};
      read_.arenas.back().limit_bytes = kResident + bytes;
    }
    std::vector<std::string> warnings;
    return MeetBudget(context, read_, goal_, &candidates, &warnings);
  }
  // Of activations, that is known to hold.
  int64_t Least() {
    const DeviceContext& context = Context(0);
    Candidates candidates = UpToCandidates(context);
    std::vector<std::string> warnings;
    const BudgetResult least = MeetBudget(context, read_, goal_, &candidates, &warnings);
    EXPECT_EQ(least.outcome, BudgetOutcome::kRewritten);
    return least.rewritten.profile.peak_bytes - least.rewritten.profile.resident_bytes;
  }
};

using SlowAutomaticTest = AutomaticTest;

TEST_F(SlowAutomaticTest, WhereNoneOfManyPlansHoldsTheLeastIsTaken) {
  const int64_t least = Least();
  constexpr int64_t kMost = kResident + 7 * kTile;
  ASSERT_LT(least, 5 * kTile);
  const int64_t free = least + kTile + kRounding;  // chunks of less than two tiles are handed out as one
  const BudgetResult result = Meet(kMost, {free});
  ASSERT_EQ(result.outcome, BudgetOutcome::kRewritten);
  EXPECT_FALSE(result.short_of);
  EXPECT_EQ(result.rewritten.profile.lacking_bytes, 0);
  const BudgetResult roomy = Meet(kMost, {20 * kTile});
  EXPECT_LT(roomy.planned.result.cost_us, result.planned.result.cost_us);
  const BudgetResult either = Meet(kMost, {20 * kTile, free});
  EXPECT_EQ(either.rewritten.profile.lacking_bytes, 0);
  EXPECT_GT(either.planned.result.cost_us, roomy.planned.result.cost_us);
  EXPECT_EQ(Meet(kMost, {free}, /*strict=*/true).outcome, BudgetOutcome::kRewritten);
}

TEST_F(SlowAutomaticTest, WhereNothingHoldsWhatComesNearestIsTaken) {
  const int64_t least = Least();
  const BudgetResult result = Meet(kResident + 7 * kTile, {least - kTile});
  ASSERT_EQ(result.outcome, BudgetOutcome::kRewritten);
  EXPECT_TRUE(result.short_of);
  EXPECT_GT(result.budget_bytes, 0);
  EXPECT_GT(result.rewritten.profile.lacking_bytes, 0);
  EXPECT_LE(result.rewritten.profile.lacking_bytes, kTile);
  EXPECT_EQ(result.rewritten.profile.lacking_as_is, result.rewritten.profile.lacking_bytes);
  // The second is the device with something set aside.
  const BudgetResult as_is = Meet(kResident + 7 * kTile, {20 * kTile, least - kTile});
  EXPECT_TRUE(as_is.short_of);
  EXPECT_GT(as_is.rewritten.profile.lacking_bytes, 0);
  EXPECT_EQ(as_is.rewritten.profile.lacking_as_is, 0);
  // In bytes alone.
  const BudgetResult above = Meet(kResident + least - kTile, {20 * kTile});
  ASSERT_EQ(above.outcome, BudgetOutcome::kRewritten);
  EXPECT_TRUE(above.short_of);
  EXPECT_LE(above.rewritten.profile.peak_bytes, kResident + least + kRounding);
  EXPECT_EQ(Meet(kResident + 7 * kTile, {least - kTile}, /*strict=*/true).outcome, BudgetOutcome::kInfeasible);
}

TEST_F(StagesTest, AShortfallSaysWhatCouldBeMet) {
  const DeviceContext& context = Context(3 * kTile + kTile / 2);
  Candidates candidates = UpToCandidates(context);
  std::vector<std::string> warnings;
  const BudgetResult result = MeetBudget(context, read_, goal_, &candidates, &warnings);
  ASSERT_EQ(result.outcome, BudgetOutcome::kInfeasible);
  const Shortfall shortfall = ExplainShortfall(context, goal_, candidates, result.restraint, result.least_peak);
  EXPECT_GT(shortfall.min_budget_bytes, goal_.budget_bytes());
  EXPECT_LT(shortfall.min_budget_bytes, goal_.step().peak);
  EXPECT_EQ(shortfall.hints, "");
  EXPECT_EQ(shortfall.swap_limit, "");
}

TEST_F(StagesTest, AllOfThemOneAfterTheOther) {
  tensorflow::GraphDef output;
  EXPECT_TRUE(RunDevicePass(Context(kBudget), &output, &report_));
  EXPECT_EQ(report_.status, ReportStatus::kRewritten) << report_.reason;
  EXPECT_EQ(report_.stage, "verify");
  EXPECT_EQ(report_.nodes_after, output.node_size());
  EXPECT_NE(report_.details, nullptr);
  EXPECT_NE(report_.planned_step, nullptr);
}

}  // namespace
}  // namespace lms
