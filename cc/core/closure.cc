#include "cc/core/closure.h"

#include <algorithm>

namespace lms {
namespace {

bool OverwrittenBefore(const MemBuffer& buffer, OpId before) {
  return std::any_of(buffer.overwritten_by.begin(), buffer.overwritten_by.end(),
                     [before](OpId writer) { return writer < before; });
}

bool Contains(const std::vector<int32_t>& list, int32_t id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// Would the op, recomputed before `before`, not be needed at its own place any more, given that those in `moved` are
// not?
bool WouldMove(const PlanState& state, OpId op, OpId before, const std::vector<OpId>& moved) {
  if (state.Moved(op) || !state.MayMoveTo(op, before)) return false;
  const MemGraph& graph = state.graph();
  for (const BufferId b : graph.ops[op].outputs) {
    if (graph.buffers[b].escapes || graph.buffers[b].resident) return false;
    const PlanState::Life& life = state.life(b);
    if (life.starts.size() > 1 && life.starts[1] < ClosureSlot(before)) return false;
    for (const PlanState::Access& access : life.accesses) {
      if (access.slot >= ClosureSlot(before)) break;
      if (IsClosureSlot(access.slot) || !Contains(moved, OpOfSlot(access.slot))) return false;
    }
  }
  return true;
}

}  // namespace

Closure FindClosure(const PlanState& state, BufferId wanted, OpId before, const ClosureRule& rule) {
  const MemGraph& graph = state.graph();
  const int slot = ClosureSlot(before);
  Closure closure;
  std::vector<OpId> ops;
  std::vector<OpId> moved;
  closure.recomputed.push_back(wanted);
  for (size_t next = 0; next < closure.recomputed.size(); ++next) {
    const OpId op = graph.buffers[closure.recomputed[next]].producer;
    if (op == kNone || !graph.ops[op].recomputable || op >= before) return closure;
    if (Contains(ops, op) || state.HasStep(before, op)) continue;
    ops.push_back(op);
    if (static_cast<int>(ops.size()) > rule.max_ops) return closure;
    if (WouldMove(state, op, before, moved)) {
      moved.push_back(op);
    } else {
      closure.cost_us += graph.ops[op].cost_us;
    }
    for (const BufferId input : graph.ops[op].inputs) {
      const MemBuffer& buffer = graph.buffers[input];
      if (buffer.no_more_readers || OverwrittenBefore(buffer, before)) return closure;
      if (input == wanted) return closure;
      if (state.Alive(input, slot) || Contains(closure.recomputed, input) || Contains(closure.kept, input)) continue;
      const bool may_recompute = buffer.evictable && graph.ops[buffer.producer].recomputable;
      const bool may_keep = state.AliveUntil(input, slot) >= 0;
      const bool small =
          static_cast<double>(buffer.bytes) <= rule.keep_ratio * static_cast<double>(graph.buffers[wanted].bytes);
      if (!may_recompute && !may_keep) return closure;
      (may_recompute && !(small && may_keep) ? closure.recomputed : closure.kept).push_back(input);
    }
  }
  closure.possible = true;
  return closure;
}

}  // namespace lms
