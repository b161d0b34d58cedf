#include "cc/tf/pass/try_plans.h"

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include "cc/core/search/strategy.h"

namespace lms {
namespace {

// With less left of the work that there was, no further plan is tried, once there have been so many: each of them gets
// as much as kForAnother of it. Who looks for the least instead takes longer, and finds what is dearer in each step.
// Where room is short in one piece alone, a lower limit mends less than plans of another kind do (fall_back.h).
constexpr double kLeftToTry = 1.0 / 3;
constexpr double kForAnother = 1.0 / 2;
constexpr int kTriedAtLeast = 3;
constexpr int kMostUntimed = 5;  // plans that cannot be applied as they are, before a kind of change is given up
// A new graph takes more than its plan. The next plan is aimed as much lower as this one has taken, and by this share
// more for each plan that has failed: plans for less take more above it.
constexpr double kAimLower = 0.2;
// So small a part of the activations' peak is not worth the edges that it takes, where the least is asked for.
constexpr int64_t kLeastGain = 1000;

// The limit for the next plan, after `over` whose graphs took more than is allowed: the last, planned to take `planned`
// under `limit`, takes `found`.
int64_t AimLower(const BudgetGoal& goal, int64_t limit, int64_t planned, const MemoryProfile& found, int over) {
  int64_t above = found.peak_bytes - goal.Allowed();
  // What is free is in pieces: what they would be with a few bytes less nobody knows.
  if (goal.automatic() && found.lacking_bytes > 0) above = std::max(above, (limit - goal.step().resident) / 12);
  const double excess = (1 + kAimLower * over) * static_cast<double>(found.peak_bytes - planned);
  return std::min(limit - std::max(above, limit / 200), goal.Allowed() - static_cast<int64_t>(excess));
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

}  // namespace

BudgetResult End(BudgetOutcome outcome, const Attempt& attempt, int64_t least_peak) {
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

bool Met(const BudgetGoal& goal, const MemoryProfile& profile) {
  return profile.peak_bytes <= goal.Allowed() && !(goal.automatic() && profile.lacking_bytes > 0);
}

void Tried::Add(const BudgetGoal& goal, int64_t limit, BudgetResult result) {
  lowest_limit = lowest_limit == 0 ? limit : std::min(lowest_limit, limit);
  Keep(goal, std::move(result));
}

void Tried::Keep(const BudgetGoal& goal, BudgetResult result) {
  // By how many bytes it falls short of the device as it is, then with what is set aside; then what it adds.
  const auto key = [&goal](const BudgetResult& of) {
    const MemoryProfile& profile = of.rewritten.profile;
    const int64_t above = profile.peak_bytes - goal.Allowed();
    return std::tuple(std::max(above, profile.lacking_as_is), std::max(above, profile.lacking_bytes),
                      of.planned.result.cost_us);
  };
  if (!nearest || key(result) < key(*nearest)) nearest = std::move(result);
}

BudgetResult TryPlans(const Planning& planning, Attempt attempt, Tried* tried) {
  const DeviceContext& context = planning.context;
  const ReadStep& read = planning.read;
  const BudgetGoal& goal = planning.goal;
  Candidates* const candidates = planning.candidates;
  const Options& options = context.options;
  const bool least = goal.least();
  // A variant of the step is one way to lower what the step took as it came.
  const StepAsItCame* const came = context.as_it_came;
  const int64_t peak_before = came == nullptr ? goal.step().peak : came->profile.peak_bytes;
  const double work = static_cast<double>(context.account.left());
  int untimed_plans = 0;              // that could not be applied, as nothing told when to run an op again
  bool in_pieces = false;             // the last plan lacked room in one piece, not as a whole
  int over = 0;                       // plans whose graphs were above what is allowed
  std::optional<Strategy> once_more;  // the last plan, with its order held
  for (; attempt.number < planning.most_attempts; ++attempt.number) {
    const bool worked = static_cast<double>(context.account.left()) < kLeftToTry * work;
    if (tried != nullptr && worked && !once_more) {
      if (attempt.number >= kTriedAtLeast || in_pieces) break;
      context.account.TopUp(static_cast<int64_t>(kForAnother * work));
    }
    if (once_more) context.Enter("plan");
    const Strategy strategy =
        once_more ? *std::exchange(once_more, std::nullopt) : PlanStep(context, goal, *candidates, attempt);
    const PlannerResult& result = strategy.planned;
    const ImportedGraph& imported = candidates->imported;
    if (!result.feasible) return End(BudgetOutcome::kInfeasible, attempt);
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
      if (!rewritten.result.untimed.empty() && ++untimed_plans <= kMostUntimed) {
        KeepUntimed(planned, rewritten.result, candidates);
      } else if (Tighten(context, planned, &attempt.restraint)) {
        planning.warnings->push_back("a plan was given up (" + context.stages.stage() + ": " +
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
      const int64_t least_gain = (peak_before - goal.step().resident) / kLeastGain;
      if (!apart && peak >= peak_before - least_gain) {
        if (planned.order_limit > 0 && (options.recompute || candidates->swap.link.usable())) continue;  // without it
        if (!hinted) return End(BudgetOutcome::kNothingToGain, attempt);
      }
      // The budget to ask for in bytes to get as low: a plan for it is held against the limit in the planner's eyes
      // and in the verifier's, and has the margin that every budget has.
      const int64_t budget = goal.BudgetFor(std::max(result.peak_bytes, peak));
      return Accepted(std::move(planned), std::move(rewritten), attempt.restraint, budget);
    }
    if (Met(goal, rewritten.profile)) return Accepted(std::move(planned), std::move(rewritten), attempt.restraint, 0);
    // The executor's order will not be quite the plan's: once the order is held all along, aim lower by as much as this
    // was above.
    const bool loose = planned.order_limit == attempt.limit;
    const int64_t limit = attempt.limit;
    if (loose) once_more = strategy;
    if (!loose) attempt.limit = AimLower(goal, limit, result.peak_bytes, rewritten.profile, ++over);
    in_pieces = peak <= goal.Allowed();
    if (tried != nullptr) {
      const int64_t budget = goal.BudgetFor(std::max(result.peak_bytes, peak));
      tried->Add(goal, limit, Accepted(std::move(planned), std::move(rewritten), attempt.restraint, budget));
    }
  }
  // Plans were found, but none held when the new graph was simulated afresh. Where the least was asked for, that is
  // what the step takes as it is: no budget has been missed.
  return End(least ? BudgetOutcome::kNothingToGain : BudgetOutcome::kInfeasible, attempt);
}

}  // namespace lms
