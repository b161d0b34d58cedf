#include "cc/core/order/order_keeper.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/core/base/bytes.h"

namespace lms {
namespace {

// A buffer of at least this share of the peak is large.
constexpr int64_t kLargeShare = 256;

// True where it was not there.
bool AddOnce(int id, std::vector<int>* ids) {
  if (std::find(ids->begin(), ids->end(), id) != ids->end()) return false;
  ids->push_back(id);
  return true;
}

}  // namespace

using Kind = PlanEvent::Kind;

OrderKeeper::OrderKeeper(const MemGraph& graph, const Plan& plan, int64_t limit_bytes, int64_t serialize_bytes,
                         const Deadline& deadline, int64_t most_bytes, std::vector<int> places)
    : pace_(deadline),
      graph_(graph),
      plan_(plan),
      limit_bytes_(limit_bytes),
      serialize_bytes_(serialize_bytes),
      profile_(Simulate(graph, plan)),
      places_(std::move(places)) {
  large_bytes_ = std::max<int64_t>(1, (profile_.peak_bytes - profile_.resident_bytes) / kLargeShare);
  swapped_.assign(graph_.buffers.size(), false);
  for (const SwapOut& out : plan_.swap_outs) swapped_[out.buffer] = true;
  MakeEvents();
  FindDepsAndReleases();
  number_.assign(events_.size(), kNone);
  for (EventId e = 0; e < static_cast<EventId>(events_.size()); ++e) {
    for (const EventId reader : releases_[e]) number_[reader] = 0;
    if (Serialized(e) && MayBeWaitedFor(e)) number_[e] = 0;
  }
  FindEnds();
  for (EventId e = 0; e < static_cast<EventId>(events_.size()); ++e) {
    if (number_[e] == kNone) continue;
    number_[e] = static_cast<int>(reader_.size());
    reader_.push_back(e);
  }
  words_ = reader_.size() / 64 + 1;
  released_by_all_.assign(words_, 0);
  const double bytes = 8.0 * static_cast<double>(words_) * static_cast<double>(events_.size());
  if (bytes > static_cast<double>(most_bytes)) {
    throw TooMuch("to keep " + std::to_string(events_.size()) + " operations in order beside " +
                  std::to_string(reader_.size()) + " readers of large tensors would take " +
                  FormatBytes(static_cast<int64_t>(bytes)));
  }
}

bool OrderKeeper::Large(BufferId buffer) const {
  return !graph_.buffers[buffer].resident && graph_.buffers[buffer].bytes >= large_bytes_;
}

int OrderKeeper::PlaceOf(EventId event) const {
  if (places_.empty()) return 0;
  const PlanEvent& e = events_[event];
  if (e.Runs()) return places_[OpAt(plan_, e)];
  const OpId producer = graph_.buffers[SwappedAt(plan_, e)].producer;
  return places_[producer == kNone ? e.place : producer];
}

bool OrderKeeper::MayBeWaitedFor(EventId event) const { return !events_[event].Runs() || OpOf(event).anchor; }

bool OrderKeeper::MayBeWaitedForIn(int place, EventId event) const {
  return MayBeWaitedFor(event) && PlaceOf(event) == place;
}

bool OrderKeeper::Serialized(EventId event) const {
  if (serialize_bytes_ <= 0 || !events_[event].Runs()) return false;
  int64_t bytes = 0;
  for (const BufferId b : OpOf(event).outputs) {
    if (!graph_.buffers[b].resident) bytes += graph_.buffers[b].bytes;
  }
  return bytes >= serialize_bytes_;
}

bool OrderKeeper::AllocatesLarge(EventId event) const {
  const PlanEvent& e = events_[event];
  if (e.kind == Kind::kSwapOut) return false;
  if (e.kind == Kind::kSwapIn) return Large(SwappedAt(plan_, e));
  const MemOp& op = OpOf(event);
  return op.workspace_bytes >= large_bytes_ ||
         std::any_of(op.outputs.begin(), op.outputs.end(), [this](BufferId b) { return Large(b); });
}

// In use while the event's node runs, by the plan.
int64_t OrderKeeper::BytesAt(EventId event) const {
  const PlanEvent& e = events_[event];
  if (e.kind == Kind::kStep) return profile_.step_bytes[e.index];
  return e.kind == Kind::kSwapIn ? profile_.swap_in_bytes[e.index] : profile_.op_bytes[e.place];
}

void OrderKeeper::MakeEvents() {
  event_of_op_.assign(graph_.ops.size(), kNone);
  Walk(graph_, plan_, [this](const PlanEvent& event) {
    if (event.kind == Kind::kMovedAway) return;
    const EventId id = static_cast<EventId>(events_.size());
    events_.push_back(event);
    if (event.kind == Kind::kStep) event_of_step_.push_back(id);
    if (event.kind == Kind::kSwapIn) event_of_swap_in_.push_back(id);
    if (event.kind == Kind::kSwapOut) event_of_swap_out_.push_back(id);
    if (event.kind == Kind::kOp || (event.kind == Kind::kStep && plan_.steps[event.index].moves)) {
      event_of_op_[OpAt(plan_, event)] = id;
    }
  });
  deps_.resize(events_.size());
  releases_.resize(events_.size());
  sharers_.resize(events_.size());
  shared_bytes_.assign(events_.size(), 0);
  read_.resize(events_.size());
  implied_.resize(events_.size());
}

void OrderKeeper::FindDepsAndReleases() {
  maker_.assign(graph_.buffers.size(), kNone);
  swapped_out_.assign(graph_.buffers.size(), kNone);
  readers_.resize(graph_.buffers.size());
  for (EventId e = 0; e < static_cast<EventId>(events_.size()); ++e) {
    const PlanEvent& event = events_[e];
    if (!event.Runs()) {
      FindDepsOfSwap(e, SwappedAt(plan_, event));
      continue;
    }
    const MemOp& op = OpOf(e);
    bool as_before = event.kind == Kind::kOp;
    for (const BufferId b : op.inputs) {
      if (Tracked(b)) readers_[b].push_back(e);
      if (maker_[b] == kNone) continue;
      deps_[e].push_back(maker_[b]);
      as_before = as_before && events_[maker_[b]].kind == Kind::kOp;
    }
    // A node that reads another instance need not wait for the first run.
    if (as_before) {
      for (const OpId dep : op.deps) deps_[e].push_back(event_of_op_[dep]);
    }
    for (const BufferId b : MadeAt(graph_, plan_, event)) {
      Release(b, &readers_[b]);
      maker_[b] = e;
    }
    AddScratch(e);
  }
  for (size_t b = 0; b < readers_.size(); ++b) {
    if (!graph_.buffers[b].escapes) Release(static_cast<BufferId>(b), &readers_[b]);
  }
}

// What may be waited for where a reader may not be: it waits for the reader, by way of others that may not be.
void OrderKeeper::FindEnds() {
  std::vector<bool> after_reader(events_.size(), false);
  ends_.assign(events_.size(), false);
  for (EventId e = 0; e < static_cast<EventId>(events_.size()); ++e) {
    after_reader[e] = number_[e] != kNone;
    const int place = PlaceOf(e);
    for (const EventId dep : deps_[e]) {
      if (!after_reader[dep]) continue;
      after_reader[e] = true;
      ends_[e] = ends_[e] || !MayBeWaitedForIn(place, dep);
    }
    ends_[e] = ends_[e] && MayBeWaitedFor(e);
    if (ends_[e]) number_[e] = 0;
  }
}

// A swap-out waits for what makes the instance at hand; a swap-in for the swap-out.
void OrderKeeper::FindDepsOfSwap(EventId event, BufferId buffer) {
  if (events_[event].kind == Kind::kSwapOut) {
    if (Tracked(buffer)) readers_[buffer].push_back(event);
    if (maker_[buffer] != kNone) deps_[event].push_back(maker_[buffer]);
    swapped_out_[buffer] = event;
    return;
  }
  deps_[event].push_back(swapped_out_[buffer]);
  Release(buffer, &readers_[buffer]);
  maker_[buffer] = event;
}

// What the event's node alone holds, while it runs: workspace, and results that nobody reads.
void OrderKeeper::AddScratch(EventId event) {
  const MemOp& op = OpOf(event);
  int64_t bytes = op.workspace_bytes;
  const std::vector<BufferId>& made = MadeAt(graph_, plan_, events_[event]);
  for (const BufferId b : op.outputs) {
    const MemBuffer& buffer = graph_.buffers[b];
    const bool lasts = std::find(made.begin(), made.end(), b) != made.end();
    if (!buffer.resident && !lasts) bytes += buffer.bytes;
  }
  if (bytes < large_bytes_) return;
  releases_[event].push_back(event);
  read_[event].push_back(static_cast<int>(instances_.size()));
  instances_.push_back({bytes, event});
}

// Of the newest instance, with its readers.
void OrderKeeper::Release(BufferId buffer, std::vector<EventId>* readers) {
  if (readers->empty()) {
    // Nobody reads it: it goes when the op ends that makes it.
    if (!Large(buffer) || maker_[buffer] == kNone) return;
    readers->push_back(maker_[buffer]);
  }
  const EventId last = readers->back();
  releases_[last].insert(releases_[last].end(), readers->begin(), readers->end());
  for (const EventId reader : *readers) read_[reader].push_back(static_cast<int>(instances_.size()));
  instances_.push_back({graph_.buffers[buffer].bytes, last});
  const auto may_take_over = [this, buffer](const MemOp& op) {
    return std::find(op.forwardable.begin(), op.forwardable.end(), buffer) != op.forwardable.end();
  };
  if (events_[last].Runs() && may_take_over(OpOf(last))) {
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
  pace_.Step(1 + static_cast<int64_t>(more.size()) / 4);
  for (size_t i = 0; i < more.size(); ++i) (*implied)[i] |= more[i];
  if (number_[by] != kNone) (*implied)[number_[by] / 64] |= uint64_t{1} << (number_[by] % 64);
}

// What is done with by readers that the event cannot wait for: it waits for what comes behind them, where that has
// passed. Returns the instances that the others may still hold.
std::vector<int> OrderKeeper::HeldByOthers(EventId event, const Set& implied, Set* wanted) const {
  const int place = PlaceOf(event);
  const auto released = released_.find(place);
  const auto ends = end_of_.find(place);
  std::vector<int> held;
  for (size_t i = 0; i < words_; ++i) {
    uint64_t others = released_by_all_[i] & ~implied[i];
    if (released != released_.end()) others &= ~released->second[i];
    for (; others != 0; others &= others - 1) {
      const size_t reader = i * 64 + static_cast<size_t>(__builtin_ctzll(others));
      const EventId end = ends == end_of_.end() ? kNone : ends->second[reader];
      if (end != kNone) {
        (*wanted)[number_[end] / 64] |= uint64_t{1} << (number_[end] % 64);
        continue;
      }
      pace_.Step(1 + static_cast<int64_t>(held.size()) / 8);
      for (const int instance : read_[reader_[reader]]) {
        if (instances_[instance].last < event) AddOnce(instance, &held);
      }
    }
  }
  return held;
}

// Takes readers out of `wanted`, the last first, as long as what they may still hold fits under the limit. `counted`:
// instances that are held in any case.
void OrderKeeper::DropWhatFits(EventId event, const Set& implied, std::vector<int> counted, Set* wanted) const {
  int64_t room = limit_bytes_ - BytesAt(event);
  for (const int instance : counted) room -= instances_[instance].bytes;
  // What the op cannot take over has to be allocated beside it.
  if (shared_bytes_[event] <= room) {
    room -= shared_bytes_[event];
  } else {
    for (const EventId sharer : sharers_[event]) {
      if (number_[sharer] != kNone && !Has(implied, sharer)) return;
    }
  }
  for (int i = static_cast<int>(reader_.size()) - 1; i >= 0; --i) {
    const uint64_t bit = uint64_t{1} << (i % 64);
    if (((*wanted)[i / 64] & ~implied[i / 64]) == 0) {
      i -= i % 64;
      continue;
    }
    if (((*wanted)[i / 64] & ~implied[i / 64] & bit) == 0) continue;
    for (const int instance : read_[reader_[i]]) {
      pace_.Step(1 + static_cast<int64_t>(counted.size()) / 8);
      // What is done with later is live in the plan too.
      if (instances_[instance].last >= event) continue;
      if (AddOnce(instance, &counted)) room -= instances_[instance].bytes;
    }
    if (room < 0) return;
    (*wanted)[i / 64] &= ~bit;
  }
}

std::vector<OrderKeeper::EventId> OrderKeeper::Waits(EventId event) {
  const bool large = AllocatesLarge(event);
  const int place = PlaceOf(event);
  const auto before = serialized_.find(place);
  const bool serialized = Serialized(event) && before != serialized_.end();
  if (!large && !serialized) return {};
  pace_.Step(static_cast<int64_t>(words_));
  const auto released = released_.find(place);
  Set wanted = large && released != released_.end() ? released->second : Set(words_, 0);
  for (const EventId sharer : sharers_[event]) {
    if (number_[sharer] != kNone && MayBeWaitedForIn(place, sharer))
      wanted[number_[sharer] / 64] |= uint64_t{1} << (number_[sharer] % 64);
  }
  Set implied(words_, 0);
  for (const EventId dep : deps_[event]) AddImplied(dep, &implied);
  if (large) {
    std::vector<int> held = HeldByOthers(event, implied, &wanted);
    if (limit_bytes_ > 0) DropWhatFits(event, implied, std::move(held), &wanted);
  }
  if (serialized) wanted[number_[before->second] / 64] |= uint64_t{1} << (number_[before->second] % 64);
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
  Set implied(words_, 0);
  for (const EventId dep : deps_[event]) AddImplied(dep, &implied);
  implied_[event] = std::move(implied);
  if (ends_[event]) EndsReaders(event);
  if (Serialized(event) && MayBeWaitedFor(event)) serialized_[PlaceOf(event)] = event;
  for (const EventId reader : releases_[event]) {
    const uint64_t bit = uint64_t{1} << (number_[reader] % 64);
    released_by_all_[number_[reader] / 64] |= bit;
    if (!MayBeWaitedFor(reader)) continue;
    Set& released = released_[PlaceOf(reader)];
    released.resize(words_, 0);
    released[number_[reader] / 64] |= bit;
  }
}

// Whoever is to wait for those that the event waits for, and may not, waits for the event. Only then does it hold what
// they hold.
void OrderKeeper::EndsReaders(EventId event) {
  const int place = PlaceOf(event);
  std::vector<EventId>& ends = end_of_[place];
  ends.resize(reader_.size(), kNone);
  for (size_t i = 0; i < words_; ++i) {
    for (uint64_t bits = implied_[event][i]; bits != 0; bits &= bits - 1) {
      const size_t number = i * 64 + static_cast<size_t>(__builtin_ctzll(bits));
      const EventId reader = reader_[number];
      if (ends[number] != kNone || MayBeWaitedForIn(place, reader)) continue;
      pace_.Step();
      ends[number] = event;
      read_[event].insert(read_[event].end(), read_[reader].begin(), read_[reader].end());
    }
  }
}

}  // namespace lms
