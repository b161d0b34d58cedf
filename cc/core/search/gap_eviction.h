// Gap eviction: brings a plan under a byte limit, greedily.
//
// While memory exceeds the limit, evict the gap between two reads of a buffer that costs least per byte of excess
// removed; the buffer is computed again just before its next use, or as soon as memory allows it, together with the
// inputs that are gone by then (its closure: what is small or does not matter is kept longer, the rest is recomputed
// too). Or it is swapped. What can be done in a gap is up to the means (means.h). Works on any state: on "keep
// everything", on a plan made in another way, on one from which a part has been taken out.
//
// One round weighs all gaps that the excess lies in and applies the best eighth. O(rounds * gaps * closure + changes *
// log n).

#ifndef LMS_CC_CORE_SEARCH_GAP_EVICTION_H_
#define LMS_CC_CORE_SEARCH_GAP_EVICTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cc/core/base/random.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/swap_link.h"
#include "cc/core/search/excess.h"
#include "cc/core/search/means.h"
#include "cc/core/search/plan_state.h"

namespace lms {

class GapEviction {
 public:
  // `limit` excludes resident bytes, as the state does. `interrupt`, if given, is asked between two rounds, within them
  // every millisecond or so, and between two recomputations to be taken back, and ends all of that. It may throw.
  // `means`: what may be done with a gap.
  GapEviction(PlanState* state, int64_t limit, std::function<bool()> interrupt = nullptr, const SwapRules& rules = {},
              const std::vector<MeansMaker>& means = AllMeans());

  // Commits that will not be undone are forgotten as it goes: for whoever starts afresh afterwards. Memory then does
  // not grow with the number of commits.
  void ForgetHistory() { forget_ = true; }

  // Lowers the profile to the limit if it can; true if it is under the limit, if not under the rule's aim. `random` is
  // needed with noise only.
  bool Run(const EvictionRule& rule, Random* random = nullptr);

  // The same, with one decision for all of a group (repeats.h): what is best for the one in its middle is done to each.
  bool RunAlike(const EvictionRule& rule, const std::vector<std::vector<BufferId>>& groups);

  // Reverse delete: takes recomputations back, dearest first, wherever the limit still holds. Only those of `buffers`
  // if given.
  void TakeBack(const std::vector<BufferId>* buffers = nullptr);

  // Has each means take the place of the others, wherever that is cheaper and the limit still holds: swaps what is
  // recomputed, say. Only for `buffers` if given.
  void Exchange(const std::vector<BufferId>* buffers = nullptr);

 private:
  void Prepare(const EvictionRule& rule, Random* random);
  void AddGaps(BufferId buffer, const Excess& excess, std::vector<Gap>* gaps);
  std::vector<Gap> FindGaps(const Excess& excess);
  bool EvictRound(const Excess& excess);
  bool Evict(const Gap& gap, const Excess& excess, bool may_crowd);
  bool EvictThroughCrowd(const Excess& excess);
  bool Relieve();
  bool Interrupted();
  bool GoOn();

  PlanState& state_;
  int64_t full_limit_;
  EvictionRun run_;  // at hand
  std::vector<std::unique_ptr<Means>> means_;
  std::function<bool()> interrupt_;
  bool interrupted_ = false;  // in this run
  int64_t ask_at_ = 0;        // state's work at which it is asked next
  bool forget_ = false;
  double score_ratio_ = 0;  // gaps that are so many times worse than the best wait for the next round
  std::vector<BufferId> candidates_;
  std::vector<char> relieved_;  // per op: how often its closure slot has been relieved in this run
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_GAP_EVICTION_H_
