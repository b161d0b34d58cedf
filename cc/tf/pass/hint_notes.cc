#include "cc/tf/pass/hint_notes.h"

#include <algorithm>

#include "cc/core/base/bytes.h"
#include "cc/core/base/words.h"
#include "cc/core/search/hinted_plan.h"
#include "cc/core/search/plan_state.h"
#include "cc/core/search/planner.h"
#include "cc/core/search/strategy.h"
#include "cc/tf/pass/plan_stage.h"

namespace lms {
namespace {

constexpr size_t kMostPriced = 12;      // hints: each takes a plan of its own
constexpr double kPricingShare = 0.25;  // of the planner's time, for all of these
constexpr size_t kMostNamed = 3;

std::string NameOf(const Hints::Group& group) {
  return std::string("lms.") + HintName(group.hint) + " (" + group.where + ")";
}

// With one start, and one share of the work of so many plans: what differs between two of them is due to the hints.
PlannerResult PlanQuickly(const DeviceContext& context, PlannerOptions planner, const MemGraph& graph, int64_t limit,
                          size_t plans) {
  planner.single_start = true;
  planner.work = static_cast<int64_t>(static_cast<double>(planner.work) * kPricingShare / static_cast<double>(plans));
  PlannerResult result = PlanForLimit(graph, limit, planner);
  context.account.Count(result.work);
  return result;
}

// What was carried out, and what could not be.
HintNotes CountTensors(const DeviceContext& context, const Candidates& candidates, const MemGraph& graph) {
  HintNotes notes;
  const Hints& hints = candidates.hints;
  for (const Hints::Group& group : hints.groups()) {
    HintReport& note = notes.hints.emplace_back();
    note.kind = HintName(group.hint);
    note.where = group.where;
    note.not_followed = group.not_followed;
  }
  const auto count = [&](BufferId b) {
    HintReport& note = notes.hints[hints.GroupOf(b)];
    ++note.tensors;
    note.bytes += graph.buffers[b].bytes;
  };
  for (const Hints::Group& group : hints.groups()) {
    if (group.hint != Hint::kKeep) continue;
    for (const BufferId b : group.buffers) count(b);
  }
  PlanState state(graph, context.options.reorder, candidates.swap.link);
  const AppliedHints applied = ApplyHints(&state);
  for (const BufferId b : applied.evicted) count(b);
  std::vector<std::string> why_none(notes.hints.size());  // of a region's tensors
  std::vector<bool> warned;
  for (const Hints::Group& group : hints.groups()) warned.push_back(group.warned);
  for (const RefusedHint& refused : applied.refused) {
    const int at = hints.GroupOf(refused.buffer);
    const Hints::Group& group = hints.groups()[at];
    ++notes.hints[at].not_followed;
    if (!graph.buffers[refused.buffer].hint_named && group.hint != Hint::kSwap) {
      if (why_none[at].empty()) why_none[at] = refused.reason;
      continue;
    }
    warned[at] = true;
    notes.warnings.push_back(NameOf(group) + ": " + graph.buffers[refused.buffer].name +
                             " stays as it is: " + refused.reason);
  }
  for (size_t i = 0; i < notes.hints.size(); ++i) {
    const Hints::Group& group = hints.groups()[i];
    const std::string& why = why_none[i].empty() ? group.why_not : why_none[i];
    if (notes.hints[i].tensors > 0 || why.empty() || warned[i]) continue;
    notes.warnings.push_back(NameOf(group) + ": none of its " + Counted(notes.hints[i].not_followed, "tensor") +
                             " could be: " + why);
  }
  return notes;
}

}  // namespace

HintNotes DescribeHints(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                        const MemGraph& graph, const Restraint& restraint, int64_t limit) {
  if (candidates.hints.empty()) return {};
  return context.account.Timed([&] {
    HintNotes notes = CountTensors(context, candidates, graph);
    if (limit <= 0) return notes;
    const auto plan = [&](const MemGraph& with_hints) {
      const size_t plans = 1 + std::min(kMostPriced, notes.hints.size());
      return PlanQuickly(context, PlannerFor(context, goal, candidates, restraint), with_hints, limit, plans);
    };
    const PlannerResult with = plan(graph);
    for (size_t i = 0; i < notes.hints.size() && i < kMostPriced; ++i) {
      HintReport& note = notes.hints[i];
      if (note.tensors == 0) continue;
      MemGraph other = graph;
      candidates.hints.Lift(static_cast<int>(i), &other);
      const PlannerResult without = plan(other);
      note.cost_us = with.cost_us - without.cost_us;
      note.peak_bytes = with.peak_bytes;
      note.peak_without_bytes = without.peak_bytes;
    }
    return notes;
  });
}

std::string HintsThatChange(const Hints& hints) {
  std::string names;
  size_t named = 0;
  for (const Hints::Group& group : hints.groups()) {
    if (group.hint == Hint::kKeep || named++ >= kMostNamed) continue;
    names += (names.empty() ? "" : ", ") + NameOf(group);
  }
  return named > kMostNamed ? names + " and " + std::to_string(named - kMostNamed) + " more" : names;
}

std::string HintsInTheWay(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                          const Restraint& restraint) {
  const Hints& hints = candidates.hints;
  if (hints.empty() || goal.budget_bytes() <= goal.step().resident) return "";
  return context.account.Timed([&]() -> std::string {
    Attempt first;
    first.restraint = restraint;
    StrategyOptions ways = StrategyFor(context, goal, candidates, first);
    ways.order = context.options.reorder;
    MemGraph unhinted = candidates.imported.graph;
    hints.Lift(-1, &unhinted);
    const PlannerResult without = ChooseForLimit(unhinted, goal.Limit(), ways).planned;
    context.account.Count(without.work);
    if (!without.feasible) {
      const PlannerResult least = ChooseForLeastPeak(unhinted, ways).planned;
      context.account.Count(least.work);
      return "; without hints the least budget would be " + FormatBytes(goal.BudgetFor(least.peak_bytes));
    }
    std::vector<std::string> alone;
    const size_t plans = std::min(kMostPriced, hints.groups().size());
    for (size_t i = 0; i < plans; ++i) {
      MemGraph graph = candidates.imported.graph;
      hints.Lift(static_cast<int>(i), &graph);
      const PlannerOptions planner = PlannerFor(context, goal, candidates, restraint);
      if (PlanQuickly(context, planner, graph, goal.Limit(), plans).feasible)
        alone.push_back(NameOf(hints.groups()[i]));
    }
    std::string text = "; without hints it could be met";
    for (size_t i = 0; i < alone.size() && i < kMostNamed; ++i) text += (i == 0 ? ": lift " : " or ") + alone[i];
    if (!alone.empty()) return text;
    text += ": lift";
    for (size_t i = 0; i < hints.groups().size() && i < kMostNamed; ++i) {
      text += (i == 0 ? " " : ", ") + NameOf(hints.groups()[i]);
    }
    return hints.groups().size() > kMostNamed ? text + ", ..." : text;
  });
}

}  // namespace lms
