#include "cc/tf/strategy.h"

#include <algorithm>
#include <utility>

#include "cc/core/liveness.h"
#include "cc/core/memory_order.h"

namespace lms {
namespace {

// Steps of a search for an order: up to a quarter of the planner's time on top of it.
int64_t OrderWork(const PlannerOptions& options) {
  constexpr double kMostSeconds = 10;
  return static_cast<int64_t>(std::min(kMostSeconds, options.seconds / 4) * static_cast<double>(kOrderWorkPerSecond));
}

// The planner's time, when it plans twice. In the order with the lowest peak plans are hardly ever dearer, so most of
// it goes there; together they take no longer than `seconds`.
PlannerOptions Most(PlannerOptions options) {
  options.seconds *= 0.65;
  options.work = options.work * 13 / 20;
  return options;
}

PlannerOptions Rest(PlannerOptions options) {
  options.seconds *= 0.35;
  options.work = options.work * 7 / 20;
  return options;
}

// Planning twice takes time from both plans: an order that gains less than this share of the activations' peak is not
// worth it.
constexpr int64_t kWorthwhile = 100;

bool WorthPlanning(const MemGraph& graph, const MemoryOrder& order) {
  const int64_t given = Simulate(graph, Plan()).peak_bytes;
  return order.changed && given - order.peak_bytes > (given - graph.ResidentBytes()) / kWorthwhile;
}

// Is there nothing but order?
bool OrderAlone(const PlannerOptions& options) { return !options.recompute && !options.link.usable(); }

// The order, and nothing planned.
Strategy Alone(MemoryOrder order) {
  Strategy result;
  result.planned.feasible = order.feasible;
  result.planned.peak_bytes = order.peak_bytes;
  if (order.changed) result.order = std::move(order.order);
  return result;
}

bool Better(const PlannerResult& a, const PlannerResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  return a.feasible ? a.cost_us < b.cost_us : a.peak_bytes < b.peak_bytes;
}

}  // namespace

Strategy ChooseForLimit(const MemGraph& graph, int64_t limit_bytes, const StrategyOptions& options) {
  if (!options.order) return {PlanForLimit(graph, limit_bytes, options.planner), {}};
  MemoryOrder order = OrderForLimit(graph, limit_bytes, OrderWork(options.planner), options.planner.deadline);
  if (order.feasible && options.order_alone) return Alone(std::move(order));
  // Where the limit is out of reach for order alone, the lowest peak is a good order to plan in.
  order = OrderForLeastPeak(graph, OrderWork(options.planner), options.planner.deadline);
  order.feasible = order.peak_bytes <= limit_bytes;
  if (OrderAlone(options.planner) || (order.feasible && options.order_alone)) return Alone(std::move(order));
  if (!WorthPlanning(graph, order)) return {PlanForLimit(graph, limit_bytes, options.planner), {}};
  Strategy given{PlanForLimit(graph, limit_bytes, Rest(options.planner)), {}};
  Strategy other{PlanForLimit(Reordered(graph, order.order), limit_bytes, Most(options.planner)), {}};
  other.order = std::move(order.order);
  return Better(other.planned, given.planned) ? other : given;
}

Strategy ChooseForLeastPeak(const MemGraph& graph, const StrategyOptions& options) {
  if (!options.order) return {PlanForLeastPeak(graph, options.planner), {}};
  MemoryOrder order = OrderForLeastPeak(graph, OrderWork(options.planner), options.planner.deadline);
  if (OrderAlone(options.planner)) return Alone(std::move(order));
  if (!WorthPlanning(graph, order)) return {PlanForLeastPeak(graph, options.planner), {}};
  Strategy given{PlanForLeastPeak(graph, Rest(options.planner)), {}};
  Strategy other{PlanForLeastPeak(Reordered(graph, order.order), Most(options.planner)), {}};
  other.order = std::move(order.order);
  return other.planned.peak_bytes < given.planned.peak_bytes ? other : given;
}

ImportedGraph InOrder(const ImportedGraph& imported, const std::vector<OpId>& order) {
  ImportedGraph result = imported;
  result.graph = Reordered(imported.graph, order);
  for (size_t i = 0; i < order.size(); ++i) {
    result.node_of_op[i] = imported.node_of_op[order[i]];
    result.op_of_node[result.node_of_op[i]] = static_cast<OpId>(i);
  }
  for (HeldRead& held : result.held_reads) {
    held.read = result.op_of_node[imported.node_of_op[held.read]];
    held.reader = result.op_of_node[imported.node_of_op[held.reader]];
  }
  return result;
}

}  // namespace lms
