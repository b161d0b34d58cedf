#include "cc/core/simulate/run_record.h"

#include <gtest/gtest.h>

#include <vector>

#include "cc/core/base/random.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;

// Up to three ops of the graph run at a time.
std::vector<RunEvent> SideBySide(const MemGraph& graph, uint32_t seed) {
  Random random(seed);
  std::vector<RunEvent> run;
  std::vector<OpId> running;
  std::vector<bool> ended(graph.ops.size(), false);
  OpId next = 0;
  const auto end = [&](size_t which) {
    ended[running[which]] = true;
    run.push_back({running[which], true});
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
  };
  while (next < static_cast<OpId>(graph.ops.size()) || !running.empty()) {
    bool ready = next < static_cast<OpId>(graph.ops.size()) && running.size() < 3;
    for (size_t i = 0; ready && i < graph.ops[next].deps.size(); ++i) ready = ended[graph.ops[next].deps[i]];
    if (ready && (running.empty() || random.Below(3) > 0)) {
      run.push_back({next, false});
      running.push_back(next++);
    } else {
      end(static_cast<size_t>(random.Below(static_cast<int>(running.size()))));
    }
  }
  return run;
}

// Per position, what the holdings add up to.
std::vector<int64_t> Sums(const RunRecord& record, size_t positions) {
  std::vector<int64_t> sums(positions, 0);
  for (const Holding& holding : record.holdings) {
    for (int32_t p = holding.first; p <= holding.last; ++p) sums.at(p) += holding.bytes;
  }
  return sums;
}

TEST(RunRecordTest, WhatIsHeldAddsUpToTheBytesInUseAtEveryPosition) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    MemGraph graph = testing::RandomGraph(seed, 40);
    for (size_t i = 0; i < graph.ops.size(); i += 3) graph.ops[i].workspace_bytes = 7 + static_cast<int64_t>(i);
    const std::vector<RunEvent> run = SideBySide(graph, seed);
    RunRecord record;
    const MemoryProfile profile = RecordRun(graph, run, {}, &record);
    EXPECT_EQ(profile.op_bytes, SimulateRun(graph, run, {}).op_bytes) << seed;
    EXPECT_EQ(Sums(record, profile.order.size()), profile.Timeline()) << seed;
  }
}

// A variable of 1000 bytes, read by op 0; op 1 reads what op 0 has read; op 2 updates the variable; op 3 is another.
TEST(RunRecordTest, OldContentsAreHeldUntilTheirLastReaderEnds) {
  MemGraph graph;
  const BufferId variable = AddBuffer(&graph, 1000, kNone);
  AddOp(&graph, {variable}, 0);
  AddOp(&graph, {variable}, 0);
  AddOp(&graph, {}, 0);
  AddOp(&graph, {}, 10);
  graph.buffers[variable].overwritten_by = {2};
  const std::vector<RunEvent> run = {{0, false}, {0, true}, {2, false}, {2, true},
                                     {1, false}, {1, true}, {3, false}, {3, true}};
  RunRecord record;
  const MemoryProfile profile = RecordRun(graph, run, {{variable, 0, 1}}, &record);
  EXPECT_EQ(profile.Timeline(), (std::vector<int64_t>{1000, 2000, 2000, 1010}));
  EXPECT_EQ(Sums(record, 4), profile.Timeline());
  int old = 0;
  for (const Holding& holding : record.holdings) {
    if (holding.what != Holding::What::kOldContents) continue;
    ++old;
    EXPECT_EQ(holding.of, variable);
    EXPECT_EQ(holding.first, 1);  // op 2 begins second
    EXPECT_EQ(holding.last, 2);   // op 1 begins third
  }
  EXPECT_EQ(old, 1);
}

// op0 makes 100 bytes, op1 takes their storage over: op0's buffer is held at position 0 only.
TEST(RunRecordTest, StorageThatIsTakenOverBelongsToOneBufferAtATime) {
  MemGraph graph;
  AddOp(&graph, {}, 100);
  AddOp(&graph, {0}, 100);
  AddOp(&graph, {1}, 0);
  graph.ops[1].forwardable = {0};
  RunRecord record;
  RecordRun(graph, {{0, false}, {0, true}, {1, false}, {1, true}, {2, false}, {2, true}}, {}, &record);
  ASSERT_EQ(record.holdings.size(), 2u);
  EXPECT_EQ(record.holdings[0].of, 0);
  EXPECT_EQ(record.holdings[0].last, 0);
  EXPECT_EQ(record.holdings[1].of, 1);
  EXPECT_EQ(record.holdings[1].first, 1);
  EXPECT_EQ(record.holdings[1].last, 2);
}

}  // namespace
}  // namespace lms
