#include "cc/core/simulate/transfers.h"

#include <gtest/gtest.h>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::Chain;
using testing::OutputOf;

// f0 f1 f2 f3 b3 b2 b1 b0: forward ops of 10 us, backward ones of 20; buffers of 100 bytes.
MemGraph Steps() { return Chain(4, 100, 10, 20); }

SwapLink Link(double out, double in, double share = 1) {
  SwapLink link;
  link.out_bytes_per_us = out;
  link.in_bytes_per_us = in;
  link.out_share = link.in_share = share;
  return link;
}

// The outputs of f0 and f1 go and come back; that of f1 is out by this op.
Plan BothSwapped(const MemGraph& graph, OpId by) {
  Plan plan;
  plan.swap_outs = {{by, OutputOf(graph, 1)}, {4, OutputOf(graph, 0)}};
  plan.swap_ins = {{5, OutputOf(graph, 1)}, {6, OutputOf(graph, 0)}};
  EXPECT_EQ(ValidatePlan(graph, plan), "");
  return plan;
}

TEST(TransfersTest, WithoutSwapsItIsTheStep) {
  const MemGraph graph = Steps();
  const Transfers transfers = SimulateTransfers(graph, Plan(), Link(1, 1));
  EXPECT_EQ(transfers.step_us, 120);
  EXPECT_EQ(transfers.transfer_us, 0);
  EXPECT_EQ(transfers.Hidden(), 1);
}

TEST(TransfersTest, HiddenTransfersCostNothing) {
  const MemGraph graph = Steps();
  Plan plan;
  plan.swap_outs = {{2, OutputOf(graph, 0)}};  // f0 ends at 10, f2 at 30
  plan.swap_ins = {{5, OutputOf(graph, 0)}};   // b2 begins at 60, b1, which reads it, at 80
  ASSERT_EQ(ValidatePlan(graph, plan), "");
  const Transfers transfers = SimulateTransfers(graph, plan, Link(5, 5));
  EXPECT_EQ(transfers.stall_us, 0);
  EXPECT_EQ(transfers.transfer_us, 40);
  EXPECT_EQ(transfers.step_us, 120);
  EXPECT_EQ(transfers.out_bytes, 100);
  EXPECT_EQ(transfers.in_bytes, 100);
  EXPECT_EQ(transfers.peak_stored_bytes, 100);
}

TEST(TransfersTest, WhatIsLateIsWaitedFor) {
  const MemGraph graph = Steps();
  Plan plan;
  plan.swap_outs = {{2, OutputOf(graph, 0)}};
  plan.swap_ins = {{5, OutputOf(graph, 0)}};
  // Out takes 50: from 10 to 60, wanted at 30. In takes 25 from b2's begin, which is late by then: wanted 20 later.
  const Transfers transfers = SimulateTransfers(graph, plan, Link(2, 4));
  EXPECT_EQ(transfers.out_stall_us, std::vector<double>({30}));
  EXPECT_EQ(transfers.in_stall_us, std::vector<double>({5}));
  EXPECT_EQ(transfers.stall_us, 35);
  EXPECT_EQ(transfers.step_us, 155);
  EXPECT_NEAR(transfers.Hidden(), 1 - 35.0 / 75, 1e-9);
}

TEST(TransfersTest, TheMostUrgentGoesFirstAndLanesAreSharedOrNot) {
  const MemGraph graph = Steps();
  // Both outs are there early; f1's is wanted first.
  const Plan plan = BothSwapped(graph, 3);
  // f0's out begins at 10, gives way at 20 to f1's (20 to 40), and ends at 50: in time for both.
  const Transfers transfers = SimulateTransfers(graph, plan, Link(5, 10));
  EXPECT_EQ(transfers.out_stall_us, std::vector<double>({0, 0}));
  EXPECT_EQ(transfers.stall_us, transfers.in_stall_us[0] + transfers.in_stall_us[1]);
  // b2 (op 5) reads f1's output as soon as it begins.
  EXPECT_EQ(transfers.in_stall_us[0], 10);
  EXPECT_EQ(transfers.peak_stored_bytes, 200);
}

TEST(TransfersTest, WhatIsQueuedGoesInTheOrderInWhichItIsWaitedFor) {
  const MemGraph graph = Steps();
  SwapLink link = Link(5, 10);
  link.queued_above = 99;
  // f1's out, wanted at 30, is handed over behind f2, at 30. f0's, though its tensor was there before, comes behind it,
  // from 50 to 70, and is wanted at 60, which is 80 with what was waited for before.
  EXPECT_EQ(SimulateTransfers(graph, BothSwapped(graph, 2), link).out_stall_us, std::vector<double>({20, 0}));
  // f0's is wanted first: from 20 to 40, and f1's behind it, to 60.
  Plan plan = BothSwapped(graph, 3);
  plan.swap_outs = {{2, OutputOf(graph, 0)}, {3, OutputOf(graph, 1)}};
  EXPECT_EQ(SimulateTransfers(graph, plan, link).out_stall_us, std::vector<double>({10, 10}));
}

TEST(TransfersTest, SmallOnesGoBesideWhatIsQueued) {
  const MemGraph graph = Steps();
  SwapLink link = Link(5, 10);
  link.queued_above = 100;
  // f1's is handed over at 30, and f0's gives way to it.
  EXPECT_EQ(SimulateTransfers(graph, BothSwapped(graph, 2), link).out_stall_us, std::vector<double>({20, 0}));
}

TEST(TransfersTest, CopiesTakeProcessorsFromTheOps) {
  const MemGraph graph = Steps();
  Plan plan;
  plan.swap_outs = {{2, OutputOf(graph, 0)}};
  plan.swap_ins = {{5, OutputOf(graph, 0)}};
  SwapLink link = Link(5, 5);
  link.compute_us_per_byte = 0.01;
  const Transfers transfers = SimulateTransfers(graph, plan, link);
  EXPECT_EQ(transfers.compute_us, 2);
  EXPECT_EQ(transfers.step_us, 122);
}

}  // namespace
}  // namespace lms
