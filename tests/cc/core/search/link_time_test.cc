#include "cc/core/search/link_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddOp;

MemGraph OpsOf(const std::vector<double>& costs_us) {
  MemGraph graph;
  for (const double us : costs_us) AddOp(&graph, {}, 0, us);
  return graph;
}

SwapLink Link(double out, double in, double share) {
  SwapLink link;
  link.out_bytes_per_us = out;
  link.in_bytes_per_us = in;
  link.out_share = link.in_share = share;
  return link;
}

TEST(LinkTimeTest, TransfersTakeTheTimeNextToTheirUses) {
  LinkTime time(OpsOf({10, 10, 10, 10, 10}), Link(2, 1, 1));
  OpId op = kNone;
  LinkTime::Promise out = time.Out(/*bytes=*/30, /*from=*/0, kNone, &op);
  ASSERT_EQ(out.spans.size(), 1u);
  EXPECT_EQ(out.spans[0], std::make_pair(10.0, 25.0));
  EXPECT_EQ(op, 2);  // which ends at 30
  EXPECT_EQ(out.stall_us, 0);
  LinkTime::Promise in = time.In(/*bytes=*/12, /*before=*/4, kNone, 0, &op);
  ASSERT_EQ(in.spans.size(), 1u);
  EXPECT_EQ(in.spans[0], std::make_pair(28.0, 40.0));
  EXPECT_EQ(op, 2);  // which begins at 20
}

TEST(LinkTimeTest, WhatIsQueuedIsHandedOverOneOpLater) {
  SwapLink link = Link(2, 1, 1);
  link.queued_above = 0;
  LinkTime time(OpsOf({10, 10, 10, 10, 10}), link);
  OpId op = kNone;
  EXPECT_EQ(time.Out(/*bytes=*/30, /*from=*/0, kNone, &op).spans[0], std::make_pair(20.0, 35.0));
  EXPECT_EQ(op, 3);  // which ends at 40
  EXPECT_EQ(time.In(/*bytes=*/12, /*before=*/4, kNone, 0, &op).spans[0], std::make_pair(28.0, 40.0));
  EXPECT_EQ(op, 1);  // which ends at 20
  // Placed: before op 2, which ends at 30.
  const LinkTime::Promise placed = time.In(/*bytes=*/12, /*before=*/4, /*at=*/2, 0, &op);
  EXPECT_EQ(placed.spans[0], std::make_pair(30.0, 40.0));
  EXPECT_EQ(placed.stall_us, 2);
}

TEST(LinkTimeTest, WhatIsQueuedGetsItsTimeInOnePiece) {
  SwapLink link = Link(1, 1, 1);
  link.queued_above = 9;
  LinkTime time(OpsOf({10, 10, 10, 10, 10, 10}), link);
  OpId op = kNone;
  time.Take(time.Out(10, /*from=*/0, kNone, &op));  // from 20 to 30
  // Not from 10 to 20 and on from 30: all of it behind.
  const LinkTime::Promise behind = time.Out(15, kNone, kNone, &op);
  ASSERT_EQ(behind.spans.size(), 1u);
  EXPECT_EQ(behind.spans[0], std::make_pair(30.0, 45.0));
  EXPECT_EQ(op, 4);
  // It fits before, and is done before the op by which it was to be.
  EXPECT_EQ(time.Out(10, kNone, /*by=*/5, &op).spans[0], std::make_pair(10.0, 20.0));
  EXPECT_EQ(op, 1);
  // It fits nowhere: what the longest stretch leaves of it is waited for.
  const LinkTime::Promise late = time.Out(15, kNone, /*by=*/3, &op);
  EXPECT_EQ(late.spans, std::vector<LinkTime::Span>({{10.0, 20.0}}));
  EXPECT_EQ(late.stall_us, 5);
  EXPECT_EQ(op, 3);
  // Back in, likewise, from its use backwards.
  time.Take(time.In(10, /*before=*/4, kNone, 0, &op));  // from 30 to 40
  const LinkTime::Promise before = time.In(15, /*before=*/5, kNone, 0, &op);
  ASSERT_EQ(before.spans.size(), 1u);
  EXPECT_EQ(before.spans[0], std::make_pair(15.0, 30.0));
  const LinkTime::Promise placed = time.In(15, /*before=*/5, /*at=*/3, 0, &op);
  EXPECT_EQ(placed.spans, std::vector<LinkTime::Span>({{40.0, 50.0}}));
  EXPECT_EQ(placed.stall_us, 5);
}

TEST(LinkTimeTest, WhatIsPromisedIsPassedOver) {
  LinkTime time(OpsOf({10, 10, 10, 10, 10}), Link(1, 1, 1));
  OpId op = kNone;
  const LinkTime::Promise first = time.Out(10, 0, kNone, &op);
  time.Take(first);
  const LinkTime::Promise second = time.Out(15, kNone, kNone, &op);
  ASSERT_EQ(second.spans.size(), 2u);
  EXPECT_EQ(second.spans[0], std::make_pair(0.0, 10.0));
  EXPECT_EQ(second.spans[1], std::make_pair(20.0, 25.0));
  // The other direction has a lane of its own.
  EXPECT_EQ(time.In(10, 2, kNone, 0, &op).spans[0], std::make_pair(10.0, 20.0));
  time.GiveBack(first);
  EXPECT_EQ(time.Out(15, kNone, kNone, &op).spans.size(), 1u);
}

// A link that has been promised to thousands is one stretch of time: who asks passes over it at once.
TEST(LinkTimeTest, PromisesThatMeetArePassedOverTogether) {
  constexpr int kOps = 4000;
  constexpr int kPromises = kOps / 2;
  LinkTime time(OpsOf(std::vector<double>(kOps, 10)), Link(1, 1, 1));
  std::vector<LinkTime::Promise> promises;
  OpId op = kNone;
  for (int i = 0; i < kPromises; ++i) {
    promises.push_back(time.Out(/*bytes=*/10, /*from=*/kNone, kNone, &op));
    time.Take(promises.back());
    ASSERT_LE(promises.back().passed, 2) << i;
  }
  EXPECT_EQ(promises.back().spans[0], std::make_pair(10.0 * (kPromises - 1), 10.0 * kPromises));
  // What is given back is free again, and nothing beside it.
  time.GiveBack(promises[100]);
  time.GiveBack(promises[101]);
  const LinkTime::Promise again = time.Out(25, kNone, kNone, &op);
  ASSERT_EQ(again.spans.size(), 2u);
  EXPECT_EQ(again.spans[0], std::make_pair(1000.0, 1020.0));
  EXPECT_EQ(again.spans[1], std::make_pair(10.0 * kOps / 2, 10.0 * kOps / 2 + 5));
  for (size_t i = 0; i < promises.size(); ++i) {
    if (i != 100 && i != 101) time.GiveBack(promises[i]);
  }
  EXPECT_EQ(time.Out(10.0 * kOps, kNone, kNone, &op).spans.size(), 1u);
}

TEST(LinkTimeTest, WhatDoesNotFitIsAStall) {
  LinkTime time(OpsOf({10, 10, 10, 10, 10}), Link(1, 1, 1));
  OpId op = kNone;
  EXPECT_EQ(time.Out(25, 0, /*by=*/1, &op).stall_us, 15);
  EXPECT_EQ(op, 1);
  EXPECT_EQ(time.In(25, 4, /*at=*/3, 0, &op).stall_us, 15);
  EXPECT_EQ(op, 3);
  EXPECT_EQ(time.Out(100, 0, kNone, &op).stall_us, 60);
  EXPECT_EQ(op, 4);
}

// Free time is never promised twice, never more than a transfer takes, and comes back whole.
TEST(LinkTimeTest, RandomPromisesNeverOverlap) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    testing::Random random(seed);
    std::vector<double> costs;
    for (int i = 0; i < 30; ++i) costs.push_back(random.Below(20));
    const SwapLink link = Link(1 + random.Below(3), 1 + random.Below(3), random.OneIn(2) ? 0.5 : 1);
    LinkTime time(OpsOf(costs), link);
    std::vector<LinkTime::Promise> taken;
    for (int i = 0; i < 40; ++i) {
      const int64_t bytes = 1 + random.Below(60);
      const OpId a = random.Below(29);
      const OpId b = a + 1 + random.Below(29 - a);
      const bool out = random.OneIn(2);
      const bool fixed = random.OneIn(2);
      OpId op = kNone;
      LinkTime::Promise promise =
          out ? time.Out(bytes, a, fixed ? b : kNone, &op) : time.In(bytes, b, fixed ? a : kNone, a, &op);
      EXPECT_EQ(promise.out, out);
      double sum = promise.stall_us;
      for (const auto& [begin, end] : promise.spans) sum += end - begin;
      EXPECT_NEAR(sum, out ? link.OutUs(bytes) : link.InUs(bytes), 1e-5) << seed;
      if (random.OneIn(3) && !taken.empty()) {
        time.GiveBack(taken.back());
        taken.pop_back();
      }
      // The last one to be given back may have been in its way.
      promise = out ? time.Out(bytes, a, fixed ? b : kNone, &op) : time.In(bytes, b, fixed ? a : kNone, a, &op);
      time.Take(promise);
      taken.push_back(promise);
      for (const bool lane : {false, true}) {
        std::vector<std::pair<double, double>> spans;
        for (const LinkTime::Promise& p : taken) {
          if (link.one_lane() || p.out == lane) spans.insert(spans.end(), p.spans.begin(), p.spans.end());
        }
        std::sort(spans.begin(), spans.end());
        for (size_t s = 1; s < spans.size(); ++s) EXPECT_LE(spans[s - 1].second, spans[s].first + 1e-5) << seed;
      }
    }
  }
}

TEST(LinkTimeTest, WhatIsTooLittleToChangeTheTimeIsNotWaitedForWithoutEnd) {
  // The clock stands at 1e13 us, where 1e-3 us more or less is none: the next larger number is 2e-3 away.
  LinkTime time(OpsOf({1e13, 1, 1e13}), Link(1e3, 1e3, 1));
  OpId op = kNone;
  const LinkTime::Promise in = time.In(/*bytes=*/1, /*before=*/2, kNone, 0, &op);
  EXPECT_TRUE(in.spans.empty());
  EXPECT_EQ(in.stall_us, 0);
  const LinkTime::Promise out = time.Out(/*bytes=*/1, /*from=*/0, kNone, &op);
  EXPECT_TRUE(out.spans.empty());
  EXPECT_EQ(out.stall_us, 0);
}

}  // namespace
}  // namespace lms
