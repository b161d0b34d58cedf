// Parts of graphs that are alike, as the replicas of a model on several devices are, and plans carried from one to the
// other.
//
// Ops are paired by their names without "replica_1/" and the like, which is how TensorFlow calls replicas; the rest by
// their names without numbers, then by what they are and by all that leads to them, ties in order. Pairs are of one
// type and of as many bytes; what they read may differ, as TensorFlow's own optimizers do not treat replicas alike.
// What has no counterpart (one device does more than the others: it counts steps, adds up losses) has no twin. A plan
// that is carried over is valid for the graph; how good it is there is for the caller to find out. n log n in ops and
// reads. Thread-safety: plain functions of their arguments.

#ifndef LMS_CC_CORE_GRAPH_TWINS_H_
#define LMS_CC_CORE_GRAPH_TWINS_H_

#include <optional>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"

namespace lms {

// For each op of `a`: the op of `b` that it is paired with, or kNone. Only ops of the parts (`in_a`, `in_b`, per op)
// are.
std::vector<OpId> PairOps(const MemGraph& a, const std::vector<bool>& in_a, const MemGraph& b,
                          const std::vector<bool>& in_b);

// The order of b's ops in which those that are paired (`twins`, of PairOps()) come as their twins do in `a`, others as
// early as they can. Nothing where that contradicts what ops wait for.
std::optional<std::vector<OpId>> OrderLikeTwins(const std::vector<OpId>& twins, const MemGraph& b);

// The plan, which evicts buffers of the part alone, for `b`. Places between ops are those between their twins; a place
// at an op without one is moved to the next with one (the last before it, for the end of a swap-out). Nothing where
// that is no valid plan.
std::optional<Plan> PlanLikeTwins(const MemGraph& a, const Plan& plan, const std::vector<OpId>& twins,
                                  const MemGraph& b);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_TWINS_H_
