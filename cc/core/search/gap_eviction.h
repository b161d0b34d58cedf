// Gap eviction: brings a plan under a byte limit, greedily.
//
// While memory exceeds the limit, evict the gap between two reads of a buffer that costs least per byte of excess
// removed; the buffer is computed again just before its next use, or as soon as memory allows it, together with the
// inputs that are gone by then (its closure: what is small or does not matter is kept longer, the rest is recomputed
// too). Or it is swapped: out as soon as the link is free, in just in time, or in the narrower gap that the excess asks
// for, and stalled. Works on any state: on "keep everything", on a
// plan made in another way, on one from which a part has been taken out.
//
// One round weighs all gaps that the excess lies in and applies the best eighth. O(rounds * gaps * closure + changes *
// log n).

#ifndef LMS_CC_CORE_SEARCH_GAP_EVICTION_H_
#define LMS_CC_CORE_SEARCH_GAP_EVICTION_H_

#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "cc/core/base/random.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/swap_link.h"
#include "cc/core/search/closure.h"
#include "cc/core/search/plan_state.h"

namespace lms {

struct EvictionRule {
  double cost_exponent = 1;  // of cost in cost / bytes: below 1 prefers large gaps, above 1 cheap ones
  double keep_ratio = 0.25;  // see ClosureRule
  double aim = 1;            // evict down to this share of the limit: TakeBack() has more to choose from
  bool crowd = false;        // where nothing else helps, accept closures that do not fit in their place: slow
  double noise = 0;          // scores are multiplied by a random factor between exp(-noise) and exp(noise)
  double link_price = 0;     // added to a swap's cost, per microsecond that it has the link: keeps it for those that
                             // are dear to recompute
  bool recompute = true;     // else nothing is recomputed...
  bool swap = true;          // ...or nothing swapped
};

class GapEviction {
 public:
  // `limit` excludes resident bytes, as the state does. `interrupt`, if given, is asked between two rounds, within them
  // every millisecond or so, and between two recomputations to be taken back, and ends all of that. It may throw.
  GapEviction(PlanState* state, int64_t limit, std::function<bool()> interrupt = nullptr, const SwapRules& rules = {});

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

  // Swaps what is recomputed, those first that save most for the time that they have the link, wherever that is cheaper
  // and the limit still holds. Only recomputations of `buffers` if given.
  void SwapInstead(const std::vector<BufferId>* buffers = nullptr);

 private:
  struct Gap {
    BufferId buffer;
    int opens;    // last slot in which the buffer is needed before the gap
    OpId before;  // op whose closure slot ends it: that of the next read, or earlier, once the excess is over
    bool early;
    ClosureRule rule;
    double score;
    bool swap = false;
    OpId by = kNone;  // of a swap: see PlanState::FindSwap
    OpId at = kNone;

    bool operator<(const Gap& other) const {  // better
      return std::tie(score, buffer, before) < std::tie(other.score, other.buffer, other.before);
    }
  };
  class Excess;

  void Prepare(const EvictionRule& rule, Random* random);
  double Weigh(const Gap& gap, const Excess& excess);
  double Score(const Gap& gap, const Closure& closure, const Excess& excess) const;
  void AddGap(BufferId buffer, int opens, OpId before, bool early, const Excess& excess, std::vector<Gap>* gaps);
  void AddGaps(BufferId buffer, const Excess& excess, std::vector<Gap>* gaps);
  void AddSwap(BufferId buffer, int opens, OpId before, const Excess& excess, std::vector<Gap>* gaps);
  bool RulesAllow(BufferId buffer, int opens, OpId before) const;
  OpId FirstOut(int opens) const;
  OpId PlaceIn(OpId before) const;
  double ScoreSwap(const Gap& gap, const PlanState::SwapWay& way, const Excess& excess) const;
  bool EvictBySwap(const Gap& gap, const Excess& excess);
  std::vector<Gap> FindGaps(const Excess& excess);
  bool EvictRound(const Excess& excess);
  bool Evict(const Gap& gap, const Excess& excess, bool may_crowd);
  bool EvictThroughCrowd(const Excess& excess);
  bool Relieve();
  bool Interrupted();

  PlanState& state_;
  int64_t full_limit_;
  int64_t limit_;  // that of the run: full_limit_ or lower
  std::function<bool()> interrupt_;
  bool interrupted_ = false;  // in this run
  int64_t ask_at_ = 0;        // state's work at which it is asked next
  SwapRules rules_;
  bool forget_ = false;
  ClosureFinder finder_;
  EvictionRule rule_;
  ClosureRule closure_rule_;
  Random* random_ = nullptr;
  double score_ratio_ = 0;  // gaps that are so many times worse than the best wait for the next round
  std::vector<BufferId> candidates_;
  std::vector<char> relieved_;  // per op: how often its closure slot has been relieved in this run
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_GAP_EVICTION_H_
