// What it takes to have a buffer back just before an op: the recomputations, in which other buffers may join.

#ifndef LMS_CC_CORE_SEARCH_CLOSURE_H_
#define LMS_CC_CORE_SEARCH_CLOSURE_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/search/plan_state.h"

namespace lms {

// What to do with an input that is gone when its reader is recomputed.
struct ClosureRule {
  // Keep its last instance until then if that leaves memory under this limit (resident excluded)...
  int64_t limit_bytes = 0;
  // ...or if it is at most this many times as large as the wanted buffer...
  double keep_ratio = 0;
  // ...otherwise recompute it too, as long as the closure has at most this many ops. What is hinted to be recomputed
  // is not kept.
  int max_ops = 64;
  bool hinted_only = false;  // only what is hinted to be recomputed is; the rest is kept
};

struct Closure {
  bool possible = false;
  double cost_us = 0;  // of ops not recomputed in that slot anyway; those that are only moved cost nothing
  std::vector<BufferId> recomputed;  // to be computed anew in the slot, the wanted buffer included
  std::vector<BufferId> kept;        // to be kept longer, until the slot
};

// Finds closures in one state, which it does not change.
class ClosureFinder {
 public:
  explicit ClosureFinder(const PlanState& state);

  // Impossible where an op on the way must not be recomputed and its result cannot be kept either, where a value would
  // be read after it has been overwritten, or by one reader more than it may have. The result is valid until the next
  // call.
  const Closure& Find(BufferId wanted, OpId before, const ClosureRule& rule);

  // Buffers looked at by the last search.
  int64_t looked_at() const { return looked_at_; }

 private:
  bool WouldMove(OpId op, OpId before) const;
  bool Fits(int64_t input_bytes, int until, int64_t wanted_bytes, int opens, int slot, int64_t limit_bytes) const;

  const PlanState& state_;
  Closure closure_;
  int64_t looked_at_ = 0;
  // Marks that are set when they equal the number of the search.
  int32_t search_ = 0;
  std::vector<int32_t> in_closure_;  // per buffer
  std::vector<int32_t> seen_;        // per op
  std::vector<int32_t> moves_;       // per op: would not be needed at its own place any more
  std::vector<OpId> first_writer_;   // per buffer: the first op that changes it
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_CLOSURE_H_
