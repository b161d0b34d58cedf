// Which nodes must have ended before another one may allocate, so that the executor cannot run ahead of the plan.
//
// The executor starts whatever is ready, in an order of its own: an op that frees a large buffer may wait in a queue
// while others allocate. Walking the plan's order, the keeper remembers the readers of large buffers that are done
// with, and names them to each node that allocates something large later, unless that node waits for them anyway. So at
// every large allocation everything has been freed that the plan frees before it, while small ops stay free to move. An
// op that is to take over the storage of a large input waits for the other readers of that input as well.
//
// The walk is over events: the steps of the plan and the ops at their own place. Steps are ordered among themselves as
// well: branches of one closure have nothing else that keeps them from running side by side.
//
// With a limit, only what the limit needs is waited for. While an event is the last in the plan's order of those that
// have begun, what is in use beyond the plan is what should have been freed by then and is not. So an event may begin
// early by as many bytes as there are between its own place in the plan and the limit; the readers that were done with
// last are the first that it need not wait for.
//
// One walk per object, O((events + dependencies) * readers / 64): each event has the set of the readers that it waits
// for.

#ifndef LMS_CC_TF_ORDER_KEEPER_H_
#define LMS_CC_TF_ORDER_KEEPER_H_

#include <cstdint>
#include <vector>

#include "cc/core/liveness.h"
#include "cc/core/mem_graph.h"
#include "cc/core/plan.h"

namespace lms {

class OrderKeeper {
 public:
  using EventId = int32_t;
  struct Event {
    OpId op;
    int step;  // of the plan; kNone: the op at its own place
  };

  // `graph` is in execution order and `plan` valid for it; both outlive the keeper. `limit_bytes` includes what is
  // resident; 0: everything is waited for.
  OrderKeeper(const MemGraph& graph, const Plan& plan, int64_t limit_bytes = 0);

  const Event& event(EventId event) const { return events_[event]; }
  EventId EventOfStep(int step) const { return event_of_step_[step]; }
  // A moved op runs at its step's place.
  EventId EventOfOp(OpId op) const { return event_of_op_[op]; }

  // The node of the event waits for that of another one.
  void AddWait(EventId event, EventId other) { deps_[event].push_back(other); }

  // What the event's node must wait for beyond what it waits for anyway; nothing where it allocates nothing large. The
  // caller adds these waits, all of them.
  std::vector<EventId> Waits(EventId event);

  // The walk has passed the event.
  void Passed(EventId event);

 private:
  using Set = std::vector<uint64_t>;  // of readers, as bits by their number

  void AddImplied(EventId by, Set* implied) const;
  bool Has(const Set& set, EventId reader) const;
  void MakeEvents(const Plan& plan);
  void FindDepsAndReleases(const Plan& plan);
  void Release(BufferId buffer, std::vector<EventId>* readers);
  void DropWhatFits(EventId event, const Set& implied, Set* wanted) const;
  bool Large(BufferId buffer) const;
  bool AllocatesLarge(EventId event) const;

  const MemGraph& graph_;
  int64_t limit_bytes_;
  int64_t large_bytes_;
  MemoryProfile profile_;
  std::vector<Event> events_;
  std::vector<EventId> event_of_step_;
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
  std::vector<std::vector<int>> read_;  // per event
  // Readers have numbers in the order of events.
  std::vector<int> number_;      // of the event; kNone where it releases nothing
  std::vector<EventId> reader_;  // by number
  std::vector<Set> implied_;     // per event passed: the readers that have ended before it starts
  Set released_;                 // readers whose buffers are done with
};

}  // namespace lms

#endif  // LMS_CC_TF_ORDER_KEEPER_H_
