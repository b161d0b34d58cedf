// What no plan can do better.
//
// Time. Consider the moment at which an op p runs for the first time, in any plan and any order. All ancestors of p
// have run once by then, and its descendants have not. A buffer that an ancestor made and a descendant reads is
// therefore either held at that moment, beside what p itself needs, or made again afterwards, which costs its op once
// more and needs that op's inputs, which are held or made again likewise. Choosing what to hold so that the rest costs
// least is
//
//   minimise    sum of cost(q) * again(q)
//   subject to  held(b) + again(producer of b) >= 1   for each b that a descendant reads
//               held(a) + again(producer of a) >= again(q)   for each input a of q
//               sum of bytes(b) * held(b) <= limit - what p needs
//
// whose linear relaxation is a bound on the added time. Its Lagrangian dual in the last constraint is solved: for a
// fixed price per byte the rest is a minimum cut. Every price gives a bound, so it does not matter that the search for
// the best price is cut short; and every p gives one: the largest of a few is taken.
//
// What is left out: that a buffer may have to be made again more than once, and everything that happens at other
// moments. At budgets of half the peak the bound is usually within a few percent of the best plan; at very tight
// budgets, where stages are computed three times, it is far below.

#ifndef LMS_CC_CORE_SIMULATE_LOWER_BOUND_H_
#define LMS_CC_CORE_SIMULATE_LOWER_BOUND_H_

#include <cstdint>

#include "cc/core/base/work_meter.h"
#include "cc/core/graph/mem_graph.h"

namespace lms {

// Bytes: no plan can go below this, the largest amount that a single op needs by itself. Resident included.
int64_t LowerBoundBytes(const MemGraph& graph);

// Microseconds that any plan under the limit (resident included) adds at least. 0 when nothing is known. Deterministic;
// some 20 ms for 1,000 ops, and bounded for large graphs, where a weaker form is used. Takes no more than is left of
// the meter, and adds what it has done: a search that is cut short gives a lower bound too, only a weaker one.
double LowerBoundUs(const MemGraph& graph, int64_t limit_bytes, WorkMeter* meter = nullptr);

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_LOWER_BOUND_H_
