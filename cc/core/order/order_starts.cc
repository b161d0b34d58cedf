#include "cc/core/order/order_starts.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>

namespace lms {
namespace {

class ListScheduler {
 public:
  explicit ListScheduler(const OrderSpace& space)
      : space_(space), waits_(space.size(), 0), unread_(space.graph().buffers.size(), 0), score_(space.size(), 0) {}

  std::vector<OpId> Run() {
    const MemGraph& graph = space_.graph();
    for (size_t b = 0; b < unread_.size(); ++b) {
      unread_[b] = static_cast<int>(space_.readers()[b].size()) + (graph.buffers[b].escapes ? 1 : 0);
    }
    std::vector<OpId> order;
    order.reserve(space_.size());
    for (OpId op = 0; op < space_.size(); ++op) {
      waits_[op] = static_cast<int>(space_.before()[op].size());
      if (waits_[op] == 0) Push(op);
    }
    while (!ready_.empty()) {
      const auto [score, op] = ready_.top();
      ready_.pop();
      if (waits_[op] != 0 || score != score_[op]) continue;  // has run, or counts for less by now
      waits_[op] = -1;
      order.push_back(op);
      for (const BufferId b : space_.inputs()[op]) {
        if (--unread_[b] != 1 || graph.buffers[b].escapes) continue;
        // Whoever reads it last frees it.
        for (const OpId reader : space_.readers()[b]) {
          if (waits_[reader] == 0) Push(reader);
        }
      }
      for (const OpId other : space_.after()[op]) {
        if (--waits_[other] == 0) Push(other);
      }
    }
    return order;
  }

 private:
  void Push(OpId op) {
    int64_t score = 0;
    for (const BufferId b : space_.outputs()[op]) {
      if (unread_[b] > 0) score += space_.graph().buffers[b].bytes;
    }
    for (const BufferId b : space_.inputs()[op]) {
      if (unread_[b] == 1) score -= space_.graph().buffers[b].bytes;
    }
    score_[op] = score;
    ready_.emplace(score, op);
  }

  using Entry = std::pair<int64_t, OpId>;
  const OrderSpace& space_;
  std::vector<int> waits_;   // per op: for how many that have not run; -1 once it has
  std::vector<int> unread_;  // per buffer: readers that have not run
  std::vector<int64_t> score_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready_;
};

}  // namespace

std::vector<OpId> LeastGrowthOrder(const OrderSpace& space) { return ListScheduler(space).Run(); }

std::vector<OpId> OnDemandOrder(const OrderSpace& space, bool largest_first) {
  const MemGraph& graph = space.graph();
  const int n = space.size();
  // Per op: bytes that its branch needs at once, and leaves. A rough figure: what several ops share counts for each.
  std::vector<int64_t> needs(n, 0);
  std::vector<int64_t> leaves(n, 0);
  std::vector<std::vector<OpId>> deps(n);
  for (OpId op = 0; op < n; ++op) {
    deps[op].assign(space.before()[op].begin(), space.before()[op].end());
    for (const BufferId b : space.outputs()[op]) leaves[op] += graph.buffers[b].bytes;
    if (!largest_first) {
      std::sort(deps[op].begin(), deps[op].end());
      continue;
    }
    std::sort(deps[op].begin(), deps[op].end(), [&](OpId a, OpId b) {
      return std::make_tuple(leaves[a] - needs[a], a) < std::make_tuple(leaves[b] - needs[b], b);
    });
    int64_t held = 0;
    for (const OpId dep : deps[op]) {
      needs[op] = std::max(needs[op], held + needs[dep]);
      held += leaves[dep];
    }
    needs[op] = std::max(needs[op], held + leaves[op] + graph.ops[op].workspace_bytes);
  }
  std::vector<OpId> order;
  order.reserve(n);
  std::vector<char> seen(n, 0);
  std::vector<std::pair<OpId, size_t>> stack;
  for (OpId sink = 0; sink < n; ++sink) {
    if (!space.after()[sink].empty()) continue;
    stack.emplace_back(sink, 0);
    seen[sink] = 1;
    while (!stack.empty()) {
      auto& [op, next] = stack.back();
      if (next == deps[op].size()) {
        order.push_back(op);
        stack.pop_back();
        continue;
      }
      const OpId dep = deps[op][next++];
      if (seen[dep] != 0) continue;
      seen[dep] = 1;
      stack.emplace_back(dep, 0);
    }
  }
  return order;
}

}  // namespace lms
