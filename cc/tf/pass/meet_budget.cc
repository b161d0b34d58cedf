#include "cc/tf/pass/meet_budget.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cc/core/simulate/lower_bound.h"
#include "cc/tf/graph/graph_bounds.h"
#include "cc/tf/pass/fall_back.h"

namespace lms {
namespace {

// Plans are made again, for a lower limit, when the verifier finds the new graph above the budget.
constexpr int kMostAttempts = 5;

// `unlike`: gets the plan that does not hold.
std::optional<BudgetResult> Follow(const Model& model, const DeviceContext& context, const ReadStep& read,
                                   const BudgetGoal& goal, const Candidates& candidates, Unlike* unlike) {
  std::optional<DevicePlan> planned = PlanLike(model, context, goal, candidates);
  if (!planned) return std::nullopt;
  RewrittenStep rewritten = RewriteAndVerify(context, read, candidates, *planned, Restraint());
  if (!rewritten.status.ok()) return std::nullopt;
  const int64_t peak = rewritten.profile.peak_bytes;
  // Who asks for the least has each device planned by itself where that may be lower.
  const int64_t least_peak = goal.step().resident + model.peak + model.peak / 100;
  const bool met = goal.least() ? peak < std::min(goal.step().peak, least_peak) : Met(goal, rewritten.profile);
  if (!met) {
    if (!goal.least()) *unlike = {model.imported.device, peak > goal.Allowed() ? peak : 0};
    return std::nullopt;
  }
  BudgetResult result = Accepted(*std::move(planned), std::move(rewritten), Restraint(), goal.least() ? peak : 0);
  result.like = model.imported.device;
  return result;
}

// Replicas of a model get one plan, but for one that has more to do: that which adds up the gradients of all.
std::optional<BudgetResult> FollowAnother(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                                          const Candidates& candidates, Unlike* unlike) {
  const std::vector<Model>& models = context.facts.models;
  std::optional<BudgetResult> result;
  for (auto model = models.rbegin(); model != models.rend() && !result; ++model) {
    result = Follow(*model, context, read, goal, candidates, unlike);
  }
  return result;
}

BudgetResult PlanByItself(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                          Candidates* candidates, std::vector<std::string>* warnings) {
  const int most_attempts = MostRewrites(context.item, context.options.planner_seconds, kMostAttempts);
  const Planning planning{context, read, goal, most_attempts, candidates, warnings};
  Tried tried;
  BudgetResult result;
  Attempt first;
  first.limit = goal.LimitForPlan();
  const bool may_miss = goal.automatic() && !context.options.strict;
  if (!goal.least() && first.limit < LowerBoundBytes(candidates->imported.graph)) {
    // A single op needs more: there is nothing to look for.
    if (!may_miss) return End(BudgetOutcome::kInfeasible, first, LeastPeak(planning));
    result = End(BudgetOutcome::kInfeasible, first);
  } else {
    result = TryPlans(planning, first, goal.least() ? nullptr : &tried);
  }
  if (result.outcome == BudgetOutcome::kRewritten && tried.nearest &&
      (goal.automatic() || AddsFarMore(result, tried))) {
    return OrWithoutSwaps(planning, Between(planning, std::move(result), tried), &tried);
  }
  if (result.outcome != BudgetOutcome::kInfeasible || goal.least()) return result;
  return FallBack(planning, may_miss, std::move(tried), std::move(result));
}

}  // namespace

BudgetResult MeetBudget(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                        Candidates* candidates, std::vector<std::string>* warnings) {
  Unlike unlike;
  if (std::optional<BudgetResult> followed = FollowAnother(context, read, goal, *candidates, &unlike)) {
    return *std::move(followed);
  }
  BudgetResult result = PlanByItself(context, read, goal, candidates, warnings);
  result.unlike = std::move(unlike);
  return result;
}

}  // namespace lms
