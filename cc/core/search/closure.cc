#include "cc/core/search/closure.h"

#include <algorithm>
#include <limits>

namespace lms {
namespace {

// The first op that changes the buffer.
OpId FirstWriter(const MemBuffer& buffer) {
  const auto first = std::min_element(buffer.overwritten_by.begin(), buffer.overwritten_by.end());
  return first == buffer.overwritten_by.end() ? std::numeric_limits<OpId>::max() : *first;
}

}  // namespace

ClosureFinder::ClosureFinder(const PlanState& state)
    : state_(state),
      in_closure_(state.graph().buffers.size(), 0),
      seen_(state.graph().ops.size(), 0),
      moves_(state.graph().ops.size(), 0) {
  first_writer_.reserve(state.graph().buffers.size());
  for (const MemBuffer& buffer : state.graph().buffers) first_writer_.push_back(FirstWriter(buffer));
}

// Would the op, recomputed before `before`, not be needed at its own place any more, given those that are not?
bool ClosureFinder::WouldMove(OpId op, OpId before) const {
  if (state_.Moved(op) || !state_.MayMoveTo(op, before)) return false;
  const MemGraph& graph = state_.graph();
  for (const BufferId b : graph.ops[op].outputs) {
    if (graph.buffers[b].escapes || graph.buffers[b].resident) return false;
    const PlanState::Life& life = state_.life(b);
    if (life.starts.size() > 1 && life.starts[1] < ClosureSlot(before)) return false;
    if (life.held_until >= 0) return false;
    for (const PlanState::Access& access : life.accesses) {
      if (access.slot >= ClosureSlot(before)) break;
      if (IsClosureSlot(access.slot) || moves_[OpOfSlot(access.slot)] != search_) return false;
    }
  }
  return true;
}

// Would memory stay under the limit if the input lived from `until` to the slot, and the wanted buffer (`wanted_bytes`)
// not after `opens`?
bool ClosureFinder::Fits(int64_t input_bytes, int until, int64_t wanted_bytes, int opens, int slot,
                         int64_t limit_bytes) const {
  const RangeTree& bytes = state_.bytes();
  const int relieved = std::max(until, opens) + 1;
  if (bytes.Max(slot, slot) + input_bytes > limit_bytes) return false;
  if (relieved < slot && bytes.Max(relieved, slot - 1) + input_bytes - wanted_bytes > limit_bytes) return false;
  return until + 1 >= relieved || bytes.Max(until + 1, relieved - 1) + input_bytes <= limit_bytes;
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
  const int opens = state_.LastNeededBefore(wanted, slot);
  const int64_t wanted_bytes = graph.buffers[wanted].bytes;
  looked_at_ = 1;
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
    looked_at_ += 1 + static_cast<int64_t>(graph.ops[op].inputs.size());
    for (const BufferId input : graph.ops[op].inputs) {
      const MemBuffer& buffer = graph.buffers[input];
      if (buffer.no_more_readers || first_writer_[input] < before) return closure_;
      if (input == wanted) return closure_;
      if (in_closure_[input] == search_ || state_.Alive(input, slot)) continue;
      in_closure_[input] = search_;
      const bool hinted = buffer.hint == Hint::kRecompute;
      const bool may_recompute = buffer.evictable && graph.ops[buffer.producer].recomputable;
      const int until = state_.AliveUntil(input, slot);
      if (!may_recompute && until < 0) return closure_;
      const bool keep = until >= 0 && !(may_recompute && hinted) &&
                        (!may_recompute || rule.hinted_only ||
                         static_cast<double>(buffer.bytes) <= rule.keep_ratio * static_cast<double>(wanted_bytes) ||
                         Fits(buffer.bytes, until, wanted_bytes, opens, slot, rule.limit_bytes));
      (keep ? closure_.kept : closure_.recomputed).push_back(input);
    }
  }
  closure_.possible = true;
  return closure_;
}

}  // namespace lms
