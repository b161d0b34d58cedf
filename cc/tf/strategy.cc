#include "cc/tf/strategy.h"

#include <utility>

#include "cc/core/memory_order.h"

namespace lms {
namespace {

// Steps of a search for an order, at most: a quarter of a second.
constexpr int64_t kOrderWork = kOrderWorkPerSecond / 4;
// Quick plans that differ by less say nothing about thorough ones.
constexpr double kClear = 0.1;

PlannerOptions Half(PlannerOptions options) {
  options.seconds /= 2;
  options.work /= 2;
  return options;
}

PlannerResult NothingPlanned(const MemoryOrder& order) {
  PlannerResult result;
  result.feasible = order.feasible;
  result.peak_bytes = order.peak_bytes;
  return result;
}

bool Better(const PlannerResult& a, const PlannerResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  return a.feasible ? a.cost_us < b.cost_us : a.peak_bytes < b.peak_bytes;
}

}  // namespace

Strategy ChooseForLimit(const MemGraph& graph, int64_t limit_bytes, const StrategyOptions& options) {
  if (!options.order) return {PlanForLimit(graph, limit_bytes, options.planner), {}};
  MemoryOrder order = OrderForLimit(graph, limit_bytes, kOrderWork);
  if (order.feasible && options.order_alone) {
    Strategy alone{NothingPlanned(order), {}};
    if (order.changed) alone.order = std::move(order.order);
    return alone;
  }
  if (!options.planner.recompute) {
    // What is possible at least is asked for where this is not.
    order = OrderForLeastPeak(graph, kOrderWork);
    order.feasible = order.peak_bytes <= limit_bytes;
    return {NothingPlanned(order), order.changed ? std::move(order.order) : std::vector<OpId>()};
  }
  if (!order.changed) return {PlanForLimit(graph, limit_bytes, options.planner), {}};
  const MemGraph ordered = Reordered(graph, order.order);
  PlannerOptions quick = options.planner;
  quick.single_start = true;
  const PlannerResult as_it_is = PlanForLimit(graph, limit_bytes, quick);
  const PlannerResult in_order = PlanForLimit(ordered, limit_bytes, quick);
  const bool both = as_it_is.feasible && in_order.feasible;
  if (both && as_it_is.cost_us < (1 - kClear) * in_order.cost_us) {
    return {PlanForLimit(graph, limit_bytes, options.planner), {}};
  }
  if (both && in_order.cost_us < (1 - kClear) * as_it_is.cost_us) {
    return {PlanForLimit(ordered, limit_bytes, options.planner), std::move(order.order)};
  }
  Strategy stock{PlanForLimit(graph, limit_bytes, Half(options.planner)), {}};
  Strategy other{PlanForLimit(ordered, limit_bytes, Half(options.planner)), std::move(order.order)};
  return Better(other.planned, stock.planned) ? std::move(other) : std::move(stock);
}

Strategy ChooseForLeastPeak(const MemGraph& graph, const StrategyOptions& options) {
  if (!options.order) return {PlanForLeastPeak(graph, options.planner), {}};
  MemoryOrder order = OrderForLeastPeak(graph, kOrderWork);
  if (!options.planner.recompute) {
    return {NothingPlanned(order), order.changed ? std::move(order.order) : std::vector<OpId>()};
  }
  if (!order.changed) return {PlanForLeastPeak(graph, options.planner), {}};
  Strategy stock{PlanForLeastPeak(graph, Half(options.planner)), {}};
  Strategy other{PlanForLeastPeak(Reordered(graph, order.order), Half(options.planner)), std::move(order.order)};
  return other.planned.peak_bytes < stock.planned.peak_bytes ? std::move(other) : std::move(stock);
}

ImportedGraph InOrder(const ImportedGraph& imported, const std::vector<OpId>& order) {
  ImportedGraph result = imported;
  result.graph = Reordered(imported.graph, order);
  for (size_t i = 0; i < order.size(); ++i) {
    result.node_of_op[i] = imported.node_of_op[order[i]];
    result.op_of_node[result.node_of_op[i]] = static_cast<OpId>(i);
  }
  return result;
}

}  // namespace lms
