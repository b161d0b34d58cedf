// Which nodes must have ended before another one may allocate, so that the executor cannot run ahead of the plan.
//
// The executor starts whatever is ready, in an order of its own: an op that frees a large buffer may wait in a queue
// while others allocate. Walking the plan's order, the keeper remembers the readers of large buffers (and of any that
// are swapped) that are done with, and names them to each node that allocates something large later, unless that node
// waits for them anyway. So at every large allocation everything has been freed that the plan frees before it, while
// small ops stay free to move. An op that is to take over the storage of a large input waits for the other readers of
// that input as well.
//
// The walk is over events: before each op the swap-ins and then the steps that the plan has there, the op at its own
// place, and the swap-outs that are to be done by then. Steps are ordered among themselves as well: branches of one
// closure have nothing else that keeps them from running side by side. A swap-out is a reader of its buffer that may
// begin as soon as that is there and is done with it at the swap-out's place.
//
// With a limit, only what the limit needs is waited for. While an event is the last in the plan's order of those that
// have begun, what is in use beyond the plan is what should have been freed by then and is not. So an event may begin
// early by as many bytes as there are between its own place in the plan and the limit; the readers that were done with
// last are the first that it need not wait for.
//
// Ops whose results have `serialize_bytes` or more wait for each other as well, one for the one before it.
//
// Events wait for events of their own place alone: a node of one loop or branch cannot wait for one of another. Where a
// reader is in another place, or may not be waited for, what comes behind it and may be is waited for in its stead;
// before there is one, what the reader may hold counts as in use.
//
// One walk per object, O((events + dependencies) * readers / 64): each event has the set of the readers that it waits
// for.

#ifndef LMS_CC_CORE_ORDER_ORDER_KEEPER_H_
#define LMS_CC_CORE_ORDER_ORDER_KEEPER_H_

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"
#include "cc/core/graph/walk.h"
#include "cc/core/simulate/liveness.h"

namespace lms {

class OrderKeeper {
 public:
  using EventId = int32_t;
  // `graph` is in execution order and `plan` valid for it; both outlive the keeper. `limit_bytes` includes what is
  // resident; 0: everything is waited for. `places`: per op, any numbers; none: all ops are in one place.
  // `serialize_bytes` 0: no op is serialized. Memory grows with events times large readers: TooMuch is thrown where it
  // would be more than `most_bytes`, and later where the deadline passes.
  OrderKeeper(const MemGraph& graph, const Plan& plan, int64_t limit_bytes = 0, int64_t serialize_bytes = 0,
              const Deadline& deadline = Deadline(), int64_t most_bytes = std::numeric_limits<int64_t>::max(),
              std::vector<int> places = {});

  const PlanEvent& event(EventId event) const { return events_[event]; }
  EventId EventOfStep(int step) const { return event_of_step_[step]; }
  EventId EventOfSwapOut(int swap_out) const { return event_of_swap_out_[swap_out]; }
  EventId EventOfSwapIn(int swap_in) const { return event_of_swap_in_[swap_in]; }
  // A moved op runs at its step's place.
  EventId EventOfOp(OpId op) const { return event_of_op_[op]; }

  // The node of the event waits for that of another one.
  void AddWait(EventId event, EventId other) { deps_[event].push_back(other); }

  // What the event's node must wait for beyond what it waits for anyway; nothing where it allocates nothing large
  // and is not serialized. The caller adds these waits, all of them.
  std::vector<EventId> Waits(EventId event);

  // The walk has passed the event.
  void Passed(EventId event);

 private:
  using Set = std::vector<uint64_t>;  // of readers, as bits by their number

  void AddImplied(EventId by, Set* implied) const;
  bool Has(const Set& set, EventId reader) const;
  void MakeEvents();
  void FindDepsAndReleases();
  void FindDepsOfSwap(EventId event, BufferId buffer);
  const MemOp& OpOf(EventId event) const { return graph_.ops[OpAt(plan_, events_[event])]; }
  int PlaceOf(EventId event) const;
  bool MayBeWaitedFor(EventId event) const;
  bool MayBeWaitedForIn(int place, EventId event) const;
  bool Serialized(EventId event) const;
  int64_t BytesAt(EventId event) const;
  void Release(BufferId buffer, std::vector<EventId>* readers);
  void AddScratch(EventId event);
  std::vector<int> HeldByOthers(EventId event, const Set& implied, Set* wanted) const;
  void DropWhatFits(EventId event, const Set& implied, std::vector<int> counted, Set* wanted) const;
  void FindEnds();
  void EndsReaders(EventId event);
  bool Large(BufferId buffer) const;
  // Are its readers waited for? Small ones that are swapped are many, and held until somebody waits for their copies.
  bool Tracked(BufferId buffer) const { return Large(buffer) || swapped_[buffer]; }
  bool AllocatesLarge(EventId event) const;

  mutable Pace pace_;
  const MemGraph& graph_;
  const Plan& plan_;
  int64_t limit_bytes_;
  int64_t serialize_bytes_;
  int64_t large_bytes_;
  MemoryProfile profile_;
  std::vector<PlanEvent> events_;  // but for the places of ops that are moved
  std::vector<EventId> event_of_step_;
  std::vector<EventId> event_of_swap_out_;
  std::vector<EventId> event_of_swap_in_;
  std::vector<EventId> event_of_op_;
  std::vector<std::vector<EventId>> deps_;
  std::vector<std::vector<EventId>> releases_;  // readers of the large buffers that are done with after the event
  std::vector<std::vector<EventId>> sharers_;   // other readers of the input whose storage it takes over
  std::vector<int64_t> shared_bytes_;           // of those inputs
  // Instances of buffers that were released, each with its last reader, and which of them a reader has read.
  struct Released {
    int64_t bytes;
    EventId last;
  };
  std::vector<Released> instances_;
  std::vector<std::vector<int>> read_;         // per event
  std::vector<EventId> maker_;                 // per buffer, while deps are found: of the newest instance
  std::vector<EventId> swapped_out_;           // likewise: its swap-out
  std::vector<bool> swapped_;                  // per buffer: by the plan
  std::vector<std::vector<EventId>> readers_;  // of that, where they are waited for
  // Readers, what is serialized and what ends readers have numbers in the order of events.
  std::vector<int> number_;      // of the event; kNone where it is none of them
  std::vector<EventId> reader_;  // by number
  std::vector<Set> implied_;     // per event passed: the readers that have ended before it starts
  std::vector<int> places_;
  std::vector<bool> ends_;                      // per event: it may be waited for where what it waits for may not
  std::map<int, std::vector<EventId>> end_of_;  // by place, per reader that may not be: of those passed, the first end
  std::map<int, Set> released_;                 // by place: readers whose buffers are done with
  Set released_by_all_;                         // likewise of all places, and those that may not be waited for
  std::map<int, EventId> serialized_;           // by place: the last event passed that is
  size_t words_ = 0;                            // of a set
};

}  // namespace lms

#endif  // LMS_CC_CORE_ORDER_ORDER_KEEPER_H_
