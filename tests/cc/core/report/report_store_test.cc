#include "cc/core/report/report_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

Report Of(const std::string& function, ReportStatus status) {
  Report report;
  report.function = function;
  report.status = status;
  return report;
}

TEST(ReportStore, KeepsReportsInOrderAndNumbersThem) {
  ReportStore store;
  store.Add(Of("a", ReportStatus::kFits));
  store.Add(Of("b", ReportStatus::kRewritten));
  const std::vector<Report> all = store.All();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].function, "a");
  EXPECT_EQ(all[0].sequence, 1);
  EXPECT_EQ(all[1].sequence, 2);
  store.Clear();
  EXPECT_TRUE(store.All().empty());
  EXPECT_EQ(store.count(), 2);  // of reports ever added
  store.Add(Of("c", ReportStatus::kFits));
  EXPECT_EQ(store.All()[0].sequence, 3);
}

TEST(ReportStore, ANumberCanBeHadBeforehand) {
  ReportStore store;
  store.Add(Of("a", ReportStatus::kFits));
  Report early = Of("early", ReportStatus::kFits);
  early.sequence = store.NextSequence();
  EXPECT_EQ(store.count(), 1);
  store.Add(Of("b", ReportStatus::kFits));
  store.Add(early);
  EXPECT_EQ(store.count(), 3);
  EXPECT_EQ(store.All()[1].sequence, 3);
  EXPECT_EQ(store.All()[2].sequence, 2);
}

TEST(ReportStore, IsBoundedAndLetsTheSkippedGoFirst) {
  ReportStore store;
  store.Add(Of("first", ReportStatus::kRewritten));
  for (int i = 0; i < 100; ++i) store.Add(Of("skipped", ReportStatus::kSkipped));
  for (int i = 0; i < 255; ++i) store.Add(Of("fits", ReportStatus::kFits));
  // 356 were added, 256 fit: the hundred that were skipped have gone.
  std::vector<Report> all = store.All();
  EXPECT_EQ(all.size(), 256u);
  EXPECT_EQ(all.front().function, "first");
  for (const Report& report : all) EXPECT_NE(report.status, ReportStatus::kSkipped);
  store.Add(Of("last", ReportStatus::kFits));
  all = store.All();
  EXPECT_EQ(all.size(), 256u);
  EXPECT_EQ(all.front().function, "fits");  // now the oldest goes
  EXPECT_EQ(all.back().function, "last");
}

TEST(ReportStore, TakesReportsFromSeveralThreads) {
  ReportStore store;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store] {
      for (int i = 0; i < 50; ++i) store.Add(Of("f", ReportStatus::kFits));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Report> all = store.All();
  ASSERT_EQ(all.size(), 200u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].sequence, static_cast<int64_t>(i) + 1);
}

TEST(Report, StatusesHaveTheNamesThatUsersSee) {
  EXPECT_STREQ(StatusName(ReportStatus::kRewritten), "rewritten");
  EXPECT_STREQ(StatusName(ReportStatus::kFits), "fits");
  EXPECT_STREQ(StatusName(ReportStatus::kSkipped), "skipped");
  EXPECT_STREQ(StatusName(ReportStatus::kInfeasible), "infeasible");
  EXPECT_STREQ(StatusName(ReportStatus::kFailed), "failed");
}

TEST(Report, WhatWasKeptIsSummedByReasonLargestFirst) {
  MemGraph graph = testing::Chain(3, 1000);
  for (const int b : {1, 2, 3}) {
    graph.buffers[b].evictable = false;
    graph.buffers[b].keep_reason = b == 2 ? "large" : "small";
  }
  graph.buffers[2].bytes = 5000;
  graph.buffers[6].keep_reason = "returned";  // the chain's result
  const std::vector<KeptTensors> kept = SummariseKept(graph);
  ASSERT_EQ(kept.size(), 3u);  // what is resident is left out
  EXPECT_EQ(kept[0].reason, "large");
  EXPECT_EQ(kept[0].bytes, 5000);
  EXPECT_EQ(kept[1].reason, "small");
  EXPECT_EQ(kept[1].tensors, 2);
  EXPECT_EQ(kept[1].bytes, 2000);
  EXPECT_EQ(kept[2].reason, "returned");
}

TEST(Report, APlanIsDescribedStepByStep) {
  const MemGraph graph = testing::Chain(3, 1000, /*forward_us=*/7);
  Plan plan;
  plan.steps.push_back({4, 1, {testing::OutputOf(graph, 1)}, false});
  plan.steps.push_back({5, 0, {testing::OutputOf(graph, 0)}, true});
  const std::vector<Decision> decisions = DescribePlan(graph, plan, {"op3", "op4"});
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].kind, "recompute");
  EXPECT_EQ(decisions[0].op, "op1");
  EXPECT_EQ(decisions[0].before, "op4");
  EXPECT_EQ(decisions[0].trigger, "op3");
  EXPECT_EQ(decisions[0].tensor_bytes, 1000);
  EXPECT_EQ(decisions[0].cost_us, 7);
  EXPECT_EQ(decisions[0].position, 4);
  EXPECT_EQ(decisions[1].kind, "move");
  EXPECT_EQ(decisions[1].cost_us, 0);
}

TEST(ReportStoreMeasured, IsEnteredIntoTheReportOfTheNumber) {
  ReportStore store;
  for (const char* function : {"f", "g", "f"}) {
    Report report;
    report.function = function;
    store.Add(report);
  }
  EXPECT_EQ(store.Latest("f")->sequence, 3);
  EXPECT_FALSE(store.Latest("h").has_value());
  EXPECT_TRUE(store.SetMeasured(2, 100, 1, ""));
  EXPECT_TRUE(store.SetMeasured(2, 90, 2, "over"));
  EXPECT_FALSE(store.SetMeasured(4, 1, 1, ""));
  EXPECT_EQ(store.Latest("g")->measured_peak_bytes, 90);
  EXPECT_EQ(store.Latest("g")->measured_steps, 2);
  EXPECT_EQ(store.Latest("g")->warnings, std::vector<std::string>{"over"});
  EXPECT_EQ(store.Latest("f")->measured_peak_bytes, 0);
}

// 40 MiB of details each, where 48 are kept; steps of 40 MiB, where 64 are.
TEST(ReportStore, KeepsTheDetailsOfTheLatestReportsOnly) {
  ReportStore store;
  for (int i = 0; i < 3; ++i) {
    Report report = Of("step", ReportStatus::kRewritten);
    auto details = std::make_shared<ReportDetails>();
    details->before.bytes.resize((40 << 20) / sizeof(int64_t));
    report.details = details;
    auto step = std::make_shared<PlannedStep>();
    step->graph.buffers.resize((40 << 20) / sizeof(MemBuffer));
    report.planned_step = step;
    store.Add(std::move(report));
    store.Add(Of("small", ReportStatus::kFits));
  }
  const std::vector<Report> all = store.All();
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].details, nullptr);
  EXPECT_EQ(all[2].details, nullptr);
  EXPECT_NE(all[4].details, nullptr);
  EXPECT_EQ(store.StepOf(3), nullptr);
  EXPECT_NE(store.StepOf(5), nullptr);
  EXPECT_EQ(store.StepOf(6), nullptr);  // had none
  EXPECT_EQ(store.StepOf(99), nullptr);
}

}  // namespace
}  // namespace lms
