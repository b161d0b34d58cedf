#include "cc/tf/pass/meet_budget.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "cc/core/simulate/lower_bound.h"
#include "cc/tf/graph/graph_bounds.h"

namespace lms {
namespace {

// Plans are made again, for a lower limit, when the verifier finds the new graph above the budget.
constexpr int kMostAttempts = 5;
// With less left of the work that there was, no further plan is tried, once there have been so many: the last of them
// with as much of it as kOnceMore. Who looks for the least instead takes longer, and finds what is dearer in each step.
constexpr double kLeftToTry = 1.0 / 3;
constexpr double kOnceMore = 1.0 / 2;
constexpr int kTriedAtLeast = 3;
// A new graph takes more than its plan. The next plan is aimed as much lower as this one has taken, and by this share
// more for each plan that has failed: plans for less take more above it.
constexpr double kAimLower = 0.2;
// Between what holds and what does not so many plans are tried, until both are this near to each other.
constexpr int kMostHalvings = 4;
constexpr double kCloseEnough = 0.03;
// So many times the added time of the plan that came nearest is reason to look for another kind of plan.
constexpr double kDear = 1.5;

BudgetResult End(BudgetOutcome outcome, const Attempt& attempt, int64_t least_peak = 0) {
  BudgetResult result;
  result.outcome = outcome;
  result.restraint = attempt.restraint;
  result.least_peak = least_peak;
  return result;
}

BudgetResult Accepted(DevicePlan planned, RewrittenStep rewritten, const Restraint& restraint, int64_t budget_bytes) {
  BudgetResult result;
  result.outcome = BudgetOutcome::kRewritten;
  result.planned = std::move(planned);
  result.rewritten = std::move(rewritten);
  result.restraint = restraint;
  result.budget_bytes = budget_bytes;
  return result;
}

// A budget that was named holds whatever else the device has: who lacks room there is only told so.
bool Met(const BudgetGoal& goal, const MemoryProfile& profile) {
  return profile.peak_bytes <= goal.Allowed() && !(goal.automatic() && profile.lacking_bytes > 0);
}

// By how many bytes a plan falls short of the budget.
int64_t Shortage(const BudgetGoal& goal, const MemoryProfile& profile) {
  return std::max(profile.peak_bytes - goal.Allowed(), profile.lacking_bytes);
}

// Plans that were tried for a budget, and do not hold.
struct Tried {
  std::optional<BudgetResult> nearest;
  int64_t lowest_limit = 0;  // that a plan was found for; 0: none was

  void Add(const BudgetGoal& goal, int64_t limit, BudgetResult result) {
    lowest_limit = lowest_limit == 0 ? limit : std::min(lowest_limit, limit);
    const int64_t shortage = Shortage(goal, result.rewritten.profile);
    if (!nearest || shortage < Shortage(goal, nearest->rewritten.profile)) nearest = std::move(result);
  }
};

std::optional<BudgetResult> Follow(const Model& model, const DeviceContext& context, const ReadStep& read,
                                   const BudgetGoal& goal, const Candidates& candidates) {
  std::optional<DevicePlan> planned = PlanLike(model, context, goal, candidates);
  if (!planned) return std::nullopt;
  RewrittenStep rewritten = RewriteAndVerify(context, read, candidates, *planned, Restraint());
  if (!rewritten.status.ok()) return std::nullopt;
  const int64_t peak = rewritten.profile.peak_bytes;
  // Who asks for the least has each device planned by itself where that may be lower.
  const int64_t least_peak = goal.step().resident + model.peak + model.peak / 100;
  const bool met = goal.least() ? peak < std::min(goal.step().peak, least_peak) : Met(goal, rewritten.profile);
  if (!met) return std::nullopt;
  BudgetResult result = Accepted(*std::move(planned), std::move(rewritten), Restraint(), goal.least() ? peak : 0);
  result.like = model.imported.device;
  return result;
}

// Replicas of a model get one plan, but for one that has more to do: that which adds up the gradients of all.
std::optional<BudgetResult> FollowAnother(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                                          const Candidates& candidates) {
  const std::vector<Model>& models = context.facts.models;
  std::optional<BudgetResult> result;
  for (auto model = models.rbegin(); model != models.rend() && !result; ++model) {
    result = Follow(*model, context, read, goal, candidates);
  }
  return result;
}

// What could not be placed in the order stays where it is in the next plan.
void KeepUntimed(const DevicePlan& planned, const RewriteResult& applied, Candidates* candidates) {
  ImportedGraph& imported = candidates->imported;
  for (const OpId at : applied.untimed) {
    MemOp& op = imported.graph.ops[imported.op_of_node[planned.GraphOf(*candidates).node_of_op[at]]];
    op.recomputable = false;
    op.keep_reason = "nothing in its loop or branch tells when it is to run again";
    for (const BufferId b : op.outputs) {
      MemBuffer& buffer = imported.graph.buffers[b];
      if (buffer.evictable) buffer.keep_reason = op.keep_reason;
      buffer.evictable = false;
    }
  }
}

// The plan has failed: the next one is made with fewer kinds of changes. False: there is none left.
bool Tighten(const DeviceContext& context, const DevicePlan& planned, Restraint* restraint) {
  const Plan& plan = planned.result.plan;
  Restraint::Kinds parts = {};
  const auto moves = [](const RecomputeStep& step) { return step.moves; };
  const auto has = [&parts](Change kind) -> bool& { return parts[static_cast<int>(kind)]; };
  has(Change::kOrder) = planned.order_limit > 0;
  has(Change::kMoves) = std::any_of(plan.steps.begin(), plan.steps.end(), moves);
  has(Change::kEdges) = context.options.reorder && restraint->Allows(Change::kEdges);
  has(Change::kSwaps) = !plan.swap_outs.empty();
  has(Change::kRecomputations) = !std::all_of(plan.steps.begin(), plan.steps.end(), moves);
  return restraint->Tighten(parts);
}

// Plans for this goal alone, from this attempt on. `tried`: gets the plans that do not hold; may be null.
BudgetResult TryPlans(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal, Attempt attempt,
                      int most_attempts, Candidates* candidates, std::vector<std::string>* warnings, Tried* tried) {
  const Options& options = context.options;
  const bool least = goal.least();
  // A variant of the step is one way to lower what the step took as it came.
  const StepAsItCame* const came = context.as_it_came;
  const int64_t peak_before = came == nullptr ? goal.step().peak : came->profile.peak_bytes;
  const double work = static_cast<double>(context.account.left());
  int untimed_plans = 0;       // that could not be applied, as nothing told when to run an op again
  int64_t least_verified = 0;  // peak of the best rewritten graph that was still over the budget; 0: there was none
  int over = 0;                // plans whose graphs were above what is allowed
  std::optional<Strategy> once_more;  // the last plan, with its order held
  for (; attempt.number < most_attempts; ++attempt.number) {
    const bool worked = static_cast<double>(context.account.left()) < kLeftToTry * work;
    if (tried != nullptr && worked && !once_more) {
      if (attempt.number >= kTriedAtLeast) break;
      context.account.TopUp(static_cast<int64_t>(kOnceMore * work));
    }
    if (once_more) context.Enter("plan");
    const Strategy strategy =
        once_more ? *std::exchange(once_more, std::nullopt) : PlanStep(context, goal, *candidates, attempt);
    const PlannerResult& result = strategy.planned;
    const ImportedGraph& imported = candidates->imported;
    if (!result.feasible) return End(BudgetOutcome::kInfeasible, attempt, std::max(result.peak_bytes, least_verified));
    // Where no hint can be carried out, all is as without any. (A move, too, may carry one out.)
    const bool hinted = candidates->Hinted() && !result.plan.empty();
    if (!goal.Over() && !hinted && came == nullptr) return End(BudgetOutcome::kFits, attempt);
    // Ops side by side may take more than one after the other: then the order at hand is what is enforced.
    const bool as_it_is = result.plan.empty() && strategy.order.empty();
    if (as_it_is && !options.reorder && !least && goal.Over()) {
      attempt.limit = result.peak_bytes - std::max<int64_t>(peak_before - result.peak_bytes, attempt.limit / 200);
      continue;
    }
    if (as_it_is && imported.holds.empty() && result.peak_bytes >= peak_before) {
      return End(BudgetOutcome::kNothingToGain, attempt);
    }
    DevicePlan planned;
    planned.result = result;
    if (as_it_is || !strategy.order.empty()) {
      planned.ordered = as_it_is ? imported : InOrder(imported, strategy.order);
      // Where edges for the limit alone have not been enough, the order is held all along.
      planned.order_limit = least || attempt.number > 0 ? result.peak_bytes : attempt.limit;
    }
    RewrittenStep rewritten = RewriteAndVerify(context, read, *candidates, planned, attempt.restraint);
    if (!rewritten.status.ok()) {
      if (!rewritten.result.untimed.empty() && ++untimed_plans <= kMostAttempts) {
        KeepUntimed(planned, rewritten.result, candidates);
      } else if (Tighten(context, planned, &attempt.restraint)) {
        warnings->push_back("a plan was given up (" + context.stages.stage() + ": " +
                            std::string(rewritten.status.message()) + "): the next one does without " +
                            attempt.restraint.Words());
      } else {
        if (rewritten.thrown != nullptr) std::rethrow_exception(rewritten.thrown);
        BudgetResult failed = End(BudgetOutcome::kFailed, attempt);
        failed.rewritten = std::move(rewritten);
        return failed;
      }
      --attempt.number;
      continue;
    }
    const int64_t peak = rewritten.profile.peak_bytes;
    if (least) {
      // Iterations that are kept apart are a gain of their own.
      const bool apart = !imported.holds.empty() && goal.step().worst > peak_before && peak <= peak_before;
      if (!apart && peak >= peak_before) {
        if (planned.order_limit > 0 && (options.recompute || candidates->swap.link.usable())) continue;  // without it
        if (!hinted) return End(BudgetOutcome::kNothingToGain, attempt);
      }
      // The budget to ask for in bytes to get as low: a plan for it is held against the limit in the planner's eyes
      // and in the verifier's, and has the margin that every budget has.
      const int64_t budget = goal.BudgetFor(std::max(result.peak_bytes, peak), candidates->Hinted());
      return Accepted(std::move(planned), std::move(rewritten), attempt.restraint, budget);
    }
    if (Met(goal, rewritten.profile)) return Accepted(std::move(planned), std::move(rewritten), attempt.restraint, 0);
    const int64_t lacking = rewritten.profile.lacking_bytes;
    // The executor's order will not be quite the plan's: aim lower by as much as this was above, once the order is
    // held all along.
    const bool loose = planned.order_limit == attempt.limit;
    if (loose) once_more = strategy;
    int64_t above = peak - goal.Allowed();
    // What is free is in pieces: what they would be with a few bytes less nobody knows.
    if (goal.automatic() && lacking > 0) above = std::max(above, (attempt.limit - goal.step().resident) / 12);
    if (tried != nullptr) {
      const int64_t budget = goal.BudgetFor(std::max(result.peak_bytes, peak), candidates->Hinted());
      tried->Add(goal, attempt.limit, Accepted(std::move(planned), std::move(rewritten), attempt.restraint, budget));
    }
    if (!loose) {
      const double excess = (1 + kAimLower * ++over) * static_cast<double>(peak - result.peak_bytes);
      attempt.limit -= std::max<int64_t>(above, attempt.limit / 200);
      attempt.limit = std::min(attempt.limit, goal.Allowed() - static_cast<int64_t>(excess));
    }
    least_verified = least_verified == 0 ? peak : std::min(least_verified, peak);
  }
  // Plans were found, but none held when the new graph was simulated afresh. Where the least was asked for, that is
  // what the step takes as it is: no budget has been missed.
  return End(least ? BudgetOutcome::kNothingToGain : BudgetOutcome::kInfeasible, attempt, least_verified);
}

// This plan holds, what was tried for a higher limit did not: the plan of least added time in between, by halving. What
// fails on the way costs nothing but its time: there is a plan.
BudgetResult Between(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal, int most_attempts,
                     BudgetResult best, int64_t too_high, Candidates* candidates, std::vector<std::string>* warnings) {
  const double work = static_cast<double>(context.account.left());
  int64_t low = best.planned.result.peak_bytes;
  for (int step = 0; step < std::min(kMostHalvings, most_attempts - 1); ++step) {
    if (static_cast<double>(too_high - low) < kCloseEnough * static_cast<double>(too_high)) break;
    if (step > 0 && static_cast<double>(context.account.left()) < work / 2) break;
    Attempt between;
    between.number = most_attempts - 1;  // the last: its order is held
    between.limit = low + (too_high - low) / 2;
    between.restraint = best.restraint;
    std::vector<std::string> given_up;
    BudgetResult result;
    try {
      result = TryPlans(context, read, goal, between, most_attempts, candidates, &given_up, nullptr);
    } catch (const std::exception&) {
      break;
    }
    if (result.outcome != BudgetOutcome::kRewritten) {
      too_high = between.limit;
      continue;
    }
    low = between.limit;
    if (result.planned.result.cost_us >= best.planned.result.cost_us) continue;
    best = std::move(result);
    warnings->insert(warnings->end(), given_up.begin(), given_up.end());
  }
  return best;
}

// The least lacks room in one piece, not as a whole: plans for a little more leave other pieces. The first that holds
// takes its place.
void OtherPieces(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal, int most_attempts,
                 int64_t too_high, BudgetResult* least, Candidates* candidates, std::vector<std::string>* warnings) {
  const int64_t lowest = least->planned.result.peak_bytes;
  for (int step = 1; step < kMostHalvings; ++step) {
    Attempt attempt;
    attempt.number = most_attempts - 1;  // the last: its order is held
    attempt.limit = lowest + (too_high - lowest) * step / kMostHalvings;
    attempt.restraint = least->restraint;
    std::vector<std::string> given_up;
    try {
      BudgetResult other = TryPlans(context, read, goal, attempt, most_attempts, candidates, &given_up, nullptr);
      if (other.outcome != BudgetOutcome::kRewritten) continue;
      *least = std::move(other);
      warnings->insert(warnings->end(), given_up.begin(), given_up.end());
      return;
    } catch (const std::exception&) {
      return;  // there is a plan
    }
  }
}

// The least under this restraint, where no plan held the budget, or, if it does itself, what lies between it and what
// did not hold.
BudgetResult LeastOrBetween(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                            int most_attempts, const Restraint& restraint, int64_t too_high, int64_t work,
                            Candidates* candidates, std::vector<std::string>* warnings) {
  context.account.TopUp(work);
  Attempt attempt;
  attempt.restraint = restraint;
  BudgetResult least = TryPlans(context, read, goal.AsLeast(), attempt, most_attempts, candidates, warnings, nullptr);
  if (least.outcome != BudgetOutcome::kRewritten || too_high <= least.planned.result.peak_bytes) return least;
  context.account.TopUp(work / 2);
  if (!Met(goal, least.rewritten.profile)) {
    const bool in_pieces = goal.automatic() && least.rewritten.profile.peak_bytes <= goal.Allowed();
    if (in_pieces) OtherPieces(context, read, goal, most_attempts, too_high, &least, candidates, warnings);
    return least;
  }
  least.budget_bytes = 0;
  return Between(context, read, goal, most_attempts, std::move(least), too_high, candidates, warnings);
}

// `best`, or a plan without swaps that holds the budget and adds less time. What is swapped comes back before it is
// read, into the pieces that are free then: recomputation alone may find room where both together do not. Looked for
// where `best` does not hold, or adds far more than what was tried first, `tried_us`.
BudgetResult OrWithoutSwaps(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                            int most_attempts, BudgetResult best, int64_t too_high, double tried_us,
                            Candidates* candidates, std::vector<std::string>* warnings) {
  if (!context.options.recompute || !candidates->swap.link.usable()) return best;
  const bool holds = best.outcome == BudgetOutcome::kRewritten && Met(goal, best.rewritten.profile);
  if (holds && best.planned.result.cost_us < kDear * tried_us) return best;
  Restraint restraint = best.restraint;
  restraint.LeaveOut(Change::kSwaps);
  std::vector<std::string> given_up;
  try {
    const int64_t work = WorkForStep(context.options.planner_seconds) / 2;
    BudgetResult alone =
        LeastOrBetween(context, read, goal, most_attempts, restraint, too_high, work, candidates, &given_up);
    if (alone.outcome != BudgetOutcome::kRewritten || !Met(goal, alone.rewritten.profile)) return best;
    if (holds && alone.planned.result.cost_us >= best.planned.result.cost_us) return best;
    warnings->insert(warnings->end(), given_up.begin(), given_up.end());
    return alone;
  } catch (const std::exception&) {
    return best;
  }
}

// Where no plan held the budget: what holds for less. Else what comes nearest, where the budget may be missed.
BudgetResult FallBack(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal, int most_attempts,
                      bool may_miss, Tried tried, BudgetResult infeasible, Candidates* candidates,
                      std::vector<std::string>* warnings) {
  const int64_t too_high = tried.lowest_limit;
  // As much work as if the least had been asked for: what is missed here runs out of memory, or is called infeasible.
  const int64_t work = WorkForStep(context.options.planner_seconds);
  BudgetResult best =
      LeastOrBetween(context, read, goal, most_attempts, Restraint(), too_high, work, candidates, warnings);
  if (tried.nearest) {
    const double tried_us = tried.nearest->planned.result.cost_us;
    best =
        OrWithoutSwaps(context, read, goal, most_attempts, std::move(best), too_high, tried_us, candidates, warnings);
  }
  if (best.outcome == BudgetOutcome::kRewritten) {
    if (Met(goal, best.rewritten.profile)) return best;
    const int64_t lowest = best.planned.result.peak_bytes;
    infeasible.least_peak = std::min(infeasible.least_peak, std::max(lowest, best.rewritten.profile.peak_bytes));
    tried.Add(goal, lowest, std::move(best));
  }
  if (!may_miss || !tried.nearest) return infeasible;
  tried.nearest->short_of = true;
  return *std::move(tried.nearest);
}

}  // namespace

BudgetResult MeetBudget(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                        Candidates* candidates, std::vector<std::string>* warnings) {
  if (std::optional<BudgetResult> followed = FollowAnother(context, read, goal, *candidates))
    return *std::move(followed);
  const int most_attempts = MostRewrites(context.item, context.options.planner_seconds, kMostAttempts);
  Tried tried;
  BudgetResult result;
  Attempt first;
  first.limit = goal.LimitForPlan();
  // A single op needs more: there is nothing to look for.
  if (!goal.least() && first.limit < LowerBoundBytes(candidates->imported.graph)) {
    result = End(BudgetOutcome::kInfeasible, first);
  } else {
    result = TryPlans(context, read, goal, first, most_attempts, candidates, warnings, goal.least() ? nullptr : &tried);
  }
  if (result.outcome == BudgetOutcome::kRewritten && goal.automatic() && tried.nearest) {
    return Between(context, read, goal, most_attempts, std::move(result), tried.lowest_limit, candidates, warnings);
  }
  const bool may_miss = goal.automatic() && !context.options.strict;
  // Where no plan was found for a budget that was named, there is none for less either.
  if (result.outcome != BudgetOutcome::kInfeasible || !(may_miss || tried.nearest)) return result;
  return FallBack(context, read, goal, most_attempts, may_miss, std::move(tried), std::move(result), candidates,
                  warnings);
}

}  // namespace lms
