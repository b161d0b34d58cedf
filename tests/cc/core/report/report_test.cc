#include "cc/core/report/report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lms {
namespace {

// a makes 1000 bytes, which b and d read; c is between.
MemGraph Graph() {
  MemGraph graph;
  for (const char* name : {"a", "b", "c", "d"}) {
    MemOp op;
    op.name = name;
    op.type = std::string("Type") + name;
    op.cost_us = 10;
    graph.ops.push_back(op);
  }
  MemBuffer buffer;
  buffer.name = "a:0";
  buffer.bytes = 1000;
  buffer.producer = 0;
  graph.buffers.push_back(buffer);
  graph.ops[0].outputs = {0};
  graph.ops[1].inputs = graph.ops[3].inputs = {0};
  return graph;
}

TEST(Report, SwapsAreDecisions) {
  const MemGraph graph = Graph();
  Plan plan;
  plan.swap_outs.push_back({2, 0});
  plan.swap_ins.push_back({3, 0});
  SwapLink link;
  link.out_bytes_per_us = 100;
  link.in_bytes_per_us = 50;
  link.latency_us = 5;
  link.compute_us_per_byte = 0.002;
  Transfers transfers;
  transfers.out_stall_us = {3};
  transfers.in_stall_us = {7};
  const std::vector<Decision> decisions = DescribeSwaps(graph, plan, link, transfers, {"b"}, {"c"});
  ASSERT_EQ(decisions.size(), 2U);
  const Decision& out = decisions[0];
  EXPECT_EQ(out.kind, "swap_out");
  EXPECT_EQ(out.op, "a");
  EXPECT_EQ(out.op_type, "Typea");
  EXPECT_EQ(out.tensor_bytes, 1000);
  EXPECT_EQ(out.position, 2);
  EXPECT_EQ(out.before, "c");
  EXPECT_EQ(out.trigger, "b");
  EXPECT_EQ(out.transfer_us, 15);  // 5 and 1000 bytes at 100 per microsecond
  EXPECT_EQ(out.stall_us, 3);
  EXPECT_EQ(out.cost_us, 5);  // 3 waited, 2 taken from the ops
  EXPECT_EQ(out.priced_by, "");
  const Decision& in = decisions[1];
  EXPECT_EQ(in.kind, "swap_in");
  EXPECT_EQ(in.position, 3);
  EXPECT_EQ(in.before, "d");
  EXPECT_EQ(in.trigger, "c");
  EXPECT_EQ(in.transfer_us, 25);
  EXPECT_EQ(in.stall_us, 7);
  EXPECT_EQ(in.cost_us, 9);
}

TEST(Report, WhatIsNotTimedIsDescribedAllTheSame) {
  const MemGraph graph = Graph();
  Plan plan;
  plan.swap_outs.push_back({2, 0});
  SwapLink link;
  link.out_bytes_per_us = link.in_bytes_per_us = 100;
  const std::vector<Decision> decisions = DescribeSwaps(graph, plan, link, Transfers(), {}, {});
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].stall_us, 0);
  EXPECT_EQ(decisions[0].trigger, "");
  EXPECT_TRUE(DescribeSwaps(graph, Plan(), link, Transfers(), {}, {}).empty());
}

TEST(Report, TransfersInTheReportsUnits) {
  Report report;
  NoteTransfers(Transfers(), &report);
  EXPECT_EQ(report.swapped_bytes, 0);
  EXPECT_EQ(report.swap_hidden, 0);  // nothing to hide
  Transfers transfers;
  transfers.out_bytes = 5000;
  transfers.transfer_us = 2e6;
  transfers.stall_us = 5e5;
  NoteTransfers(transfers, &report);
  EXPECT_EQ(report.swapped_bytes, 5000);
  EXPECT_EQ(report.swap_hidden, 0.75);
  EXPECT_EQ(report.swap_stall, 0.5);
}

}  // namespace
}  // namespace lms
