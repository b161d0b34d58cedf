#include "cc/core/plan_state.h"

#include <algorithm>

namespace lms {
namespace {

// Index of the last start at or before the slot, or -1.
int StartIndex(const PlanState::Life& life, int slot) {
  const auto after = std::upper_bound(life.starts.begin(), life.starts.end(), slot);
  return static_cast<int>(after - life.starts.begin()) - 1;
}

// Last slot in which the instance with this start index is needed.
int InstanceEnd(const PlanState::Life& life, int index) {
  const int start = life.starts[index];
  auto end = life.accesses.end();
  if (index + 1 < static_cast<int>(life.starts.size())) {
    end = std::lower_bound(life.accesses.begin(), life.accesses.end(), life.starts[index + 1],
                           [](const PlanState::Access& access, int slot) { return access.slot < slot; });
  }
  if (end == life.accesses.begin()) return start;
  return std::max(start, (end - 1)->slot);
}

void SortUnique(std::vector<OpId>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace

PlanState::PlanState(const MemGraph& graph)
    : graph_(graph),
      slots_(2 * static_cast<int>(graph.ops.size()) + 1),  // the last one is the end of the step
      tree_(slots_),
      lives_(graph.buffers.size()),
      relief_(graph.ops.size(), 0),
      correction_(graph.ops.size(), 0),
      saved_(graph.buffers.size()) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const MemOp& op = graph.ops[i];
    const int slot = OpSlot(static_cast<OpId>(i));
    for (const BufferId b : op.outputs) {
      if (!graph.buffers[b].resident) lives_[b].starts.push_back(slot);
    }
    for (const BufferId b : op.inputs) {
      if (!graph.buffers[b].resident) lives_[b].accesses.push_back({slot, 1});
    }
    tree_.Add(slot, slot, op.workspace_bytes);
  }
  for (size_t b = 0; b < lives_.size(); ++b) {
    if (graph.buffers[b].resident) continue;
    if (graph.buffers[b].escapes) lives_[b].accesses.push_back({slots_ - 1, 1});
    AddContribution(static_cast<BufferId>(b), 1);
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) dirty_ops_.push_back(static_cast<OpId>(i));
  RefreshDirty();
}

bool PlanState::HasStep(OpId before, OpId op) const {
  const auto found = steps_.find(before);
  return found != steps_.end() && found->second.count(op) != 0;
}

int PlanState::EndOf(BufferId buffer, int slot) const {
  const Life& life = lives_[buffer];
  const int index = StartIndex(life, slot);
  return index < 0 ? -1 : InstanceEnd(life, index);
}

bool PlanState::Alive(BufferId buffer, int slot) const {
  return graph_.buffers[buffer].resident || EndOf(buffer, slot) >= slot;
}

int PlanState::AliveUntil(BufferId buffer, int slot) const {
  return graph_.buffers[buffer].resident ? slot : std::min(slot, EndOf(buffer, slot));
}

void PlanState::Begin() {
  saved_cost_us_ = cost_us_;
  touched_.clear();
  saved_steps_.clear();
}

void PlanState::AddContribution(BufferId buffer, int sign) {
  const Life& life = lives_[buffer];
  const int64_t bytes = sign * graph_.buffers[buffer].bytes;
  for (int i = 0; i < static_cast<int>(life.starts.size()); ++i) {
    tree_.Add(life.starts[i], InstanceEnd(life, i), bytes);
  }
}

void PlanState::MarkDirty(BufferId buffer) {
  for (const Access& access : lives_[buffer].accesses) {
    if (access.slot == slots_ - 1) continue;
    (access.slot % 2 == 1 ? dirty_ops_ : dirty_closures_).push_back(OpOfSlot(access.slot));
  }
}

void PlanState::Touch(BufferId buffer) {
  if (saved_[buffer].touched) return;
  saved_[buffer] = {lives_[buffer], true};
  touched_.push_back(buffer);
  AddContribution(buffer, -1);
  MarkDirty(buffer);
}

void PlanState::TouchSteps(OpId before) {
  dirty_closures_.push_back(before);
  if (saved_steps_.count(before) == 0) {
    const auto found = steps_.find(before);
    saved_steps_[before] = found == steps_.end() ? Steps() : found->second;
  }
}

void PlanState::AddAccess(BufferId buffer, int slot) {
  Touch(buffer);
  std::vector<Access>& accesses = lives_[buffer].accesses;
  const auto at = std::lower_bound(accesses.begin(), accesses.end(), slot,
                                   [](const Access& access, int s) { return access.slot < s; });
  if (at != accesses.end() && at->slot == slot) {
    ++at->count;
  } else {
    accesses.insert(at, {slot, 1});
  }
}

void PlanState::RemoveAccess(BufferId buffer, int slot) {
  Touch(buffer);
  std::vector<Access>& accesses = lives_[buffer].accesses;
  const auto at = std::lower_bound(accesses.begin(), accesses.end(), slot,
                                   [](const Access& access, int s) { return access.slot < s; });
  if (at != accesses.end() && at->slot == slot && --at->count == 0) accesses.erase(at);
}

void PlanState::Recompute(BufferId buffer, OpId before) {
  const int slot = ClosureSlot(before);
  std::vector<int>& starts = lives_[buffer].starts;
  if (std::binary_search(starts.begin(), starts.end(), slot)) return;
  Touch(buffer);
  starts.insert(std::upper_bound(starts.begin(), starts.end(), slot), slot);
  TouchSteps(before);
  const OpId op = graph_.buffers[buffer].producer;
  std::vector<BufferId>& provides = steps_[before][op];
  const bool new_step = provides.empty();
  provides.insert(std::upper_bound(provides.begin(), provides.end(), buffer), buffer);
  if (!new_step) return;
  cost_us_ += graph_.ops[op].cost_us;
  for (const BufferId input : graph_.ops[op].inputs) {
    if (!graph_.buffers[input].resident) AddAccess(input, slot);
  }
}

void PlanState::Retain(BufferId buffer, OpId before) {
  const auto closure = steps_.find(before);
  const OpId op = graph_.buffers[buffer].producer;
  if (closure == steps_.end() || closure->second.count(op) == 0) return;
  std::vector<BufferId>& provides = closure->second[op];
  const auto provided = std::find(provides.begin(), provides.end(), buffer);
  if (provided == provides.end()) return;
  const int slot = ClosureSlot(before);
  TouchSteps(before);
  Touch(buffer);
  std::vector<int>& starts = lives_[buffer].starts;
  starts.erase(std::find(starts.begin(), starts.end(), slot));
  provides.erase(provided);
  if (!provides.empty()) return;
  closure->second.erase(op);
  if (closure->second.empty()) steps_.erase(closure);
  cost_us_ -= graph_.ops[op].cost_us;
  for (const BufferId input : graph_.ops[op].inputs) {
    if (!graph_.buffers[input].resident) RemoveAccess(input, slot);
  }
}

void PlanState::DropUnread() {
  // What goes may have been the last reader of something else, so until nothing goes any more. touched_ grows
  // meanwhile.
  bool again = true;
  while (again) {
    again = false;
    for (size_t t = 0; t < touched_.size(); ++t) {
      const BufferId b = touched_[t];
      const Life& life = lives_[b];
      for (size_t i = 1; i < life.starts.size(); ++i) {
        const auto first = std::lower_bound(life.accesses.begin(), life.accesses.end(), life.starts[i],
                                            [](const Access& access, int slot) { return access.slot < slot; });
        const bool read =
            first != life.accesses.end() && (i + 1 == life.starts.size() || first->slot < life.starts[i + 1]);
        if (read) continue;
        Retain(b, OpOfSlot(life.starts[i]));
        again = true;
        --i;
      }
    }
  }
}

void PlanState::Commit() {
  DropUnread();
  for (const BufferId b : touched_) {
    AddContribution(b, 1);
    MarkDirty(b);
    saved_[b].touched = false;
  }
  RefreshDirty();
}

void PlanState::Undo() {
  for (const BufferId b : touched_) {
    AddContribution(b, -1);
    MarkDirty(b);
    lives_[b] = std::move(saved_[b].life);
    AddContribution(b, 1);
    MarkDirty(b);
  }
  for (auto& [before, steps] : saved_steps_) {
    dirty_closures_.push_back(before);
    if (steps.empty()) {
      steps_.erase(before);
    } else {
      steps_[before] = std::move(steps);
    }
  }
  cost_us_ = saved_cost_us_;
  RefreshDirty();
  touched_.clear();
  saved_steps_.clear();
}

void PlanState::RefreshDirty() {
  SortUnique(&dirty_ops_);
  for (const OpId op : dirty_ops_) {
    const int64_t relief = Relief(op);
    tree_.Add(OpSlot(op), OpSlot(op), relief_[op] - relief);
    relief_[op] = relief;
  }
  dirty_ops_.clear();
  SortUnique(&dirty_closures_);
  for (const OpId before : dirty_closures_) {
    const int64_t correction = Correction(before);
    tree_.Add(ClosureSlot(before), ClosureSlot(before), correction - correction_[before]);
    correction_[before] = correction;
  }
  dirty_closures_.clear();
}

int64_t PlanState::Relief(OpId op) const {
  const MemOp& o = graph_.ops[op];
  if (o.forwardable.empty()) return 0;
  std::vector<int64_t> dying;
  for (const BufferId in : o.forwardable) {
    if (!graph_.buffers[in].resident && EndOf(in, OpSlot(op)) == OpSlot(op)) dying.push_back(graph_.buffers[in].bytes);
  }
  int64_t relief = 0;
  for (const BufferId out : o.outputs) {
    if (graph_.buffers[out].resident) continue;
    const auto same = std::find(dying.begin(), dying.end(), graph_.buffers[out].bytes);
    if (same == dying.end()) continue;
    relief += *same;
    dying.erase(same);
  }
  return relief;
}

int64_t PlanState::Correction(OpId before) const {
  const auto found = steps_.find(before);
  if (found == steps_.end()) return 0;
  const Steps& steps = found->second;
  const int slot = ClosureSlot(before);
  // Bytes by which the closure's plain sum must be changed while each step runs; see the header.
  std::map<BufferId, OpId> last_reader;  // of instances that end in this slot
  int64_t unmade = 0;
  for (const auto& [op, provides] : steps) {
    for (const BufferId b : graph_.ops[op].inputs) {
      if (!graph_.buffers[b].resident && EndOf(b, slot) == slot) last_reader[b] = op;
    }
    for (const BufferId b : provides) unmade += graph_.buffers[b].bytes;
  }
  int64_t worst = 0;
  bool first = true;
  int64_t freed = 0;
  for (const auto& [op, provides] : steps) {
    const MemOp& o = graph_.ops[op];
    for (const BufferId b : provides) unmade -= graph_.buffers[b].bytes;
    int64_t during = o.workspace_bytes - unmade - freed;
    std::vector<int64_t> dying;
    for (const BufferId b : o.inputs) {
      const auto reader = last_reader.find(b);
      if (reader == last_reader.end() || reader->second != op) continue;
      freed += graph_.buffers[b].bytes;
      if (std::find(o.forwardable.begin(), o.forwardable.end(), b) != o.forwardable.end()) {
        dying.push_back(graph_.buffers[b].bytes);
      }
    }
    for (const BufferId b : o.outputs) {
      if (graph_.buffers[b].resident) continue;
      if (!std::binary_search(provides.begin(), provides.end(), b)) during += graph_.buffers[b].bytes;
      const auto same = std::find(dying.begin(), dying.end(), graph_.buffers[b].bytes);
      if (same == dying.end()) continue;
      during -= *same;
      dying.erase(same);
    }
    if (first || during > worst) worst = during;
    first = false;
  }
  return worst;
}

Plan PlanState::ToPlan() const {
  Plan plan;
  for (const auto& [before, steps] : steps_) {
    for (const auto& [op, provides] : steps) plan.steps.push_back({before, op, provides});
  }
  return plan;
}

}  // namespace lms
