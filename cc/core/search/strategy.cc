#include "cc/core/search/strategy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cc/core/graph/tail.h"
#include "cc/core/graph/turn.h"
#include "cc/core/order/memory_order.h"
#include "cc/core/search/checkpoint_chain.h"
#include "cc/core/simulate/liveness.h"

namespace lms {
namespace {

// What a search for an order may take, in its own steps: up to a quarter of the plan's work on top of it.
int64_t OrderWork(const PlannerOptions& options) {
  constexpr double kMostSeconds = 10;
  const double seconds = static_cast<double>(options.work) / static_cast<double>(kWorkPerSecond) / 4;
  return static_cast<int64_t>(std::min(kMostSeconds, seconds) * static_cast<double>(kOrderWorkPerSecond));
}

// The same in the planner's steps.
int64_t WorkOf(const MemoryOrder& order) { return order.work / (kOrderWorkPerSecond / kWorkPerSecond); }

// The planner's work, when it plans twice. In the order with the lowest peak plans are hardly ever dearer, so most of
// it goes there.
PlannerOptions Most(PlannerOptions options) {
  options.work = options.work * 13 / 20;
  return options;
}

PlannerOptions Rest(PlannerOptions options) {
  options.work = options.work * 7 / 20;
  return options;
}

// Planning twice takes time from both plans: an order that gains less than this share of the activations' peak is not
// worth it...
constexpr int64_t kWorthwhile = 100;
// ...unless the limit is below the least that checkpoints reach in the graph's own order, and the other order has that
// lower by this share.
constexpr int64_t kLower = 10;
constexpr int kStages = 32;  // enough for these

// What checkpoints take at least, resident excluded; 0: there are none. Adds the work.
int64_t LeastByCheckpoints(const MemGraph& graph, int64_t* work) {
  const CheckpointChain chain(graph, kStages);
  *work += chain.work();
  return chain.usable() ? chain.LeastBytes() : 0;
}

// The order with the lowest peak of all that waits for the backward part and cannot be computed again: as if nothing of
// the rest were held. The peak that it comes with is of that alone.
MemoryOrder OrderForCheckpoints(const MemGraph& graph, int64_t order_work) {
  MemGraph rest = graph;
  const OpId turn = TurnOf(graph);
  for (OpId op = turn + 1; op < static_cast<OpId>(graph.ops.size()); ++op) {
    for (const BufferId b : graph.ops[op].inputs) {
      MemBuffer& buffer = rest.buffers[b];
      if (buffer.evictable && buffer.producer <= turn) buffer.bytes = 0;
    }
  }
  return OrderForLeastPeak(rest, order_work);
}

// The order in which it is worth planning too, if there is one. `order`: the one with the lowest peak. Adds the work.
std::optional<MemoryOrder> OrderToPlanIn(const MemGraph& graph, MemoryOrder order, int64_t limit_bytes,
                                         const PlannerOptions& options, int64_t* work) {
  const int64_t given = Simulate(graph, Plan()).peak_bytes;
  const int64_t resident = graph.ResidentBytes();
  if (order.changed && given - order.peak_bytes > (given - resident) / kWorthwhile) return order;
  // What waits and cannot be computed again may be swapped where there is a link.
  if (!options.recompute || options.link.usable()) return std::nullopt;
  const int64_t least = LeastByCheckpoints(graph, work);
  if (limit_bytes - resident >= least) return std::nullopt;
  const auto lower = [&](const MemoryOrder& other) {
    return other.changed && LeastByCheckpoints(Reordered(graph, other.order), work) < least - least / kLower;
  };
  if (lower(order)) return order;
  order = OrderForCheckpoints(graph, OrderWork(options));
  *work += WorkOf(order);
  if (lower(order)) return order;
  return std::nullopt;
}

// Is there nothing but order?
bool OrderAlone(const PlannerOptions& options) { return !options.recompute && !options.link.usable(); }

// The order, and nothing planned.
Strategy Alone(MemoryOrder order, int64_t work) {
  Strategy result;
  result.planned.work = work;
  result.planned.feasible = order.feasible;
  result.planned.peak_bytes = order.peak_bytes;
  if (order.changed) result.order = std::move(order.order);
  return result;
}

bool Better(const PlannerResult& a, const PlannerResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  return a.feasible ? a.cost_us < b.cost_us : a.peak_bytes < b.peak_bytes;
}

// The plan in the graph's own order and the one in another order: which is taken, for the work of all.
Strategy Taken(PlannerResult given, PlannerResult other, MemoryOrder order, bool is_better, int64_t work) {
  work += given.work + other.work;
  Strategy taken{std::move(is_better ? other : given), {}};
  if (is_better) taken.order = std::move(order.order);
  taken.planned.work = work;
  return taken;
}

// The op behind the last one that waits for what is computed again or swapped in.
OpId TailBegin(const Plan& plan) {
  OpId last = 0;
  for (const RecomputeStep& step : plan.steps) {
    if (!step.moves) last = std::max(last, step.before);
  }
  for (const SwapIn& in : plan.swap_ins) last = std::max(last, in.before);
  return last + 1;
}

// Where the peak of what was found lies behind all recomputations, as where all weights are updated at once, another
// order of these ops may help, which the order of the whole step was not chosen for: its own peak lies elsewhere.
// `order_of` and `plan_of` search an order for the tail's graph, and a plan for the whole.
template <typename OrderOf, typename PlanOf>
Strategy WithBetterTail(const MemGraph& graph, Strategy found, const OrderOf& order_of, const PlanOf& plan_of) {
  if (found.planned.plan.empty()) return found;
  const MemGraph ordered = found.order.empty() ? graph : Reordered(graph, found.order);
  const OpId first = TailBegin(found.planned.plan);
  if (first >= static_cast<OpId>(ordered.ops.size()) || Simulate(ordered, found.planned.plan).peak_op < first) {
    return found;
  }
  const MemoryOrder tail = order_of(TailOf(ordered, first));
  found.planned.work += WorkOf(tail);
  if (!tail.changed) return found;
  std::vector<OpId> order = OrderWithTail(first, tail.order);
  PlannerResult planned = plan_of(Reordered(ordered, order));
  planned.work += found.planned.work;
  if (planned.peak_bytes >= found.planned.peak_bytes) {
    found.planned.work = planned.work;
    return found;
  }
  if (!found.order.empty()) {
    for (OpId& op : order) op = found.order[op];
  }
  return {std::move(planned), std::move(order)};
}

// Plans in the graph's own order and, where that is worth it, in the one with the lowest peak, and takes the better
// one: `plan_of` plans a graph, with so much of the work, and `is_better` compares. `order_of` searches an order for
// the tail's graph, where the plan is not `good` as it is.
template <typename PlanOf, typename IsBetter, typename OrderOf, typename Good>
Strategy InBothOrders(const MemGraph& graph, MemoryOrder order, int64_t limit_bytes, int64_t work,
                      const StrategyOptions& options, const PlanOf& plan_of, const IsBetter& is_better,
                      const OrderOf& order_of, const Good& good) {
  Strategy found;
  if (auto another = OrderToPlanIn(graph, std::move(order), limit_bytes, options.planner, &work)) {
    PlannerResult given = plan_of(graph, Rest(options.planner));
    PlannerResult other = plan_of(Reordered(graph, another->order), Most(options.planner));
    const bool other_is_better = is_better(other, given);
    found = Taken(std::move(given), std::move(other), *std::move(another), other_is_better, work);
  } else {
    found.planned = plan_of(graph, options.planner);
    found.planned.work += work;
  }
  if (good(found.planned)) return found;
  const auto with_most = [&](const MemGraph& whole) { return plan_of(whole, Most(options.planner)); };
  return WithBetterTail(graph, std::move(found), order_of, with_most);
}

}  // namespace

Strategy ChooseForLimit(const MemGraph& graph, int64_t limit_bytes, const StrategyOptions& options) {
  if (!options.order) return {PlanForLimit(graph, limit_bytes, options.planner), {}};
  MemoryOrder order = OrderForLimit(graph, limit_bytes, OrderWork(options.planner));
  int64_t work = WorkOf(order);
  if (order.feasible && options.order_alone) return Alone(std::move(order), work);
  // Where the limit is out of reach for order alone, the lowest peak is a good order to plan in.
  order = OrderForLeastPeak(graph, OrderWork(options.planner));
  work += WorkOf(order);
  order.feasible = order.peak_bytes <= limit_bytes;
  if (OrderAlone(options.planner) || (order.feasible && options.order_alone)) return Alone(std::move(order), work);
  return InBothOrders(
      graph, std::move(order), limit_bytes, work, options,
      [&](const MemGraph& whole, const PlannerOptions& planner) { return PlanForLimit(whole, limit_bytes, planner); },
      Better, [&](const MemGraph& tail) { return OrderForLimit(tail, limit_bytes, OrderWork(options.planner)); },
      [](const PlannerResult& planned) { return planned.feasible; });
}

Strategy ChooseForLeastPeak(const MemGraph& graph, const StrategyOptions& options) {
  if (!options.order) return {PlanForLeastPeak(graph, options.planner), {}};
  MemoryOrder order = OrderForLeastPeak(graph, OrderWork(options.planner));
  const int64_t work = WorkOf(order);
  if (OrderAlone(options.planner)) return Alone(std::move(order), work);
  return InBothOrders(
      graph, std::move(order), /*limit_bytes=*/0, work, options,
      [](const MemGraph& whole, const PlannerOptions& planner) { return PlanForLeastPeak(whole, planner); },
      [](const PlannerResult& a, const PlannerResult& b) { return a.peak_bytes < b.peak_bytes; },
      [&](const MemGraph& tail) { return OrderForLeastPeak(tail, OrderWork(options.planner)); },
      [](const PlannerResult&) { return false; });
}

}  // namespace lms
