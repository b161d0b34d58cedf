#include "cc/core/closure.h"

#include <algorithm>

namespace lms {
namespace {

bool OverwrittenBefore(const MemBuffer& buffer, OpId before) {
  return std::any_of(buffer.overwritten_by.begin(), buffer.overwritten_by.end(),
                     [before](OpId writer) { return writer < before; });
}

}  // namespace

ClosureFinder::ClosureFinder(const PlanState& state)
    : state_(state),
      in_closure_(state.graph().buffers.size(), 0),
      seen_(state.graph().ops.size(), 0),
      moves_(state.graph().ops.size(), 0) {}

// Would the op, recomputed before `before`, not be needed at its own place any more, given those that are not?
bool ClosureFinder::WouldMove(OpId op, OpId before) const {
  if (state_.Moved(op) || !state_.MayMoveTo(op, before)) return false;
  const MemGraph& graph = state_.graph();
  for (const BufferId b : graph.ops[op].outputs) {
    if (graph.buffers[b].escapes || graph.buffers[b].resident) return false;
    const PlanState::Life& life = state_.life(b);
    if (life.starts.size() > 1 && life.starts[1] < ClosureSlot(before)) return false;
    for (const PlanState::Access& access : life.accesses) {
      if (access.slot >= ClosureSlot(before)) break;
      if (IsClosureSlot(access.slot) || moves_[OpOfSlot(access.slot)] != search_) return false;
    }
  }
  return true;
}

const Closure& ClosureFinder::Find(BufferId wanted, OpId before, const ClosureRule& rule) {
  const MemGraph& graph = state_.graph();
  const int slot = ClosureSlot(before);
  ++search_;
  closure_.possible = false;
  closure_.cost_us = 0;
  closure_.kept.clear();
  closure_.recomputed.assign(1, wanted);
  in_closure_[wanted] = search_;
  int ops = 0;
  for (size_t next = 0; next < closure_.recomputed.size(); ++next) {
    const OpId op = graph.buffers[closure_.recomputed[next]].producer;
    if (op == kNone || !graph.ops[op].recomputable || op >= before) return closure_;
    if (seen_[op] == search_) continue;
    seen_[op] = search_;
    if (state_.HasStep(before, op)) continue;
    if (++ops > rule.max_ops) return closure_;
    if (WouldMove(op, before)) {
      moves_[op] = search_;
    } else {
      closure_.cost_us += graph.ops[op].cost_us;
    }
    for (const BufferId input : graph.ops[op].inputs) {
      const MemBuffer& buffer = graph.buffers[input];
      if (buffer.no_more_readers || OverwrittenBefore(buffer, before)) return closure_;
      if (input == wanted) return closure_;
      if (in_closure_[input] == search_ || state_.Alive(input, slot)) continue;
      in_closure_[input] = search_;
      const bool may_recompute = buffer.evictable && graph.ops[buffer.producer].recomputable;
      const bool may_keep = state_.AliveUntil(input, slot) >= 0;
      const bool small =
          static_cast<double>(buffer.bytes) <= rule.keep_ratio * static_cast<double>(graph.buffers[wanted].bytes);
      if (!may_recompute && !may_keep) return closure_;
      (may_recompute && !(small && may_keep) ? closure_.recomputed : closure_.kept).push_back(input);
    }
  }
  closure_.possible = true;
  return closure_;
}

}  // namespace lms
