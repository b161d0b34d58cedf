// A plan: decisions as data. Planners make it, rewriters apply it, reports show it, simulators check it.
//
// The meaning of a plan over a MemGraph in execution order: just before op `before` runs, the steps with that `before`
// run in the order of their ops. A step runs op `op` again and thereby makes a new instance of each buffer in
// `provides` (outputs of the op); its other outputs are scratch. Every read takes the newest instance of its buffer at
// that moment, and an instance is dropped after its last read. So a buffer is evicted between its last read before a
// step and the step, and nothing else needs to be said.
//
// Where nothing reads what an op makes at its own place, the first run is of no use: its first step then *moves* the
// op, which does not run at its own place, and costs nothing.
//
// Swapping: a swap-out copies the newest instance of its buffer to another tier (swap_link.h) and holds it until op
// `by` has run, by when the copy has ended: what is allocated after `by` waits for that. A swap-in begins just before
// op `before` runs, ahead of the steps there; from then on there is a new instance of the buffer, with the bytes that
// were swapped out. A buffer is swapped out once, and swapped in as often as it is wanted.

#ifndef LMS_CC_CORE_GRAPH_PLAN_H_
#define LMS_CC_CORE_GRAPH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

struct RecomputeStep {
  OpId before = kNone;
  OpId op = kNone;
  std::vector<BufferId> provides;
  bool moves = false;  // the op's own place in the schedule stays empty
};

struct SwapOut {
  OpId by = kNone;  // does not make the buffer; one that reads it cannot take over its storage
  BufferId buffer = kNone;
};

struct SwapIn {
  OpId before = kNone;
  BufferId buffer = kNone;
};

struct Plan {
  std::vector<RecomputeStep> steps;  // sorted by (before, op), each pair at most once
  std::vector<SwapOut> swap_outs;    // sorted by (by, buffer), each buffer at most once
  std::vector<SwapIn> swap_ins;      // sorted by (before, buffer), each pair at most once

  bool empty() const { return steps.empty() && swap_outs.empty(); }
  // Of the recomputations; what swapping costs is told by transfers.h.
  double CostUs(const MemGraph& graph) const;
};

// Per op: does a step of the plan move it, so that its own place stays empty?
std::vector<bool> MovedOps(const MemGraph& graph, const Plan& plan);

// Does the op neither read nor make anything that takes memory (a view, a marker)? It may run at any time after what it
// depends on.
bool IsFree(const MemGraph& graph, OpId op);

// "" when the plan is well-formed for the graph: sorted, in range, ops recomputable and earlier than `before`, provided
// buffers evictable outputs of the op, nothing read after it has been overwritten or before it is made, and moved ops
// not missed before by anything that waits for them; buffers that are swapped swappable, out before they are in, and
// there when they go out. Otherwise what is wrong. Linear in the graph and the plan.
std::string ValidatePlan(const MemGraph& graph, const Plan& plan);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_PLAN_H_
