// Rematerialization: a buffer is computed again just before its next use, or as soon as memory allows it, together with
// the inputs that are gone by then (closure.h).

#ifndef LMS_CC_CORE_SEARCH_MEANS_RECOMPUTE_H_
#define LMS_CC_CORE_SEARCH_MEANS_RECOMPUTE_H_

#include <vector>

#include "cc/core/search/closure.h"
#include "cc/core/search/means.h"

namespace lms {

class RecomputeMeans : public Means {
 public:
  explicit RecomputeMeans(PlanState* state) : state_(*state), finder_(*state) {}

  const char* name() const override { return "recompute"; }
  bool Serves(BufferId buffer) const override;
  void AddGaps(const EvictionRun& run, const Excess& excess, const Gap& gap, std::vector<Gap>* gaps) override;
  bool Evict(const EvictionRun& run, const Excess& excess, const Gap& gap, bool anyway) override;

 private:
  void Add(const EvictionRun& run, const Excess& excess, Gap gap, std::vector<Gap>* gaps);
  double Weigh(const EvictionRun& run, const Excess& excess, const Gap& gap);
  double Score(const EvictionRun& run, const Excess& excess, const Gap& gap, const Closure& closure) const;

  PlanState& state_;
  ClosureFinder finder_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_MEANS_RECOMPUTE_H_
