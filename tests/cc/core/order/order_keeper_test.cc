#include "cc/core/order/order_keeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/graph/walk.h"
#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::OutputOf;
using testing::Random;
using EventId = OrderKeeper::EventId;

// What an executor knows: each event waits for what makes its inputs, and for what the keeper names.
class Executor {
 public:
  Executor(const MemGraph& graph, const Plan& plan) : graph_(graph) {
    std::vector<int> newest(graph.buffers.size(), -1);
    Walk(graph, plan, [&](const PlanEvent& event) {
      if (event.kind == PlanEvent::Kind::kMovedAway) return;
      const int e = static_cast<int>(events_.size());
      Event made{&graph.ops[OpAt(plan, event)], {}, {}, {}};
      for (const BufferId b : made.op->inputs) {
        if (newest[b] < 0) continue;
        made.reads.push_back(newest[b]);
        made.waits.push_back(instances_[newest[b]].maker);
        ++instances_[newest[b]].readers;
      }
      for (const BufferId b : MadeAt(graph, plan, event)) {
        newest[b] = static_cast<int>(instances_.size());
        made.makes.push_back(newest[b]);
        instances_.push_back({graph.buffers[b].bytes, e, 0, graph.buffers[b].escapes, b});
      }
      events_.push_back(std::move(made));
    });
  }

  int size() const { return static_cast<int>(events_.size()); }
  void Wait(int event, int other) { events_[event].waits.push_back(other); }
  int64_t total_waits() const {
    int64_t waits = 0;
    for (const Event& event : events_) waits += static_cast<int64_t>(event.waits.size());
    return waits;
  }

  // The most that is in use where what is ready begins in a random order, two at a time. -1: not all could run.
  int64_t Peak(uint64_t seed) const {
    Random random(seed);
    std::vector<Instance> instances = instances_;
    std::vector<bool> begun(events_.size(), false), ended(events_.size(), false);
    std::vector<std::vector<int>> taken(events_.size());  // instances whose storage it has taken over
    std::vector<int> running;
    int64_t in_use = 0, peak = 0;
    size_t count = 0;
    while (count < events_.size()) {
      std::vector<int> ready;
      for (int e = 0; e < size(); ++e) {
        const auto is_over = [&](int other) { return ended[other]; };
        if (!begun[e] && std::all_of(events_[e].waits.begin(), events_[e].waits.end(), is_over)) ready.push_back(e);
      }
      if (ready.empty() && running.empty()) return -1;
      if (!ready.empty() && (running.empty() || (running.size() < 2 && random.OneIn(2)))) {
        const int e = ready[random.Below(static_cast<int>(ready.size()))];
        in_use += Allocated(events_[e], instances, &taken[e]);
        peak = std::max(peak, in_use);
        begun[e] = true;
        running.push_back(e);
        continue;
      }
      const int place = random.Below(static_cast<int>(running.size()));
      const int e = running[place];
      running.erase(running.begin() + place);
      ended[e] = true;
      ++count;
      in_use -= Freed(events_[e], taken[e], &instances);
    }
    return peak;
  }

 private:
  struct Instance {
    int64_t bytes;
    int maker;
    int readers;  // left
    bool escapes;
    BufferId buffer;
  };
  struct Event {
    const MemOp* op;
    std::vector<int> waits;
    std::vector<int> reads;
    std::vector<int> makes;
  };

  int64_t Allocated(const Event& event, const std::vector<Instance>& instances, std::vector<int>* taken) const {
    int64_t bytes = event.op->workspace_bytes;
    for (const BufferId out : event.op->outputs) {
      const int64_t wanted = graph_.buffers[out].bytes;
      const auto may_take = [&](int i) {
        const std::vector<BufferId>& may = event.op->forwardable;
        return instances[i].readers == 1 && !instances[i].escapes && instances[i].bytes == wanted &&
               std::find(may.begin(), may.end(), instances[i].buffer) != may.end() &&
               std::find(taken->begin(), taken->end(), i) == taken->end();
      };
      const auto found = std::find_if(event.reads.begin(), event.reads.end(), may_take);
      if (found == event.reads.end()) {
        bytes += wanted;
      } else {
        taken->push_back(*found);
      }
    }
    return bytes;
  }

  int64_t Freed(const Event& event, const std::vector<int>& taken, std::vector<Instance>* instances) const {
    int64_t bytes = event.op->workspace_bytes;
    for (const int i : event.reads) {
      Instance& instance = (*instances)[i];
      const bool is_taken = std::find(taken.begin(), taken.end(), i) != taken.end();
      if (--instance.readers == 0 && !instance.escapes && !is_taken) bytes += instance.bytes;
    }
    for (const BufferId out : event.op->outputs) {
      const auto lasts = [&](int i) {
        const Instance& made = (*instances)[i];
        return made.buffer == out && (made.readers > 0 || made.escapes);
      };
      if (std::none_of(event.makes.begin(), event.makes.end(), lasts)) bytes += graph_.buffers[out].bytes;
    }
    return bytes;
  }

  const MemGraph& graph_;
  std::vector<Event> events_;
  std::vector<Instance> instances_;
};

// Smaller buffers, and less workspace, are not waited for.
int64_t SmallBytes(const MemGraph& graph, int64_t peak) {
  int64_t bytes = 0;
  for (const MemOp& op : graph.ops) {
    if (op.workspace_bytes < peak / 256 + 1) bytes += op.workspace_bytes;
  }
  for (const MemBuffer& buffer : graph.buffers) {
    if (!buffer.resident && buffer.bytes < peak / 256 + 1) bytes += buffer.bytes;
  }
  return bytes;
}

MemGraph RandomStep(uint64_t seed) {
  return seed % 2 == 0 ? testing::RandomGraph(seed, 12) : testing::RandomBranches(seed, 40);
}

Executor Kept(const MemGraph& graph, const Plan& plan, int64_t limit) {
  OrderKeeper keeper(graph, plan, limit);
  Executor executor(graph, plan);
  for (EventId e = 0; e < executor.size(); ++e) {
    for (const EventId other : keeper.Waits(e)) executor.Wait(e, other);
    keeper.Passed(e);
  }
  return executor;
}

TEST(OrderKeeper, NoOrderThatItAllowsTakesMoreThanTheLimit) {
  int over = 0;
  PlannerOptions options;
  options.work = kWorkPerSecond / 100;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const MemGraph graph = RandomStep(seed);
    const int64_t resident = graph.ResidentBytes();
    const PlannerResult least = PlanForLeastPeak(graph, options);
    for (const Plan& plan : {Plan(), least.plan}) {
      const int64_t peak = Simulate(graph, plan).peak_bytes;
      for (const int64_t limit : {peak, peak + (peak - resident) / 10}) {
        const Executor kept = Kept(graph, plan, limit);
        for (uint64_t order = 0; order < 10; ++order) {
          const int64_t taken = kept.Peak(100 * seed + order);
          ASSERT_GE(taken, 0) << "seed " << seed;
          EXPECT_LE(taken, limit - resident + SmallBytes(graph, peak - resident)) << "seed " << seed;
          over += Executor(graph, plan).Peak(100 * seed + order) > limit - resident ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(over, 500);  // without its waits
}

TEST(OrderKeeper, WhereThereIsRoomLessIsWaitedFor) {
  int64_t tight = 0, wide = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const MemGraph graph = RandomStep(seed);
    const int64_t peak = Simulate(graph, Plan()).peak_bytes;
    tight += Kept(graph, Plan(), peak).total_waits();
    wide += Kept(graph, Plan(), 2 * peak).total_waits();
    EXPECT_EQ(Kept(graph, Plan(), 1000 * peak).total_waits(), Executor(graph, Plan()).total_waits());
  }
  EXPECT_LT(wide, tight);
}

// A large buffer whose last reader is in a branch; then what ends the branch, an op behind it, and two that make
// something as large: one before the branch has ended in the plan's order, and one after.
struct Branch {
  Branch() {
    const BufferId x = AddBuffer(&graph, 8, kNone);
    large = AddOp(&graph, {x}, 1000);
    in_branch = AddOp(&graph, {OutputOf(graph, large)}, 8);
    before = AddOp(&graph, {x}, 1000);
    read_before = AddOp(&graph, {OutputOf(graph, before)}, 8);
    merge = AddOp(&graph, {OutputOf(graph, in_branch)}, 8);
    behind = AddOp(&graph, {OutputOf(graph, merge)}, 8);
    after = AddOp(&graph, {x}, 1000);
    graph.ops[merge].anchor = false;
    places.assign(graph.ops.size(), 0);
    places[in_branch] = 1;
  }
  std::vector<std::vector<EventId>> Waits(int64_t limit) const {
    OrderKeeper keeper(graph, Plan(), limit, 0, Deadline(), 1 << 20, places);
    std::vector<std::vector<EventId>> waits;
    for (EventId e = 0; e < static_cast<EventId>(graph.ops.size()); ++e) {
      waits.push_back(keeper.Waits(e));
      keeper.Passed(e);
    }
    return waits;
  }
  MemGraph graph;
  OpId large, in_branch, before, read_before, merge, behind, after;
  std::vector<int> places;
};

TEST(OrderKeeper, WhatABranchReadsLastIsWaitedForBehindIt) {
  const Branch step;
  const auto waits = step.Waits(1100);
  EXPECT_EQ(waits[step.before], std::vector<EventId>());  // nothing to wait for is behind the branch yet
  EXPECT_EQ(waits[step.after], (std::vector<EventId>{step.read_before, step.behind}));
}

TEST(OrderKeeper, WhatABranchMayStillHoldCountsAsInUse) {
  const Branch step;
  // Room for two, and the branch ends last: what else is done with has to be.
  EXPECT_EQ(step.Waits(2100)[step.after], (std::vector<EventId>{step.read_before}));
  EXPECT_EQ(step.Waits(3100)[step.after], std::vector<EventId>());
}

}  // namespace
}  // namespace lms
