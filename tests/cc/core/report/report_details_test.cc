#include "cc/core/report/report_details.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::OutputOf;

std::vector<RunEvent> OneByOne(const MemGraph& graph) {
  std::vector<RunEvent> run;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    run.push_back({op, false});
    run.push_back({op, true});
  }
  return run;
}

// A graph that has run, as it is shown under its own names.
struct Ran {
  explicit Ran(const MemGraph& of) : graph(of), shown{graph, profile, record, {}, {}} {
    profile = RecordRun(graph, OneByOne(graph), {}, &record);
    for (const MemOp& op : graph.ops) shown.ops.push_back({op.name, op.type, OpKind::kRun, Phase::kForward});
    for (const MemBuffer& b : graph.buffers) shown.buffers.push_back({b.name, "Op", Role::kActivation});
  }

  MemGraph graph;
  MemoryProfile profile;
  RunRecord record;
  ShownStep shown;
};

int Row(const ReportDetails& details, const std::string& name) {
  for (size_t i = 0; i < details.buffers.name.size(); ++i) {
    if (details.strings[details.buffers.name[i]] == name) return static_cast<int>(i);
  }
  return -1;
}

// A weight of 5 bytes; a of 10 (read by b and c), b of 20, c of 40. In the rewritten step a is dropped after b and made
// again for c.
TEST(ReportDetailsTest, InstancesAreIntervalsOfOneBuffer) {
  MemGraph before;
  const BufferId w = AddBuffer(&before, 5, kNone);
  const OpId a = AddOp(&before, {w}, 10);
  const OpId b = AddOp(&before, {OutputOf(before, a)}, 20);
  AddOp(&before, {OutputOf(before, a), OutputOf(before, b)}, 40);
  MemGraph after;
  AddBuffer(&after, 5, kNone);
  AddOp(&after, {0}, 10);
  AddOp(&after, {1}, 20);
  AddOp(&after, {0}, 10);  // again
  AddOp(&after, {2, 3}, 40);
  Ran one(before);
  Ran two(after);
  two.shown.ops[2] = {"op0", "Op", OpKind::kRecompute, Phase::kBackward};
  two.shown.ops[3].name = "op2";
  two.graph.ops[2].cost_us = 1.23456;
  two.shown.buffers[3].name = "b1";
  two.shown.buffers[4].name = "b3";
  DetailsMaker maker;
  EXPECT_FALSE(maker.started());
  maker.Before(one.shown);
  EXPECT_TRUE(maker.started());
  maker.After(two.shown);
  EXPECT_TRUE(maker.HeldAtPeakBefore("b1"));
  maker.SetFate("b1", Fate::kRecomputed, "made again", 3.5);
  maker.SetReason("b1", "another");
  maker.SetReason("b2", "kept");
  maker.SetFate("unknown", Fate::kMoved, "", 1);
  const auto details = maker.Finish();
  EXPECT_EQ(details->before.bytes, (std::vector<int64_t>{15, 35, 75}));
  EXPECT_EQ(details->after.bytes, (std::vector<int64_t>{15, 35, 35, 75}));
  EXPECT_EQ(details->peak_before, 2);
  EXPECT_EQ(details->peak_after, 3);
  EXPECT_EQ(details->after.kind[2], OpKind::kRecompute);
  EXPECT_EQ(details->after.op[2], details->before.op[0]);
  EXPECT_EQ(details->before.start_us, (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(details->after.took_us, (std::vector<double>{1, 1, 1.235, 1}));
  EXPECT_EQ(details->after.start_us, (std::vector<double>{0, 1, 2, 3.235}));
  // The largest first: b3 (40), b2 (20), b1 (10), b0 (5).
  EXPECT_EQ(details->buffers.bytes, (std::vector<int64_t>{40, 20, 10, 5}));
  const int row = Row(*details, "b1");
  EXPECT_EQ(details->buffers.before[row], (std::vector<Interval>{{0, 2}}));
  EXPECT_EQ(details->buffers.after[row], (std::vector<Interval>{{0, 1}, {2, 3}}));
  EXPECT_EQ(details->buffers.fate[row], Fate::kRecomputed);
  EXPECT_EQ(details->strings[details->buffers.reason[row]], "made again");
  EXPECT_EQ(details->buffers.cost_us[row], 3.5);
  EXPECT_EQ(details->buffers.fate[Row(*details, "b0")], Fate::kResident);
  EXPECT_EQ(details->strings[details->buffers.reason[Row(*details, "b2")]], "kept");
  EXPECT_EQ(details->omitted_buffers, 0);
}

// A swap goes on beside the ops: the next one begins when it does.
TEST(ReportDetailsTest, SwapsTakeNoTimeFromTheOps) {
  MemGraph graph;
  AddOp(&graph, {}, 10, 5);
  AddOp(&graph, {}, 10, 100);
  AddOp(&graph, {}, 10, 5);
  Ran ran(graph);
  ran.shown.ops[1].kind = OpKind::kSwapIn;
  DetailsMaker maker;
  maker.Before(ran.shown);
  const auto details = maker.Finish();
  EXPECT_EQ(details->before.start_us, (std::vector<double>{0, 5, 5}));
  EXPECT_EQ(details->before.took_us, (std::vector<double>{5, 100, 5}));
}

TEST(ReportDetailsTest, StorageOfAnotherSizeIsAnotherBuffer) {
  MemGraph before;
  AddOp(&before, {}, 10);
  MemGraph after;
  AddOp(&after, {}, 30);
  DetailsMaker maker;
  Ran one(before);
  Ran two(after);
  maker.Before(one.shown);
  maker.After(two.shown);
  const auto details = maker.Finish();
  EXPECT_EQ(details->buffers.bytes, (std::vector<int64_t>{30, 10}));
  EXPECT_EQ(Row(*details, "b0 (30 B)"), 0);
  EXPECT_TRUE(details->buffers.after[1].empty());
}

TEST(ReportDetailsTest, OfVeryManyBuffersTheSmallestAreOmittedWithTheirNames) {
  MemGraph graph;
  const int more = 5;
  for (int i = 0; i < static_cast<int>(kMostBuffers) + more; ++i) AddOp(&graph, {}, 100 + i);
  Ran ran(graph);
  DetailsMaker maker;
  maker.Before(ran.shown);
  const auto details = maker.Finish();
  EXPECT_EQ(details->buffers.name.size(), kMostBuffers);
  EXPECT_EQ(details->omitted_buffers, more);
  EXPECT_EQ(details->omitted_bytes, 100 + 101 + 102 + 103 + 104);
  EXPECT_EQ(Row(*details, "b4"), -1);
  // Each op's name, each buffer's, "Op", and the empty reason.
  EXPECT_EQ(details->strings.size(), 2 * kMostBuffers + more + 2);
  EXPECT_GT(details->MemoryBytes(), static_cast<int64_t>(kMostBuffers) * 100);
}

}  // namespace
}  // namespace lms
