// What the transfers of a plan cost: a run of the step with the link beside it.
//
// The ops of the step (and recomputations) run one after the other, each for its predicted time. A swap-out may begin
// when what makes its instance has run, and is done with what comes after its op `by` only when it has ended; a swap-in
// may begin when the op before its place has run, and the first reader of the new instance waits for it. Transfers of
// one lane (swap_link.h) run one at a time, the one that is wanted first of those that may begin, in pieces small
// enough for a more urgent one to step in; those that the link queues come behind, in the order in which they may
// begin. Independent of the planner's own account. O(events log transfers).

#ifndef LMS_CC_CORE_SIMULATE_TRANSFERS_H_
#define LMS_CC_CORE_SIMULATE_TRANSFERS_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"
#include "cc/core/graph/swap_link.h"

namespace lms {

struct Transfers {
  double step_us = 0;      // from begin to end, stalls included
  double stall_us = 0;     // during which no op runs, as the next one waits for a transfer
  double transfer_us = 0;  // sum over all transfers of the time that the link is busy
  double compute_us = 0;   // that copying takes from the ops (SwapLink::compute_us_per_byte)
  int64_t out_bytes = 0;
  int64_t in_bytes = 0;
  int64_t peak_stored_bytes = 0;     // on the tier, from the swap-out's begin to the end of the last swap-in
  std::vector<double> out_stall_us;  // per swap_outs of the plan
  std::vector<double> in_stall_us;   // per swap_ins

  // Share of transfer_us that is hidden behind ops; 1 where nothing is transferred.
  double Hidden() const { return transfer_us > 0 ? 1 - stall_us / transfer_us : 1; }
};

Transfers SimulateTransfers(const MemGraph& graph, const Plan& plan, const SwapLink& link);

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_TRANSFERS_H_
