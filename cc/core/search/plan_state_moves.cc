// Of PlanState: which ops run later than at their own place, and how late they may.

#include <algorithm>
#include <numeric>
#include <vector>

#include "cc/core/base/sort_unique.h"
#include "cc/core/search/plan_state.h"

namespace lms {
namespace {

// Per op a list of later ops, in ascending order: those for which `of` names it.
class OpLists {
 public:
  template <typename Of>
  OpLists(const MemGraph& graph, const Of& of) : first_(graph.ops.size() + 1, 0) {
    const OpId n = static_cast<OpId>(graph.ops.size());
    for (const MemOp& op : graph.ops) of(op, [this](OpId named) { ++first_[named]; });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    ops_.resize(first_[n]);
    for (OpId op = n - 1; op >= 0; --op) {
      of(graph.ops[op], [this, op](OpId named) { ops_[--first_[named]] = op; });
    }
  }
  const OpId* begin(OpId op) const { return ops_.data() + first_[op]; }
  const OpId* end(OpId op) const { return ops_.data() + first_[op + 1]; }

 private:
  std::vector<int> first_;  // of the op's list, in ops_
  std::vector<OpId> ops_;
};

}  // namespace

// Whatever waits for an op by a control edge must find it done. Views wait too, and whoever waits for them; who reads
// the op's results, through views or not, is known to the lives.
void PlanState::FindLatestMoves() {
  // Per free op: those of the ops that wait for it, directly or through other free ops, that come first. A few are
  // enough: the last one of a full list stands for all after it.
  constexpr size_t kFew = 8;
  const OpId n = static_cast<OpId>(graph_->ops.size());
  std::vector<std::vector<OpId>> waiting(n);
  latest_move_.assign(n, n);
  const OpLists dependents(*graph_, [](const MemOp& op, const auto& add) {
    for (const OpId dep : op.deps) add(dep);
  });
  const OpLists readers(*graph_, [this](const MemOp& op, const auto& add) {
    for (const BufferId b : op.inputs) {
      if (graph_->buffers[b].producer != kNone) add(graph_->buffers[b].producer);
    }
  });
  std::vector<OpId> all;
  for (OpId op = n - 1; op >= 0; --op) {
    all.clear();
    for (const OpId* at = dependents.begin(op); at != dependents.end(op); ++at) {
      const OpId dependent = *at;
      if (IsFree(*graph_, dependent)) {
        all.insert(all.end(), waiting[dependent].begin(), waiting[dependent].end());
      } else {
        all.push_back(dependent);
      }
    }
    SortUnique(&all);
    if (IsFree(*graph_, op)) {
      if (all.size() > kFew) all.resize(kFew);
      waiting[op] = all;
      continue;
    }
    for (size_t i = 0; i < all.size() && latest_move_[op] == n; ++i) {
      const bool reads = std::binary_search(readers.begin(op), readers.end(op), all[i]);
      if (!reads || i + 1 == kFew) latest_move_[op] = all[i];
    }
  }
}

bool PlanState::ShouldMove(OpId op) const {
  const MemOp& o = graph_->ops[op];
  if (!move_ || !o.recomputable) return false;
  // What was computed anew for it at its own place, because somebody asked for that, is to be read there.
  if (!pinned_.empty() && !moved_[op] &&
      std::any_of(o.inputs.begin(), o.inputs.end(), [this, op](BufferId b) { return PinnedAt(b, ClosureSlot(op)); })) {
    return false;
  }
  int first = slots_;  // recomputation of any output
  for (const BufferId b : o.outputs) {
    if (graph_->buffers[b].escapes || graph_->buffers[b].resident) return false;
    const Life& life = lives_[b];
    const size_t own = moved_[op] ? 0 : 1;
    if (life.starts.size() > own) first = std::min(first, life.starts[own]);
  }
  if (first == slots_ || OpOfSlot(first) > latest_move_[op]) return false;
  // Nothing may read what it makes at its own place.
  for (const BufferId b : o.outputs) {
    const Life& life = lives_[b];
    const size_t own = moved_[op] ? 0 : 1;
    if (life.held_until >= 0 && (life.starts.size() <= own || life.held_until < life.starts[own])) return false;
    if (life.accesses.empty()) continue;
    if (life.starts.size() <= own || life.accesses.front().slot < life.starts[own]) return false;
  }
  return true;
}

void PlanState::SetMoved(OpId op, bool moved) {
  const int slot = OpSlot(op);
  const MemOp& o = graph_->ops[op];
  history_.back().flipped.push_back(op);
  moved_[op] = moved;
  for (const BufferId b : o.outputs) {
    Touch(b);
    std::vector<int>& starts = lives_[b].starts;
    if (moved) {
      starts.erase(starts.begin());
    } else {
      starts.insert(starts.begin(), slot);
    }
  }
  tree_.Add(slot, slot, moved ? -o.workspace_bytes : o.workspace_bytes);
  cost_us_ += moved ? -o.cost_us : o.cost_us;
  dirty_ops_.push_back(op);
  if (moved) {
    UnreadInputs(op, slot);
  } else {
    ReadInputs(op, slot);
  }
}

void PlanState::ResolveMoves() {
  // Readers come after what they read: from the last op to the first, every op is judged by what its readers do.
  while (!move_candidates_.empty()) {
    const OpId op = *move_candidates_.begin();
    move_candidates_.erase(move_candidates_.begin());
    if (ShouldMove(op) == moved_[op]) continue;
    SetMoved(op, !moved_[op]);
    move_candidates_.erase(op);
  }
}

}  // namespace lms
