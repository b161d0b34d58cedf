#include "cc/tf/pass/plan_stage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/core/graph/twins.h"

namespace lms {
namespace {

// Of the work that is left: for a plan under a limit, and for one with the least peak.
constexpr double kShareOfPlan = 0.4;
constexpr double kShareOfLeast = 0.75;
constexpr int64_t kLeastShare = 40;  // of the work for a step, that is there for any plan: one of so many parts

std::vector<bool> PartOnDevice(const tensorflow::GraphDef& graph, const ImportedGraph& imported) {
  std::vector<bool> part;
  for (const int node : imported.node_of_op) part.push_back(graph.node(node).device() == imported.device);
  return part;
}

}  // namespace

PlannerOptions PlannerFor(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                          const Restraint& restraint) {
  const Options& options = context.options;
  PlannerOptions planner;
  // A plan for the least peak is hardly ever made again, and each step of the search for it counts.
  const double work = (goal.least() ? kShareOfLeast : kShareOfPlan) * static_cast<double>(context.account.left());
  planner.work = std::max(static_cast<int64_t>(work), WorkForStep(options.planner_seconds) / kLeastShare);
  planner.recompute = options.recompute && restraint.Allows(Change::kRecomputations);
  planner.move = options.reorder && restraint.Allows(Change::kMoves);
  if (restraint.Allows(Change::kSwaps)) planner.link = candidates.swap.link;
  planner.swap_rules = candidates.swap.rules;
  return planner;
}

StrategyOptions StrategyFor(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                            const Attempt& attempt) {
  StrategyOptions ways;
  ways.planner = PlannerFor(context, goal, candidates, attempt.restraint);
  const bool order_alone = !ways.planner.recompute && !ways.planner.link.usable();
  // What fits is changed as the hints ask for, and no further.
  const bool hinted = candidates.Hinted();
  const bool hints_alone = hinted && !goal.Over();
  ways.order = context.options.reorder && attempt.restraint.MayOrder() && !hints_alone &&
               (order_alone || attempt.number < (goal.least() ? 1 : 3));
  ways.order_alone = !hinted && (order_alone || attempt.number < (goal.least() ? 1 : 2));
  return ways;
}

Strategy PlanStep(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                  const Attempt& attempt) {
  context.Enter("plan");
  const MemGraph& graph = candidates.imported.graph;
  Strategy strategy = context.account.Timed([&] {
    const StrategyOptions ways = StrategyFor(context, goal, candidates, attempt);
    return goal.least() ? ChooseForLeastPeak(graph, ways) : ChooseForLimit(graph, attempt.limit, ways);
  });
  context.account.Count(strategy.planned.work);
  return strategy;
}

std::optional<DevicePlan> PlanLike(const Model& model, const DeviceContext& context, const BudgetGoal& goal,
                                   const Candidates& candidates) {
  context.Enter("plan");
  const ImportedGraph& imported = candidates.imported;
  std::vector<OpId> twins =
      PairOps(model.imported.graph, model.part, imported.graph, PartOnDevice(context.item.graph, imported));
  const auto order = OrderLikeTwins(twins, imported.graph);
  if (!order) return std::nullopt;
  DevicePlan planned;
  planned.ordered = InOrder(imported, *order);
  for (OpId& twin : twins) {
    if (twin != kNone) twin = planned.ordered->op_of_node[imported.node_of_op[twin]];
  }
  auto plan = PlanLikeTwins(model.imported.graph, model.planned.plan, twins, planned.ordered->graph);
  if (!plan) return std::nullopt;
  planned.result = model.planned;
  planned.result.plan = *std::move(plan);
  planned.result.work = 0;
  planned.order_limit = model.order_limit == 0 ? 0 : model.order_limit + goal.step().resident;
  return planned;
}

void KeepForOthers(const DeviceContext& context, const BudgetGoal& goal, const ImportedGraph& graph,
                   const DevicePlan& planned, int64_t peak_bytes) {
  if (graph.other_devices.empty()) return;
  const int64_t resident = goal.step().resident;
  const int64_t limit = planned.order_limit == 0 ? 0 : planned.order_limit - resident;
  context.facts.models.push_back(
      {graph, PartOnDevice(context.item.graph, graph), planned.result, limit, peak_bytes - resident});
}

}  // namespace lms
