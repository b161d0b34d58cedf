#include "cc/core/simulate/lower_bound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cc/core/base/max_flow.h"
#include "cc/core/simulate/liveness.h"

namespace lms {
namespace {

constexpr int kMoments = 16;        // tried with the weaker form, in which inputs are there for nothing
constexpr int kBestMoments = 3;     // and the best of them with the full one
constexpr int kPrices = 14;         // per moment
constexpr size_t kMostOps = 20000;  // above this the weaker form alone
// What a step of work comes to.
constexpr int64_t kArcsOfStep = 4;
constexpr int64_t kOpsOfStep = 1;  // of a moment, which is looked at from several sides

// Bytes that must be in use while the op runs, resident left out.
int64_t Needs(const MemGraph& graph, OpId op) {
  const MemOp& o = graph.ops[op];
  const auto sum = [&graph](const std::vector<BufferId>& buffers) {
    int64_t bytes = 0;
    for (const BufferId b : buffers) bytes += graph.buffers[b].resident ? 0 : graph.buffers[b].bytes;
    return bytes;
  };
  const int64_t outputs = sum(o.outputs);
  return sum(o.inputs) + o.workspace_bytes + outputs - std::min(outputs, sum(o.forwardable));
}

// The first run of one op, and what has to be there after it.
class Moment {
 public:
  Moment(const MemGraph& graph, const std::vector<std::vector<OpId>>& dependents, OpId op, int64_t limit)
      : graph_(graph), before_(graph.ops.size(), false), wanted_(graph.buffers.size(), false) {
    capacity_ = static_cast<double>(limit - Needs(graph, op));
    std::vector<OpId> queue{op};
    for (size_t i = 0; i < queue.size(); ++i) {
      for (const OpId dep : graph.ops[queue[i]].deps) {
        if (before_[dep]) continue;
        before_[dep] = true;
        queue.push_back(dep);
      }
    }
    std::vector<bool> after(graph.ops.size(), false);
    queue.assign(1, op);
    for (size_t i = 0; i < queue.size(); ++i) {
      for (const OpId dependent : dependents[queue[i]]) {
        if (after[dependent]) continue;
        after[dependent] = true;
        queue.push_back(dependent);
      }
    }
    free_ = graph.ops[op].inputs;
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      if (!after[i]) continue;
      for (const BufferId b : graph.ops[i].inputs) {
        const MemBuffer& buffer = graph.buffers[b];
        if (!buffer.resident && buffer.producer != kNone && before_[buffer.producer]) wanted_[b] = true;
      }
    }
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      const MemBuffer& buffer = graph.buffers[b];
      if (buffer.escapes && buffer.producer != kNone && before_[buffer.producer]) wanted_[b] = true;
    }
    for (const BufferId b : free_) wanted_[b] = false;
  }

  // The weaker form, a fractional knapsack: an op made again needs nothing.
  double Knapsack() const {
    struct Item {
      double bytes;
      double cost_us;
    };
    std::vector<Item> items;
    double excess = -capacity_;
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!before_[i]) continue;
      double evictable = 0;
      for (const BufferId b : graph_.ops[i].outputs) {
        if (!wanted_[b]) continue;
        excess += static_cast<double>(graph_.buffers[b].bytes);
        if (MayRunAgain(static_cast<OpId>(i))) evictable += static_cast<double>(graph_.buffers[b].bytes);
      }
      if (evictable > 0) items.push_back({evictable, graph_.ops[i].cost_us});
    }
    std::sort(items.begin(), items.end(),
              [](const Item& a, const Item& b) { return a.cost_us * b.bytes < b.cost_us * a.bytes; });
    double cost_us = 0;
    for (const Item& item : items) {
      if (excess <= 0) break;
      cost_us += item.cost_us * std::min(1.0, excess / item.bytes);
      excess -= item.bytes;
    }
    return cost_us;
  }

  // The full form.
  double Cut(WorkMeter* meter) const {
    // Nodes: source, sink, one per op before the moment ("made again"), one per buffer of theirs ("missed later").
    const int n = static_cast<int>(graph_.ops.size());
    std::vector<int> node_of_op(n, -1);
    std::vector<int> node_of_buffer(graph_.buffers.size(), -1);
    std::vector<OpId> ops;
    std::vector<BufferId> buffers;
    int nodes = 2;
    const auto want = [&](BufferId b) {
      if (node_of_buffer[b] >= 0) return;
      node_of_buffer[b] = nodes++;
      buffers.push_back(b);
    };
    for (size_t b = 0; b < graph_.buffers.size(); ++b) {
      if (wanted_[b]) want(static_cast<BufferId>(b));
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      const OpId op = graph_.buffers[buffers[i]].producer;
      if (op == kNone || node_of_op[op] >= 0) continue;
      node_of_op[op] = nodes++;
      ops.push_back(op);
      for (const BufferId input : graph_.ops[op].inputs) {
        if (!graph_.buffers[input].resident) want(input);
      }
    }
    MaxFlow flow(nodes, kArcsOfStep * meter->left());
    constexpr int kSource = 0;
    constexpr int kSink = 1;
    std::vector<std::pair<int, BufferId>> held;  // edges whose capacity is the price of the buffer
    for (const BufferId b : buffers) {
      if (wanted_[b]) flow.AddEdge(kSource, node_of_buffer[b], MaxFlow::kUnlimited);
      const bool is_free = std::find(free_.begin(), free_.end(), b) != free_.end();
      const int edge = flow.AddEdge(node_of_buffer[b], node_of_op[graph_.buffers[b].producer], 0);
      if (!is_free) held.emplace_back(edge, b);
    }
    double all_us = 0;
    for (const OpId op : ops) {
      const double cost_us = graph_.ops[op].cost_us;
      flow.AddEdge(node_of_op[op], kSink, MayRunAgain(op) ? cost_us : MaxFlow::kUnlimited);
      for (const BufferId input : graph_.ops[op].inputs) {
        if (!graph_.buffers[input].resident) {
          flow.AddEdge(node_of_op[op], node_of_buffer[input], MaxFlow::kUnlimited);
        }
      }
      all_us += cost_us;
    }
    if (capacity_ <= 0 || held.empty()) return 0;
    double low = 0;
    double high = 4 * all_us / capacity_;
    double best = 0;
    for (int i = 0; i < kPrices; ++i) {
      const double price = (low + high) / 2;
      for (const auto& [edge, b] : held) flow.SetCapacity(edge, price * static_cast<double>(graph_.buffers[b].bytes));
      const double cut = flow.Run(kSource, kSink);
      meter->Add(flow.work() / kArcsOfStep);
      if (cut == MaxFlow::kUnlimited) return best;
      best = std::max(best, cut - price * capacity_);
      if (!flow.complete() || meter->left() == 0) return best;
      double bytes = 0;
      for (const auto& [edge, b] : held) {
        const int op = node_of_op[graph_.buffers[b].producer];
        if (flow.OnSourceSide(node_of_buffer[b]) && !flow.OnSourceSide(op)) {
          bytes += static_cast<double>(graph_.buffers[b].bytes);
        }
      }
      (bytes > capacity_ ? low : high) = price;
    }
    return best;
  }

 private:
  bool MayRunAgain(OpId op) const { return graph_.ops[op].recomputable; }

  const MemGraph& graph_;
  double capacity_ = 0;
  std::vector<bool> before_;    // per op: has run
  std::vector<bool> wanted_;    // per buffer: made before, read after, and not needed by the op itself
  std::vector<BufferId> free_;  // there in any case
};

}  // namespace

int64_t LowerBoundBytes(const MemGraph& graph) {
  int64_t most = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) most = std::max(most, Needs(graph, static_cast<OpId>(i)));
  return graph.ResidentBytes() + most;
}

double LowerBoundUs(const MemGraph& graph, int64_t limit_bytes, WorkMeter* meter) {
  WorkMeter unlimited(std::numeric_limits<int64_t>::max() / kArcsOfStep);
  if (meter == nullptr) meter = &unlimited;
  const MemoryProfile profile = Simulate(graph, Plan());
  const OpId n = static_cast<OpId>(graph.ops.size());
  if (profile.peak_bytes <= limit_bytes || limit_bytes < LowerBoundBytes(graph)) return 0;
  std::vector<std::vector<OpId>> dependents(n);
  for (OpId op = 0; op < n; ++op) {
    for (const OpId dep : graph.ops[op].deps) dependents[dep].push_back(op);
  }
  // The highest op of each of so many parts of the time above the limit.
  OpId first = n;
  OpId last = 0;
  for (OpId op = 0; op < n; ++op) {
    if (profile.op_bytes[op] <= limit_bytes) continue;
    first = std::min(first, op);
    last = op;
  }
  const int64_t limit = limit_bytes - profile.resident_bytes;
  std::vector<std::pair<double, OpId>> moments;
  for (int part = 0; part < kMoments; ++part) {
    const OpId from = first + static_cast<OpId>(static_cast<int64_t>(last + 1 - first) * part / kMoments);
    const OpId to = first + static_cast<OpId>(static_cast<int64_t>(last + 1 - first) * (part + 1) / kMoments);
    if (from >= to) continue;
    meter->Add(n / kOpsOfStep);
    if (meter->left() == 0) break;
    const auto highest = std::max_element(profile.op_bytes.begin() + from, profile.op_bytes.begin() + to);
    const OpId op = static_cast<OpId>(highest - profile.op_bytes.begin());
    moments.emplace_back(-Moment(graph, dependents, op, limit).Knapsack(), op);
  }
  if (moments.empty()) return 0;
  std::sort(moments.begin(), moments.end());
  double best = -moments.front().first;
  if (graph.ops.size() > kMostOps) return best;
  for (size_t i = 0; i < moments.size() && i < kBestMoments; ++i) {
    if (meter->left() == 0) break;
    meter->Add(n / kOpsOfStep);
    best = std::max(best, Moment(graph, dependents, moments[i].second, limit).Cut(meter));
  }
  return best;
}

}  // namespace lms
