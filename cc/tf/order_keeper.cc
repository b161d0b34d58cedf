#include "cc/tf/order_keeper.h"

#include <algorithm>
#include <utility>

namespace lms {
namespace {

// A buffer of at least this share of the peak is large.
constexpr int64_t kLargeShare = 256;

}  // namespace

OrderKeeper::OrderKeeper(const MemGraph& graph, const Plan& plan, int64_t limit_bytes)
    : graph_(graph), limit_bytes_(limit_bytes), profile_(Simulate(graph, plan)) {
  large_bytes_ = std::max<int64_t>(1, (profile_.peak_bytes - profile_.resident_bytes) / kLargeShare);
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
  shared_bytes_.assign(events_.size(), 0);
  read_.resize(events_.size());
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
  for (const EventId reader : *readers) read_[reader].push_back(static_cast<int>(instances_.size()));
  instances_.push_back({graph_.buffers[buffer].bytes, last});
  const std::vector<BufferId>& forwardable = graph_.ops[events_[last].op].forwardable;
  if (std::find(forwardable.begin(), forwardable.end(), buffer) != forwardable.end()) {
    sharers_[last].insert(sharers_[last].end(), readers->begin(), readers->end() - 1);
    if (readers->size() > 1) shared_bytes_[last] += graph_.buffers[buffer].bytes;
  }
  readers->clear();
}

bool OrderKeeper::Has(const Set& set, EventId reader) const {
  return (set[number_[reader] / 64] >> (number_[reader] % 64) & 1) != 0;
}

void OrderKeeper::AddImplied(EventId by, Set* implied) const {
  const Set& more = implied_[by];
  for (size_t i = 0; i < more.size(); ++i) (*implied)[i] |= more[i];
  if (number_[by] != kNone) (*implied)[number_[by] / 64] |= uint64_t{1} << (number_[by] % 64);
}

// Takes readers out of `wanted`, the last first, as long as what they may still hold fits under the limit.
void OrderKeeper::DropWhatFits(EventId event, const Set& implied, Set* wanted) const {
  const Event& e = events_[event];
  int64_t room = limit_bytes_ - (e.step == kNone ? profile_.op_bytes[e.op] : profile_.step_bytes[e.step]);
  // What the op cannot take over has to be allocated beside it.
  if (shared_bytes_[event] <= room) {
    room -= shared_bytes_[event];
  } else {
    for (const EventId sharer : sharers_[event]) {
      if (number_[sharer] != kNone && !Has(implied, sharer)) return;
    }
  }
  std::vector<int> counted;
  for (int i = static_cast<int>(reader_.size()) - 1; i >= 0; --i) {
    const uint64_t bit = uint64_t{1} << (i % 64);
    if (((*wanted)[i / 64] & ~implied[i / 64]) == 0) {
      i -= i % 64;
      continue;
    }
    if (((*wanted)[i / 64] & ~implied[i / 64] & bit) == 0) continue;
    for (const int instance : read_[reader_[i]]) {
      // What is done with later is live in the plan too.
      if (instances_[instance].last >= event) continue;
      if (std::find(counted.begin(), counted.end(), instance) != counted.end()) continue;
      counted.push_back(instance);
      room -= instances_[instance].bytes;
    }
    if (room < 0) return;
    (*wanted)[i / 64] &= ~bit;
  }
}

std::vector<OrderKeeper::EventId> OrderKeeper::Waits(EventId event) {
  if (!AllocatesLarge(event)) return {};
  Set wanted = released_;
  for (const EventId sharer : sharers_[event]) {
    if (number_[sharer] != kNone) wanted[number_[sharer] / 64] |= uint64_t{1} << (number_[sharer] % 64);
  }
  Set implied(released_.size(), 0);
  for (const EventId dep : deps_[event]) AddImplied(dep, &implied);
  if (limit_bytes_ > 0) DropWhatFits(event, implied, &wanted);
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
