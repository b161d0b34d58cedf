// Which ops must have ended before a node may allocate, so that the executor cannot run ahead of the plan.
//
// The executor starts whatever is ready, in an order of its own: an op that frees a large buffer may wait in a queue
// while others allocate. Walking the plan's order, the keeper remembers the readers of large buffers that are done
// with, and names them to the next node that allocates something large, unless that node waits for them anyway. So at
// every large allocation everything has been freed that the plan frees before it, while small ops stay free to move. An
// op that is to take over the storage of a large input waits for the other readers of that input as well.
//
// One walk per object, in schedule order. For each large allocation the dependencies back to the
// earliest pending reader are followed: O(ops) at worst, usually a few dozen.

#ifndef LMS_CC_TF_ORDER_KEEPER_H_
#define LMS_CC_TF_ORDER_KEEPER_H_

#include <cstdint>
#include <vector>

#include "cc/core/mem_graph.h"
#include "cc/core/plan.h"

namespace lms {

class OrderKeeper {
 public:
  // `graph` is in execution order and `plan` valid for it; both outlive the keeper.
  OrderKeeper(const MemGraph& graph, const Plan& plan);

  bool AllocatesLarge(OpId op) const;

  // The ops that a node must wait for, beyond those that `known` (which it waits for anyway) imply.
  std::vector<OpId> Waits(const std::vector<OpId>& known) { return NotImplied(known, {}); }

  // The same for an op of the graph, at its own place.
  std::vector<OpId> WaitsOf(OpId op) { return NotImplied(deps_[op], sharers_[op]); }

  // The op has waits that the graph does not show.
  void AddDeps(OpId op, const std::vector<OpId>& waits);

  // The walk has passed the op.
  void Passed(OpId op);

 private:
  void FindReleases(const Plan& plan);
  void Release(BufferId buffer, std::vector<OpId>* readers);
  std::vector<OpId> NotImplied(const std::vector<OpId>& known, const std::vector<OpId>& also);
  bool Large(BufferId buffer) const;

  const MemGraph& graph_;
  int64_t large_bytes_;
  std::vector<std::vector<OpId>> deps_;
  std::vector<std::vector<OpId>> releases_;  // per op: readers of the large buffers that are done with after it
  std::vector<std::vector<OpId>> sharers_;   // per op: other readers of the input whose storage it takes over
  std::vector<int> implied_in_;              // per op: the last search that found it implied
  int search_ = 0;                           // number of the current search
  std::vector<OpId> pending_;                // readers that no large allocation has waited for yet
};

}  // namespace lms

#endif  // LMS_CC_TF_ORDER_KEEPER_H_
