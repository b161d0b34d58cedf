#include "cc/core/search/plan_starts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

const PlannerOptions kOptions{/*recompute=*/true, /*move=*/true, /*work=*/1000000};

int64_t HalfOf(const MemGraph& graph) { return Simulate(graph, Plan()).peak_bytes / 2; }

TEST(PlanStartsTest, TheBestAreDifferentAndInOrder) {
  const MemGraph graph = testing::Chain(40, 4096);
  Planning planning(graph, kOptions);
  const std::vector<PlannerResult> best = RunStarts(PlanStarts(), HalfOf(graph), &planning);
  ASSERT_FALSE(best.empty());
  EXPECT_TRUE(best[0].feasible);
  for (size_t i = 1; i < best.size(); ++i) EXPECT_TRUE(BetterPlan(best[i - 1], best[i]));
  EXPECT_GT(planning.work(), 0);
}

TEST(PlanStartsTest, EachHasAName) {
  for (const PlanStart& start : PlanStarts()) EXPECT_NE(start.name, "");
}

TEST(PlanStartsTest, ANewOneIsOneMoreEntry) {
  const MemGraph graph = testing::Chain(40, 4096);
  int runs = 0;
  std::vector<PlanStart> starts = PlanStarts();
  starts.push_back({"the strictest aim", PlanStart::kWhileThereIsWork,
                    [](StartContext* context) { return context->found > 0; },
                    [&runs](StartContext* context) {
                      ++runs;
                      EvictionRule rule;
                      rule.aim = 0.9;
                      return context->eviction.Run(rule) ? Tried::kUnder : Tried::kOver;
                    }});
  Planning planning(graph, kOptions);
  const std::vector<PlannerResult> best = RunStarts(starts, HalfOf(graph), &planning);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(best[0].feasible);
}

TEST(PlanStartsTest, OneAloneIsTheFirst) {
  const MemGraph graph = testing::Chain(40, 4096);
  PlannerOptions options = kOptions;
  options.single_start = true;
  Planning planning(graph, options);
  std::vector<std::string> ran;
  std::vector<PlanStart> starts;
  for (PlanStart start : PlanStarts()) {
    start.run = [&ran, name = start.name, run = start.run](StartContext* context) {
      ran.push_back(name);
      return run(context);
    };
    starts.push_back(start);
  }
  RunStarts(starts, HalfOf(graph), &planning);
  EXPECT_EQ(ran, std::vector<std::string>{"gap eviction"});
}

TEST(PlanStartsTest, WhereThereIsAPlanLastResortsAreLeftOut) {
  const MemGraph graph = testing::Chain(40, 4096);
  bool ran = false;
  std::vector<PlanStart> starts{PlanStarts()[0]};
  starts.push_back({"a last resort", PlanStart::kWithoutPlan, [](StartContext*) { return true; },
                    [&ran](StartContext*) {
                      ran = true;
                      return Tried::kGivenUp;
                    }});
  Planning planning(graph, kOptions);
  RunStarts(starts, HalfOf(graph), &planning);
  EXPECT_FALSE(ran);
  PlannerOptions patient = kOptions;
  patient.work = 100000000;
  Planning hopeless(graph, patient);
  const std::vector<PlannerResult> none = RunStarts(starts, graph.ResidentBytes() + 4096, &hopeless);
  EXPECT_FALSE(none[0].feasible);  // an op needs twice as much
  EXPECT_TRUE(ran);
}

TEST(PlanStartsTest, WithoutWorkThereIsOnlyTheFirst) {
  const MemGraph graph = testing::Chain(40, 4096);
  PlannerOptions options = kOptions;
  options.work = 1;
  Planning planning(graph, options);
  int tried = 0;
  std::vector<PlanStart> starts = PlanStarts();
  for (PlanStart& start : starts) {
    start.run = [&tried, run = start.run](StartContext* context) {
      ++tried;
      return run(context);
    };
  }
  RunStarts(starts, HalfOf(graph), &planning);
  EXPECT_EQ(tried, 1);
}

}  // namespace
}  // namespace lms
