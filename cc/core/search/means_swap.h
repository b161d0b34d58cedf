// Swapping: a buffer goes out over the link as soon as that is free and comes back just in time, or in the narrower gap
// that the excess asks for, and stalled.

#ifndef LMS_CC_CORE_SEARCH_MEANS_SWAP_H_
#define LMS_CC_CORE_SEARCH_MEANS_SWAP_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cc/core/graph/swap_link.h"
#include "cc/core/search/means.h"

namespace lms {

class SwapMeans : public Means {
 public:
  SwapMeans(PlanState* state, const SwapRules& rules) : state_(*state), rules_(rules) {}

  const char* name() const override { return "swap"; }
  bool Serves(BufferId buffer) const override { return state_.MaySwap(buffer); }
  void AddGaps(const EvictionRun& run, const Excess& excess, const Gap& gap, std::vector<Gap>* gaps) override;
  bool Evict(const EvictionRun& run, const Excess& excess, const Gap& gap, bool anyway) override;
  // Those first that save most for the time that they have the link.
  void TakePlaces(int64_t limit, const std::vector<BufferId>* buffers, const std::function<bool()>& go_on) override;

 private:
  bool RulesAllow(BufferId buffer, int opens, OpId before) const;
  OpId PlaceIn(OpId before) const;
  void KeepPlaces();
  double Score(const EvictionRun& run, const Excess& excess, const Gap& gap, const PlanState::SwapWay& way) const;

  PlanState& state_;
  const SwapRules rules_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_MEANS_SWAP_H_
