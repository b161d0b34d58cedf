#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/base/bytes.h"
#include "cc/core/base/words.h"
#include "cc/core/search/hinted_plan.h"
#include "cc/core/search/plan_state.h"
#include "cc/core/search/strategy.h"
#include "cc/core/simulate/liveness.h"
#include "cc/tf/pass/device_pass.h"

namespace lms {
namespace {

constexpr size_t kMostPriced = 12;      // hints: each takes a plan of its own
constexpr double kPricingShare = 0.25;  // of the planner's time, for all of these
constexpr size_t kMostNamed = 3;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string NameOf(const Hints::Group& group) {
  return std::string("lms.") + HintName(group.hint) + " (" + group.where + ")";
}

}  // namespace

void DevicePass::GiveHints() {
  if (!marks_.any()) return;
  const bool may_swap = swap_.link.usable();
  std::string no_swap = !options_.swap ? "swap=False" : report_.swap_note;
  if (!may_swap && no_swap.empty()) no_swap = "there is nowhere to swap it to: on a CPU, set swap_to=\"disk\"";
  hints_.Give(marks_, item_.graph, options_.recompute, may_swap, no_swap, &imported_);
  for (const std::string& warning : hints_.warnings()) report_.warnings.push_back(warning);
}

bool DevicePass::Hinted() const { return !hints_.empty() && HasEvictionHints(imported_.graph); }

PlannerResult DevicePass::PlanQuickly(const MemGraph& graph, int64_t limit, int plans) {
  PlannerOptions planner = Planner();
  planner.single_start = true;
  planner.work = static_cast<int64_t>(static_cast<double>(planner.work) * kPricingShare / plans);
  PlannerResult result = PlanForLimit(graph, limit, planner);
  Count(result.work);
  return result;
}

void DevicePass::NoteHints(int64_t limit) {
  report_.hints.clear();
  if (hints_.empty()) return;
  const double start = Now();
  const MemGraph& graph = Planned().graph;
  std::vector<HintReport> notes;
  for (const Hints::Group& group : hints_.groups()) {
    HintReport& note = notes.emplace_back();
    note.kind = HintName(group.hint);
    note.where = group.where;
    note.not_followed = group.not_followed;
  }
  const auto count = [&](BufferId b) {
    HintReport& note = notes[hints_.GroupOf(b)];
    ++note.tensors;
    note.bytes += graph.buffers[b].bytes;
  };
  for (const Hints::Group& group : hints_.groups()) {
    if (group.hint != Hint::kKeep) continue;
    for (const BufferId b : group.buffers) count(b);
  }
  PlanState state(graph, options_.schedule, swap_.link);
  const AppliedHints applied = ApplyHints(&state);
  for (const BufferId b : applied.evicted) count(b);
  std::vector<std::string> why_none(notes.size());  // of a region's tensors
  std::vector<bool> warned;
  for (const Hints::Group& group : hints_.groups()) warned.push_back(group.warned);
  for (const RefusedHint& refused : applied.refused) {
    const int at = hints_.GroupOf(refused.buffer);
    const Hints::Group& group = hints_.groups()[at];
    ++notes[at].not_followed;
    if (!graph.buffers[refused.buffer].hint_named && group.hint != Hint::kSwap) {
      if (why_none[at].empty()) why_none[at] = refused.reason;
      continue;
    }
    warned[at] = true;
    report_.warnings.push_back(NameOf(group) + ": " + graph.buffers[refused.buffer].name +
                               " stays as it is: " + refused.reason);
  }
  for (size_t i = 0; i < notes.size(); ++i) {
    const Hints::Group& group = hints_.groups()[i];
    const std::string& why = why_none[i].empty() ? group.why_not : why_none[i];
    if (notes[i].tensors > 0 || why.empty() || warned[i]) continue;
    report_.warnings.push_back(NameOf(group) + ": none of its " + Counted(notes[i].not_followed, "tensor") +
                               " could be: " + why);
  }
  if (limit > 0) {
    // Both by one way of planning, so that what differs is due to the hint.
    const int plans = 1 + static_cast<int>(std::min(kMostPriced, notes.size()));
    const PlannerResult with = PlanQuickly(graph, limit, plans);
    for (size_t i = 0; i < notes.size() && i < kMostPriced; ++i) {
      if (notes[i].tensors == 0) continue;
      MemGraph other = graph;
      hints_.Lift(static_cast<int>(i), &other);
      const PlannerResult without = PlanQuickly(other, limit, plans);
      notes[i].cost_us = with.cost_us - without.cost_us;
      notes[i].peak_bytes = with.peak_bytes;
      notes[i].peak_without_bytes = without.peak_bytes;
    }
  }
  report_.hints = std::move(notes);
  report_.planner_seconds += Now() - start;
  const bool lowered = OverBudget() && report_.peak_after_bytes < report_.peak_before_bytes;
  if (report_.status == ReportStatus::kRewritten && Hinted() && !lowered) {
    std::string names;
    size_t named = 0;
    for (const Hints::Group& group : hints_.groups()) {
      if (group.hint == Hint::kKeep || named++ >= kMostNamed) continue;
      names += (names.empty() ? "" : ", ") + NameOf(group);
    }
    if (named > kMostNamed) names += " and " + std::to_string(named - kMostNamed) + " more";
    report_.reason = "hints are carried out, " + names + ": the predicted peak goes from " +
                     FormatBytes(report_.peak_before_bytes) + " to " + FormatBytes(report_.peak_after_bytes) +
                     ", within the budget of " + FormatBytes(report_.budget_bytes) + hidden_;
  }
}

std::string DevicePass::HintsInTheWay() {
  if (hints_.empty() || report_.budget_bytes <= report_.resident_bytes) return "";
  const double start = Now();
  StrategyOptions ways = Ways(0);
  ways.order = options_.schedule;
  ImportedGraph other = imported_;
  hints_.Lift(-1, &other.graph);
  const PlannerResult without = ChooseForLimit(other.graph, Limit(), ways).planned;
  Count(without.work);
  std::string text;
  if (without.feasible) {
    text = "; without hints it could be met";
    std::vector<std::string> alone;
    const int plans = static_cast<int>(std::min(kMostPriced, hints_.groups().size()));
    for (int i = 0; i < plans; ++i) {
      MemGraph graph = imported_.graph;
      hints_.Lift(i, &graph);
      if (PlanQuickly(graph, Limit(), plans).feasible) alone.push_back(NameOf(hints_.groups()[i]));
    }
    for (size_t i = 0; i < alone.size() && i < kMostNamed; ++i) {
      text += (i == 0 ? ": lift " : " or ") + alone[i];
    }
    if (alone.empty()) {
      text += ": lift";
      for (size_t i = 0; i < hints_.groups().size() && i < kMostNamed; ++i) {
        text += (i == 0 ? " " : ", ") + NameOf(hints_.groups()[i]);
      }
      if (hints_.groups().size() > kMostNamed) text += ", ...";
    }
  } else {
    const PlannerResult least = ChooseForLeastPeak(other.graph, ways).planned;
    Count(least.work);
    text = "; without hints the least budget would be " + FormatBytes(LeastBudget(least.peak_bytes));
  }
  report_.planner_seconds += Now() - start;
  return text;
}

}  // namespace lms
