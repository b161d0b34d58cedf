#include "cc/core/order/order_cut.h"

#include <algorithm>

#include "cc/core/base/max_flow.h"

namespace lms {
namespace {

constexpr int kSource = 0;  // before the op
constexpr int kSink = 1;    // after it
// The price of moving an op to the other side, as a share of the largest buffer: decides between equal cuts.
constexpr double kMovePrice = 1e-9;
// Steps of work for each node and edge of the network, beside those of the flow itself.
constexpr int64_t kFlowWork = 10;
constexpr int64_t kWorkOfArc = 2;  // that the flow looks at

}  // namespace

OrderCutter::OrderCutter(const OrderSpace& space)
    : space_(space),
      side_(space.graph().ops.size(), Side::kFree),
      node_(space.graph().ops.size(), -1),
      seen_(space.graph().buffers.size(), 0) {}

OrderCut OrderCutter::Find(const std::vector<OpId>& order, const std::vector<int>& place, OpId op, int window,
                           int64_t most_work) {
  const MemGraph& graph = space_.graph();
  ++search_;
  const int at = place[op];
  const int first = std::max(0, at - window);
  const int last = std::min(static_cast<int>(order.size()) - 1, at + window);
  const auto side_of = [&](OpId other) {
    if (place[other] < first) return Side::kBefore;
    if (place[other] > last) return Side::kAfter;
    return side_[other];
  };
  for (int i = first; i <= last; ++i) side_[order[i]] = Side::kFree;
  // Ancestors and descendants of the op.
  side_[op] = Side::kBefore;
  for (int i = at; i >= first; --i) {
    if (side_[order[i]] != Side::kBefore) continue;
    for (const OpId dep : space_.before()[order[i]]) {
      if (place[dep] >= first) side_[dep] = Side::kBefore;
    }
  }
  side_[op] = Side::kAfter;
  for (int i = at; i <= last; ++i) {
    if (side_[order[i]] != Side::kAfter) continue;
    for (const OpId other : space_.after()[order[i]]) {
      if (place[other] <= last) side_[other] = Side::kAfter;
    }
  }
  int nodes = 2;
  std::vector<OpId> free_ops;
  for (int i = first; i <= last; ++i) {
    if (side_[order[i]] != Side::kFree) continue;
    node_[order[i]] = nodes++;
    free_ops.push_back(order[i]);
  }
  // The buffers about which there is a choice: those that free ops make or read.
  std::vector<BufferId> buffers;
  const auto meet = [&](BufferId b) {
    if (seen_[b] == search_) return;
    seen_[b] = search_;
    buffers.push_back(b);
  };
  int64_t largest = 1;
  for (const OpId f : free_ops) {
    for (const BufferId b : space_.inputs()[f]) meet(b);
    for (const BufferId b : space_.outputs()[f]) meet(b);
  }
  for (const BufferId b : buffers) largest = std::max(largest, graph.buffers[b].bytes);
  // An input that the op's output may take over, if all others who read it have run: then the output costs nothing.
  struct Shared {
    BufferId buffer;
    int64_t bytes;
  };
  std::vector<Shared> shared;
  for (const BufferId out : space_.outputs()[op]) {
    BufferId only = kNone;
    int candidates = 0;
    for (const BufferId b : graph.ops[op].forwardable) {
      if (graph.buffers[b].resident || graph.buffers[b].escapes || graph.buffers[b].bytes != graph.buffers[out].bytes) {
        continue;
      }
      ++candidates;
      only = b;
    }
    if (candidates == 1) shared.push_back({only, graph.buffers[out].bytes});
  }
  MaxFlow flow(nodes + static_cast<int>(buffers.size() + shared.size()), most_work / kWorkOfArc);
  int64_t edges = 0;
  const auto add = [&](int from, int to, double capacity) {
    flow.AddEdge(from, to, capacity);
    ++edges;
  };
  for (const OpId f : free_ops) {
    for (const OpId dep : space_.before()[f]) {
      // An op before the cut has what it depends on before it too.
      if (side_of(dep) == Side::kFree) add(node_[f], node_[dep], MaxFlow::kUnlimited);
    }
    const double price = kMovePrice * static_cast<double>(largest);
    if (place[f] < at) {
      add(kSource, node_[f], price);
    } else {
      add(node_[f], kSink, price);
    }
  }
  const auto hold = [&](int from, BufferId b, int64_t bytes, OpId but) {
    bool after = graph.buffers[b].escapes;
    bool free = false;
    for (const OpId reader : space_.readers()[b]) {
      if (reader == but) continue;
      after |= side_of(reader) == Side::kAfter;
      free |= side_of(reader) == Side::kFree;
    }
    if (after) {
      if (from != kSource) add(from, kSink, static_cast<double>(bytes));
      return;
    }
    if (!free) return;
    const int node = nodes++;
    add(from, node, static_cast<double>(bytes));
    for (const OpId reader : space_.readers()[b]) {
      if (reader != but && side_of(reader) == Side::kFree) add(node, node_[reader], MaxFlow::kUnlimited);
    }
  };
  for (const BufferId b : buffers) {
    const OpId producer = graph.buffers[b].producer;
    const Side side = side_of(producer);
    if (side != Side::kAfter) hold(side == Side::kFree ? node_[producer] : kSource, b, graph.buffers[b].bytes, kNone);
  }
  for (const Shared& s : shared) hold(kSource, s.buffer, s.bytes, op);
  OrderCut cut;
  flow.Run(kSource, kSink);
  cut.work = kFlowWork * (nodes + edges) + kWorkOfArc * flow.work() + (last - first);
  if (!flow.complete()) return cut;
  for (const OpId f : free_ops) {
    const bool before = flow.OnSourceSide(node_[f]);
    if (before && place[f] > at) cut.hastened.push_back(f);
    if (!before && place[f] < at) cut.postponed.push_back(f);
    side_[f] = before ? Side::kBefore : Side::kAfter;
  }
  // What is held then. Beyond the window everything is as it is: that part comes from the order's own profile, so only
  // the difference that the cut makes could be told; for a window that holds everything, all of it is summed up.
  if (first > 0 || last + 1 < static_cast<int>(order.size())) return cut;
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    if (buffer.resident || buffer.producer == kNone || side_[buffer.producer] != Side::kBefore) continue;
    bool after = buffer.escapes;
    for (const OpId reader : space_.readers()[b]) after |= side_[reader] == Side::kAfter;
    if (after) cut.bytes += buffer.bytes;
  }
  int64_t bytes = graph.ops[op].workspace_bytes;
  for (const BufferId b : space_.outputs()[op]) bytes += graph.buffers[b].bytes;
  std::vector<BufferId> taken;
  for (const BufferId out : space_.outputs()[op]) {
    for (const BufferId b : graph.ops[op].forwardable) {
      if (graph.buffers[b].resident || graph.buffers[b].escapes || graph.buffers[b].bytes != graph.buffers[out].bytes ||
          std::find(taken.begin(), taken.end(), b) != taken.end()) {
        continue;
      }
      bool dies = true;
      for (const OpId reader : space_.readers()[b]) dies &= reader == op || side_[reader] == Side::kBefore;
      // Where several might be taken over the network did not ask which: the bound assumes that one is.
      const bool several = std::none_of(shared.begin(), shared.end(), [b](const Shared& s) { return s.buffer == b; });
      if (!dies && !several) continue;
      bytes -= graph.buffers[out].bytes;
      taken.push_back(b);
      break;
    }
  }
  cut.bytes += bytes;
  const auto slack =
      static_cast<int64_t>(kMovePrice * static_cast<double>(largest) * static_cast<double>(order.size()));
  cut.bound_bytes = std::max<int64_t>(0, cut.bytes - slack - 1);
  cut.work += space_.sweep();
  return cut;
}

}  // namespace lms
