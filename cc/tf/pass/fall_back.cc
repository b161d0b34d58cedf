#include "cc/tf/pass/fall_back.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/base/fault_injection.h"
#include "cc/tf/graph/graph_bounds.h"

namespace lms {
namespace {

// Between what holds and what does not so many plans are tried, until both are this near to each other.
constexpr int kMostHalvings = 4;
constexpr double kCloseEnough = 0.03;
// Of the way from what holds to what lacks room in one piece: the first that holds is taken.
constexpr double kFromAbove[] = {7.0 / 8, 3.0 / 4, 5.0 / 8, 1.0 / 2, 3.0 / 8, 1.0 / 4, 1.0 / 8};
// Of the way from the least, which does not hold, to what is too high: most plans that hold are near the least.
constexpr double kOtherPieces[] = {1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 3.0 / 4};
// For what so many steps may gain by it, plans are made for longer than there was time for.
constexpr double kStepsThatPay = 10;
// So many times the added time of the plan that came nearest is reason to look for another kind of plan.
constexpr double kFarMore = 1.5;

// A plan for this limit, where there is one already that may be taken: what fails on the way costs nothing but its
// time.
struct Another {
  BudgetResult result;
  Tried tried;  // where it does not hold
  std::vector<std::string> given_up;
  bool thrown = false;

  bool holds() const { return result.outcome == BudgetOutcome::kRewritten; }
  void Take(const Planning& planning, BudgetResult* best) {
    *best = std::move(result);
    planning.warnings->insert(planning.warnings->end(), given_up.begin(), given_up.end());
  }
};

Another TryAnother(const Planning& planning, int64_t limit, const Restraint& restraint) {
  Attempt attempt;
  attempt.number = planning.most_attempts - 1;  // the last: its order is held
  attempt.limit = limit;
  attempt.restraint = restraint;
  Another another;
  try {
    another.result = TryPlans(planning.Into(&another.given_up), attempt, &another.tried);
  } catch (const std::exception&) {
    another.thrown = true;
  }
  return another;
}

// The least lacks room in one piece, not as a whole: plans for a little more leave other pieces. The first that holds
// takes its place; those that do not are kept.
void OtherPieces(const Planning& planning, BudgetResult* least, Tried* tried) {
  const int64_t lowest = least->planned.result.peak_bytes;
  for (const double share : kOtherPieces) {
    const auto limit = lowest + static_cast<int64_t>(share * static_cast<double>(tried->lowest_limit - lowest));
    Another other = TryAnother(planning, limit, least->restraint);
    if (other.thrown) return;
    if (!other.holds()) {
      if (other.tried.nearest) tried->Keep(planning.goal, *std::move(other.tried.nearest));
      continue;
    }
    other.Take(planning, least);
    return;
  }
}

// What the plan takes, in the planner's eyes and in the verifier's; where there is none, what the step does.
int64_t PeakOf(const BudgetResult& least, const BudgetGoal& goal) {
  if (least.outcome != BudgetOutcome::kRewritten) return goal.step().peak;
  return std::max(least.planned.result.peak_bytes, least.rewritten.profile.peak_bytes);
}

// What came nearest lacks room in one piece alone. Another limit leaves other pieces: what holds does not end where
// something fails.
bool LacksPieces(const Planning& planning, const Tried& tried) {
  return planning.goal.automatic() && tried.nearest &&
         tried.nearest->rewritten.profile.peak_bytes <= planning.goal.Allowed();
}

// The least under this restraint, with so much work.
BudgetResult Least(const Planning& planning, const Restraint& restraint, int64_t work) {
  planning.context.account.TopUp(work);
  const BudgetGoal as_least = planning.goal.AsLeast();
  Attempt attempt;
  attempt.restraint = restraint;
  return TryPlans(planning.For(as_least), attempt, nullptr);
}

// The least under this restraint, where no plan held the budget, or, if it does itself, what lies between it and what
// did not hold. What does not hold is kept.
BudgetResult LeastOrBetween(const Planning& planning, const Restraint& restraint, int64_t work, Tried* tried) {
  const BudgetGoal& goal = planning.goal;
  BudgetResult least = Least(planning, restraint, work);
  if (least.outcome != BudgetOutcome::kRewritten || tried->lowest_limit <= least.planned.result.peak_bytes)
    return least;
  planning.context.account.TopUp(work / 2);
  if (Met(goal, least.rewritten.profile)) {
    least.budget_bytes = 0;
    return Between(planning, std::move(least), *tried);
  }
  const bool in_pieces = goal.automatic() && least.rewritten.profile.peak_bytes <= goal.Allowed();
  if (in_pieces) OtherPieces(planning, &least, tried);
  return least;
}

}  // namespace

bool AddsFarMore(const BudgetResult& best, const Tried& tried) {
  return best.planned.result.cost_us >= kFarMore * tried.nearest->planned.result.cost_us;
}

BudgetResult Between(const Planning& planning, BudgetResult best, const Tried& tried) {
  PlanAccount& account = planning.context.account;
  const double work = static_cast<double>(account.left());
  const double nearest_us = tried.nearest ? tried.nearest->planned.result.cost_us : 0;
  const auto pays = [&best, nearest_us, planning_us = 1e6 * work / kWorkPerSecond] {
    return kStepsThatPay * (best.planned.result.cost_us - nearest_us) > planning_us;
  };
  int64_t too_high = tried.lowest_limit;
  int64_t low = best.planned.result.peak_bytes;
  const bool from_above = LacksPieces(planning, tried) && planning.most_attempts > kMostHalvings;
  const int64_t way = too_high - low;
  const int most =
      from_above ? static_cast<int>(std::size(kFromAbove)) : std::min(kMostHalvings, planning.most_attempts - 1);
  for (int step = 0; step < most; ++step) {
    const int64_t limit =
        low + (from_above ? static_cast<int64_t>(kFromAbove[step] * static_cast<double>(way)) : (too_high - low) / 2);
    if (static_cast<double>(too_high - low) < kCloseEnough * static_cast<double>(too_high)) break;
    if (step > 0 && static_cast<double>(account.left()) < work / 2) {
      if (!pays()) break;
      account.TopUp(static_cast<int64_t>(work / 2));
    }
    Another another = TryAnother(planning, limit, best.restraint);
    if (another.thrown) break;
    if (!another.holds()) {
      too_high = limit;
      continue;
    }
    if (another.result.planned.result.cost_us < best.planned.result.cost_us) another.Take(planning, &best);
    if (from_above) break;
    low = limit;
  }
  return best;
}

BudgetResult OrWithoutSwaps(const Planning& planning, BudgetResult best, Tried* tried) {
  const DeviceContext& context = planning.context;
  if (!context.options.recompute || !planning.candidates->swap.link.usable()) return best;
  const bool holds = best.outcome == BudgetOutcome::kRewritten && Met(planning.goal, best.rewritten.profile);
  if (holds && !AddsFarMore(best, *tried)) return best;
  Restraint restraint = best.restraint;
  restraint.LeaveOut(Change::kSwaps);
  std::vector<std::string> given_up;
  try {
    const int64_t work = WorkForStep(context.options.planner_seconds) / 2;
    BudgetResult alone = LeastOrBetween(planning.Into(&given_up), restraint, work, tried);
    if (alone.outcome != BudgetOutcome::kRewritten) return best;
    if (!Met(planning.goal, alone.rewritten.profile)) {
      tried->Keep(planning.goal, std::move(alone));
      return best;
    }
    if (holds && alone.planned.result.cost_us >= best.planned.result.cost_us) return best;
    planning.warnings->insert(planning.warnings->end(), given_up.begin(), given_up.end());
    return alone;
  } catch (const std::exception&) {
    return best;
  }
}

int64_t LeastPeak(const Planning& planning) {
  FailIfInjected("least");
  const int64_t work = WorkForStep(planning.context.options.planner_seconds);
  std::vector<std::string> given_up;
  try {
    return PeakOf(Least(planning.Into(&given_up), Restraint(), work), planning.goal);
  } catch (const std::exception&) {
    return planning.goal.step().peak;
  }
}

BudgetResult FallBack(const Planning& planning, bool may_miss, Tried tried, BudgetResult infeasible) {
  // As much work as if the least had been asked for: what is missed here runs out of memory, or is called infeasible.
  const int64_t work = WorkForStep(planning.context.options.planner_seconds);
  BudgetResult best;
  try {
    best = LeastOrBetween(planning, Restraint(), work, &tried);
  } catch (const std::exception&) {
    if (may_miss || tried.nearest) throw;
    infeasible.least_peak = planning.goal.step().peak;
    return infeasible;
  }
  if (tried.nearest) best = OrWithoutSwaps(planning, std::move(best), &tried);
  infeasible.least_peak = PeakOf(best, planning.goal);
  if (best.outcome == BudgetOutcome::kRewritten) {
    // The margin of a budget that was named is not to be used up where no other plan has been tried for it.
    const bool aimed = may_miss || tried.nearest || best.planned.result.peak_bytes <= planning.goal.LimitForPlan();
    if (aimed && Met(planning.goal, best.rewritten.profile)) return best;
    tried.Keep(planning.goal, std::move(best));
  }
  if (!may_miss || !tried.nearest) return infeasible;
  tried.nearest->short_of = true;
  return *std::move(tried.nearest);
}

}  // namespace lms
