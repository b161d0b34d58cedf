// What all that looks for one plan shares: the graph, what hints ask for, the work that is left, the chain of stages.

#ifndef LMS_CC_CORE_SEARCH_PLANNING_H_
#define LMS_CC_CORE_SEARCH_PLANNING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"
#include "cc/core/search/checkpoint_chain.h"
#include "cc/core/search/means.h"
#include "cc/core/search/plan_state.h"
#include "cc/core/search/planner.h"

namespace lms {

// A plan, simulated afresh.
PlannerResult Evaluate(const MemGraph& graph, Plan plan, int64_t limit_bytes, const SwapLink& link);

// Feasible before infeasible, then the cheaper one, then the smaller; of infeasible ones that with the lower peak.
bool BetterPlan(const PlannerResult& a, const PlannerResult& b);

// Puts the result among the best few, best first, unless an equal one is there.
void KeepBest(PlannerResult result, std::vector<PlannerResult>* best);

// The rules of gap eviction that cover most of the ground, one after the other.
inline constexpr EvictionRule kFirstRules[] = {{1.0, 0.25}, {0.7, 0.0}, {1.4, 1.0}};

class Planning {
 public:
  // Both must outlive this.
  Planning(const MemGraph& graph, const PlannerOptions& options);
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

  const MemGraph& graph() const { return graph_; }
  const PlannerOptions& options() const { return options_; }
  int64_t resident() const { return resident_; }
  // With so many ops there is no local search, and stages are a last resort.
  bool huge() const { return graph_.ops.size() > kHuge; }

  // Work, in the steps of work_meter.h: done, and at which what is going on ends.
  int64_t work() const { return work_; }
  void Count(int64_t steps) { work_ += steps; }
  // The same, of something that looks once at each op and buffer, so many steps each.
  void CountSweep(int64_t steps) { work_ += steps * sweep_; }
  void SetUntil(int64_t work) { until_ = work; }
  // Is the work used up? `more`: what has been done beside what is counted.
  bool Late(int64_t more = 0) const { return work_ + more >= until_; }
  // The same for the first start, which may take more than its share: without it there is no plan.
  bool LateForFirst(int64_t more) const;

  // What hints ask for, and the time that it costs; without any, nothing.
  const Plan& hinted() const { return hinted_; }
  double hinted_us() const { return hinted_us_; }
  // Nothing decided but that.
  PlanState Fresh() const;

  PlannerResult Evaluate(Plan plan, int64_t limit_bytes);

  // The rule as the options have it: without recomputation, with a price for the link. `start`: how many came before.
  EvictionRule Allowed(EvictionRule rule, int start) const;

  // Checkpoints of the graph's stages, solved for amounts of memory around a limit (resident included), or around the
  // least that there is; null where none are of use.
  CheckpointChain* Chain(int64_t limit_bytes);

 private:
  static constexpr size_t kHuge = 30000;

  const MemGraph& graph_;
  const PlannerOptions& options_;
  const int64_t resident_;
  const int64_t sweep_;
  int64_t until_;
  int64_t work_ = 0;
  std::unique_ptr<CheckpointChain> chain_;
  int64_t unplanned_peak_ = 0;  // resident excluded; known with the chain
  Plan hinted_;
  double hinted_us_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_PLANNING_H_
