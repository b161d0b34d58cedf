#include "cc/tf/order_keeper.h"

#include <algorithm>
#include <utility>

#include "cc/core/liveness.h"

namespace lms {
namespace {

// A buffer of at least this share of the peak is large.
constexpr int64_t kLargeShare = 256;

}  // namespace

OrderKeeper::OrderKeeper(const MemGraph& graph, const Plan& plan) : graph_(graph) {
  const MemoryProfile profile = Simulate(graph, plan);
  large_bytes_ = std::max<int64_t>(1, (profile.peak_bytes - profile.resident_bytes) / kLargeShare);
  MakeEvents(plan);
  FindDepsAndReleases(plan);
  number_.assign(events_.size(), kNone);
  for (std::vector<EventId>& released : releases_) {
    const auto late = [this](EventId e) { return !graph_.ops[events_[e].op].anchor; };
    released.erase(std::remove_if(released.begin(), released.end(), late), released.end());
    for (const EventId e : released) number_[e] = 0;
  }
  for (EventId e = 0; e < static_cast<EventId>(events_.size()); ++e) {
    if (number_[e] == kNone) continue;
    number_[e] = static_cast<int>(reader_.size());
    reader_.push_back(e);
  }
  released_.assign(reader_.size() / 64 + 1, 0);
}

bool OrderKeeper::Large(BufferId buffer) const {
  return !graph_.buffers[buffer].resident && graph_.buffers[buffer].bytes >= large_bytes_;
}

bool OrderKeeper::AllocatesLarge(EventId event) const {
  const MemOp& op = graph_.ops[events_[event].op];
  return op.workspace_bytes >= large_bytes_ ||
         std::any_of(op.outputs.begin(), op.outputs.end(), [this](BufferId b) { return Large(b); });
}

void OrderKeeper::MakeEvents(const Plan& plan) {
  std::vector<bool> moved(graph_.ops.size(), false);
  for (const RecomputeStep& step : plan.steps) moved[step.op] = moved[step.op] || step.moves;
  event_of_step_.resize(plan.steps.size());
  event_of_op_.assign(graph_.ops.size(), kNone);
  size_t next = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph_.ops.size()); ++op) {
    for (; next < plan.steps.size() && plan.steps[next].before == op; ++next) {
      event_of_step_[next] = static_cast<EventId>(events_.size());
      if (plan.steps[next].moves) event_of_op_[plan.steps[next].op] = event_of_step_[next];
      events_.push_back({plan.steps[next].op, static_cast<int>(next)});
    }
    if (moved[op]) continue;
    event_of_op_[op] = static_cast<EventId>(events_.size());
    events_.push_back({op, kNone});
  }
  deps_.resize(events_.size());
  releases_.resize(events_.size());
  sharers_.resize(events_.size());
  implied_.resize(events_.size());
}

void OrderKeeper::FindDepsAndReleases(const Plan& plan) {
  std::vector<EventId> maker(graph_.buffers.size(), kNone);          // of the newest instance
  std::vector<std::vector<EventId>> readers(graph_.buffers.size());  // of the newest instance of large buffers
  for (EventId e = 0; e < static_cast<EventId>(events_.size()); ++e) {
    const Event& event = events_[e];
    const MemOp& op = graph_.ops[event.op];
    bool as_before = event.step == kNone;
    for (const BufferId b : op.inputs) {
      if (Large(b)) readers[b].push_back(e);
      if (maker[b] == kNone) continue;
      deps_[e].push_back(maker[b]);
      as_before = as_before && events_[maker[b]].step == kNone;
    }
    // A node that reads a recomputation need not wait for the first run.
    if (as_before) {
      for (const OpId dep : op.deps) deps_[e].push_back(event_of_op_[dep]);
    }
    for (const BufferId b : event.step == kNone ? op.outputs : plan.steps[event.step].provides) {
      Release(b, &readers[b]);
      maker[b] = e;
    }
  }
  for (size_t b = 0; b < readers.size(); ++b) {
    if (!graph_.buffers[b].escapes) Release(static_cast<BufferId>(b), &readers[b]);
  }
}

void OrderKeeper::Release(BufferId buffer, std::vector<EventId>* readers) {
  if (readers->empty()) return;
  const EventId last = readers->back();
  releases_[last].insert(releases_[last].end(), readers->begin(), readers->end());
  const std::vector<BufferId>& forwardable = graph_.ops[events_[last].op].forwardable;
  if (std::find(forwardable.begin(), forwardable.end(), buffer) != forwardable.end()) {
    sharers_[last].insert(sharers_[last].end(), readers->begin(), readers->end() - 1);
  }
  readers->clear();
}

void OrderKeeper::AddImplied(EventId by, Set* implied) const {
  const Set& more = implied_[by];
  for (size_t i = 0; i < more.size(); ++i) (*implied)[i] |= more[i];
  if (number_[by] != kNone) (*implied)[number_[by] / 64] |= uint64_t{1} << (number_[by] % 64);
}

std::vector<OrderKeeper::EventId> OrderKeeper::Waits(EventId event) {
  if (!AllocatesLarge(event)) return {};
  Set wanted = released_;
  for (const EventId sharer : sharers_[event]) {
    if (number_[sharer] != kNone) wanted[number_[sharer] / 64] |= uint64_t{1} << (number_[sharer] % 64);
  }
  Set implied(released_.size(), 0);
  for (const EventId dep : deps_[event]) AddImplied(dep, &implied);
  // Later events imply earlier ones: take them first, so that what one of them implies is not named again.
  std::vector<EventId> waits;
  for (int i = static_cast<int>(reader_.size()) - 1; i >= 0; --i) {
    const uint64_t bit = uint64_t{1} << (i % 64);
    if ((wanted[i / 64] & ~implied[i / 64]) == 0) {
      i -= i % 64;  // nothing left in this word
      continue;
    }
    if ((wanted[i / 64] & ~implied[i / 64] & bit) == 0) continue;
    waits.push_back(reader_[i]);
    AddImplied(reader_[i], &implied);
  }
  std::reverse(waits.begin(), waits.end());
  deps_[event].insert(deps_[event].end(), waits.begin(), waits.end());
  return waits;
}

void OrderKeeper::Passed(EventId event) {
  Set implied(released_.size(), 0);
  for (const EventId dep : deps_[event]) AddImplied(dep, &implied);
  implied_[event] = std::move(implied);
  for (const EventId reader : releases_[event])
    released_[number_[reader] / 64] |= uint64_t{1} << (number_[reader] % 64);
}

}  // namespace lms
