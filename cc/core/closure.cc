#include "cc/core/closure.h"

#include <algorithm>

namespace lms {
namespace {

bool OverwrittenBefore(const MemBuffer& buffer, OpId before) {
  return std::any_of(buffer.overwritten_by.begin(), buffer.overwritten_by.end(),
                     [before](OpId writer) { return writer < before; });
}

bool Contains(const std::vector<BufferId>& list, BufferId buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

}  // namespace

Closure FindClosure(const PlanState& state, BufferId wanted, OpId before, const ClosureRule& rule) {
  const MemGraph& graph = state.graph();
  const int slot = ClosureSlot(before);
  Closure closure;
  std::vector<OpId> ops;
  closure.recomputed.push_back(wanted);
  for (size_t next = 0; next < closure.recomputed.size(); ++next) {
    const OpId op = graph.buffers[closure.recomputed[next]].producer;
    if (op == kNone || !graph.ops[op].recomputable || op >= before) return closure;
    if (std::find(ops.begin(), ops.end(), op) != ops.end() || state.HasStep(before, op)) continue;
    ops.push_back(op);
    if (static_cast<int>(ops.size()) > rule.max_ops) return closure;
    closure.cost_us += graph.ops[op].cost_us;
    for (const BufferId input : graph.ops[op].inputs) {
      const MemBuffer& buffer = graph.buffers[input];
      if (buffer.no_more_readers || OverwrittenBefore(buffer, before)) return closure;
      if (input == wanted) return closure;
      if (state.Alive(input, slot) || Contains(closure.recomputed, input) || Contains(closure.kept, input)) continue;
      const bool may_recompute = buffer.evictable && graph.ops[buffer.producer].recomputable;
      const bool small =
          static_cast<double>(buffer.bytes) <= rule.keep_ratio * static_cast<double>(graph.buffers[wanted].bytes);
      (may_recompute && !small ? closure.recomputed : closure.kept).push_back(input);
    }
  }
  closure.possible = true;
  return closure;
}

}  // namespace lms
