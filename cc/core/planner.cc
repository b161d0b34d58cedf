#include "cc/core/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "cc/core/gap_eviction.h"
#include "cc/core/liveness.h"
#include "cc/core/plan_state.h"

namespace lms {
namespace {

// Ordered so that the first few already cover the ground: planning may stop after any of them.
constexpr EvictionRule kStarts[] = {{1.0, 0.25}, {0.7, 0.0}, {1.4, 1.0}, {1.0, 0.0}, {0.7, 0.25},
                                    {1.4, 0.25}, {1.0, 1.0}, {0.7, 1.0}, {1.4, 0.0}};
constexpr int kAllStarts = sizeof(kStarts) / sizeof(kStarts[0]);

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

PlannerResult Evaluate(const MemGraph& graph, Plan plan, int64_t limit_bytes) {
  PlannerResult result;
  result.peak_bytes = Simulate(graph, plan).peak_bytes;
  result.feasible = result.peak_bytes <= limit_bytes;
  result.cost_us = plan.CostUs(graph);
  result.plan = std::move(plan);
  return result;
}

bool Better(const PlannerResult& a, const PlannerResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  if (!a.feasible) return a.peak_bytes < b.peak_bytes;
  return std::make_tuple(a.cost_us, a.plan.steps.size()) < std::make_tuple(b.cost_us, b.plan.steps.size());
}

PlannerResult RunStarts(const MemGraph& graph, int64_t limit_bytes, int most_starts, bool move, double deadline) {
  PlannerResult best = Evaluate(graph, Plan(), limit_bytes);
  if (best.feasible) return best;
  int starts = 0;
  for (const EvictionRule& start : kStarts) {
    if (starts == most_starts || (starts > 0 && Seconds() > deadline)) break;
    PlanState state(graph, move);
    GapEviction eviction(&state, limit_bytes - graph.ResidentBytes());
    if (eviction.Run(start)) eviction.TakeBack();
    PlannerResult result = Evaluate(graph, state.ToPlan(), limit_bytes);
    if (Better(result, best)) best = std::move(result);
    ++starts;
  }
  return best;
}

}  // namespace

PlannerResult PlanForLimit(const MemGraph& graph, int64_t limit_bytes, const PlannerOptions& options) {
  if (!options.recompute) return Evaluate(graph, Plan(), limit_bytes);
  PlannerResult best = RunStarts(graph, limit_bytes, kAllStarts, options.move, Seconds() + options.seconds);
  if (best.feasible || limit_bytes < LowerBoundBytes(graph)) return best;
  // The search for the least peak also goes below its goals by chance; what it finds must hold as a limit too.
  PlannerResult least = PlanForLeastPeak(graph, options);
  least.feasible = least.peak_bytes <= limit_bytes;
  return Better(least, best) ? least : best;
}

PlannerResult PlanForLeastPeak(const MemGraph& graph, const PlannerOptions& options) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  PlannerResult best = Evaluate(graph, Plan(), kNoLimit);
  if (!options.recompute) return best;
  const double deadline = Seconds() + options.seconds;
  constexpr int kSearchStarts = 3;  // per limit tried
  constexpr int kSearchSteps = 12;
  int64_t low = LowerBoundBytes(graph);
  for (int i = 0; i < kSearchSteps && low < best.peak_bytes && (i == 0 || Seconds() < deadline); ++i) {
    const int64_t limit = i == 0 ? low : low + (best.peak_bytes - low) / 2;
    PlannerResult result = RunStarts(graph, limit, kSearchStarts, options.move, deadline);
    if (!result.feasible) low = limit + 1;
    if (result.peak_bytes < best.peak_bytes) best = std::move(result);
  }
  // The same peak for less, if another start can.
  PlannerResult cheaper = RunStarts(graph, best.peak_bytes, kAllStarts, options.move, deadline);
  best.feasible = true;
  return Better(cheaper, best) ? cheaper : best;
}

int64_t LowerBoundBytes(const MemGraph& graph) {
  int64_t most = 0;
  for (const MemOp& op : graph.ops) {
    int64_t inputs = 0;
    int64_t outputs = 0;
    int64_t forwardable = 0;
    for (const BufferId b : op.inputs) inputs += graph.buffers[b].resident ? 0 : graph.buffers[b].bytes;
    for (const BufferId b : op.outputs) outputs += graph.buffers[b].resident ? 0 : graph.buffers[b].bytes;
    for (const BufferId b : op.forwardable) forwardable += graph.buffers[b].resident ? 0 : graph.buffers[b].bytes;
    most = std::max(most, inputs + op.workspace_bytes + outputs - std::min(outputs, forwardable));
  }
  return graph.ResidentBytes() + most;
}

}  // namespace lms
