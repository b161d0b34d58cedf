// The ways to a first plan for a limit, tried one after the other: the best few of what they find go on to local
// search. A new way is one more entry of PlanStarts().

#ifndef LMS_CC_CORE_SEARCH_PLAN_STARTS_H_
#define LMS_CC_CORE_SEARCH_PLAN_STARTS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/search/gap_eviction.h"
#include "cc/core/search/plan_state.h"
#include "cc/core/search/planner.h"
#include "cc/core/search/planning.h"

namespace lms {

// What starts are given, and leave for those that come after them.
struct StartContext {
  Planning& planning;
  const int64_t limit;  // above what is resident, as in the state
  PlanState& state;     // to be decided in: nothing is yet, but what hints ask for
  GapEviction& eviction;
  const std::vector<PlannerResult>& best;  // so far, best first
  const int& found;                        // plans so far

  int chain_level = kNone;                     // of the chain that meets the limit by itself, or the least there is;
                                               // kNone: the chain was not tried
  std::vector<std::vector<BufferId>> alike{};  // buffers that a start may treat alike
};

enum class Tried {
  kUnder,    // the state's plan meets the limit
  kOver,     // it does not, but is worth remembering
  kGivenUp,  // it is not
};

struct PlanStart {
  static constexpr double kWhileThereIsWork = std::numeric_limits<double>::infinity();
  static constexpr double kWithoutPlan = 0;

  std::string name;  // for people
  double share;      // of the planning's work: where there is a plan, and so much is done, the start is left out
  // Asked last; may do work that run() goes on with.
  std::function<bool(StartContext*)> applies;
  std::function<Tried(StartContext*)> run;
  // On huge graphs also where all work is done and there is no plan: there the first start may have taken all of it.
  bool when_late = false;
};

// In the order in which they are tried: the first few already cover the ground, as planning may stop after any of them.
const std::vector<PlanStart>& PlanStarts();

// The best plans of those starts, different ones, best first; at least one. Of all that is tried `planning` counts the
// work. With the option single_start the first plan is the last.
std::vector<PlannerResult> RunStarts(const std::vector<PlanStart>& starts, int64_t limit_bytes, Planning* planning);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_PLAN_STARTS_H_
