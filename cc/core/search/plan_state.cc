#include "cc/core/search/plan_state.h"

#include <algorithm>
#include <tuple>

#include "cc/core/base/sort_unique.h"

namespace lms {
namespace {

// Inputs that an op may take over: more of them are counted as work.
constexpr size_t kFewForwardable = 64;

// Index of the last start at or before the slot, or -1.
int StartIndex(const PlanState::Life& life, int slot) {
  const auto after = std::upper_bound(life.starts.begin(), life.starts.end(), slot);
  return static_cast<int>(after - life.starts.begin()) - 1;
}

template <typename Accesses>
auto FirstAccess(Accesses* accesses, int slot) {
  return std::lower_bound(accesses->begin(), accesses->end(), slot,
                          [](const PlanState::Access& access, int s) { return access.slot < s; });
}

// The op's step among those of a closure slot, or where it belongs.
template <typename Steps>
auto FindStep(Steps* steps, OpId op) {
  return std::lower_bound(steps->begin(), steps->end(), op, [](const PlanState::Step& s, OpId o) { return s.op < o; });
}

// Last slot in which the instance with this start index is needed.
int InstanceEnd(const PlanState::Life& life, int index) {
  const int start = life.starts[index];
  auto end = life.accesses.end();
  if (index + 1 < static_cast<int>(life.starts.size())) {
    end = FirstAccess(&life.accesses, life.starts[index + 1]);
  }
  const bool last = index + 1 == static_cast<int>(life.starts.size());
  const bool held = life.held_until >= start && (last || life.held_until < life.starts[index + 1]);
  const int least = held ? life.held_until : start;
  return end == life.accesses.begin() ? least : std::max(least, (end - 1)->slot);
}

}  // namespace

PlanState::PlanState(const MemGraph& graph, bool move, const SwapLink& link)
    : graph_(&graph),
      move_(move),
      slots_(2 * static_cast<int>(graph.ops.size()) + 1),  // the last one is the end of the step
      tree_(slots_),
      lives_(graph.buffers.size()),
      steps_(graph.ops.size()),
      moved_(graph.ops.size(), false),
      relief_(graph.ops.size(), 0),
      correction_(graph.ops.size(), 0),
      touched_in_(graph.buffers.size(), 0),
      steps_touched_in_(graph.ops.size(), 0) {
  if (link.usable()) link_.emplace(graph, link);
  std::vector<int> readers(graph.buffers.size(), 0);
  for (const MemOp& op : graph.ops) {
    for (const BufferId b : op.inputs) ++readers[b];
  }
  for (size_t b = 0; b < lives_.size(); ++b) {
    if (!graph.buffers[b].resident) lives_[b].accesses.reserve(readers[b] + (graph.buffers[b].escapes ? 1 : 0));
  }
  std::vector<int64_t> change(slots_ + 1, 0);  // of bytes from slot to slot
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const MemOp& op = graph.ops[i];
    const int slot = OpSlot(static_cast<OpId>(i));
    for (const BufferId b : op.outputs) {
      if (!graph.buffers[b].resident) lives_[b].starts.push_back(slot);
    }
    for (const BufferId b : op.inputs) {
      if (!graph.buffers[b].resident) lives_[b].accesses.push_back({slot, 1});
    }
    change[slot] += op.workspace_bytes;
    change[slot + 1] -= op.workspace_bytes;
  }
  for (size_t b = 0; b < lives_.size(); ++b) {
    if (graph.buffers[b].resident) continue;
    if (graph.buffers[b].escapes) lives_[b].accesses.push_back({slots_ - 1, 1});
    change[lives_[b].starts[0]] += graph.buffers[b].bytes;
    change[InstanceEnd(lives_[b], 0) + 1] -= graph.buffers[b].bytes;
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const OpId op = static_cast<OpId>(i);
    relief_[op] = Relief(op);
    change[OpSlot(op)] -= relief_[op];
    change[OpSlot(op) + 1] += relief_[op];
  }
  std::vector<int64_t> bytes(slots_);
  int64_t now = 0;
  for (int slot = 0; slot < slots_; ++slot) bytes[slot] = now += change[slot];
  tree_ = RangeTree(bytes);
  FindLatestMoves();
}

bool PlanState::HasStep(OpId before, OpId op) const {
  const std::vector<Step>& steps = steps_[before];
  const auto at = FindStep(&steps, op);
  return at != steps.end() && at->op == op;
}

int PlanState::EndOf(BufferId buffer, int slot) const {
  const Life& life = lives_[buffer];
  const int index = StartIndex(life, slot);
  return index < 0 ? -1 : InstanceEnd(life, index);
}

bool PlanState::Alive(BufferId buffer, int slot) const {
  return graph_->buffers[buffer].resident || EndOf(buffer, slot) >= slot;
}

int PlanState::AliveUntil(BufferId buffer, int slot) const {
  return graph_->buffers[buffer].resident ? slot : std::min(slot, EndOf(buffer, slot));
}

int PlanState::FirstReadFrom(BufferId buffer, int slot) const {
  const auto access = FirstAccess(&lives_[buffer].accesses, slot);
  return access == lives_[buffer].accesses.end() ? -1 : access->slot;
}

int PlanState::LastNeededBefore(BufferId buffer, int slot) const {
  const Life& life = lives_[buffer];
  const auto access = FirstAccess(&life.accesses, slot);
  const auto start = std::lower_bound(life.starts.begin(), life.starts.end(), slot);
  return std::max({access == life.accesses.begin() ? -1 : (access - 1)->slot,
                   start == life.starts.begin() ? -1 : *(start - 1), life.held_until < slot ? life.held_until : -1});
}

void PlanState::AddContribution(BufferId buffer, int sign) {
  const Life& life = lives_[buffer];
  const int64_t bytes = sign * graph_->buffers[buffer].bytes;
  work_ += 4 * static_cast<int64_t>(life.starts.size());
  for (int i = 0; i < static_cast<int>(life.starts.size()); ++i) {
    tree_.Add(life.starts[i], InstanceEnd(life, i), bytes);
  }
}

void PlanState::MarkDirty(BufferId buffer) {
  for (const Access& access : lives_[buffer].accesses) {
    if (access.slot == slots_ - 1) continue;
    (IsClosureSlot(access.slot) ? dirty_closures_ : dirty_ops_).push_back(OpOfSlot(access.slot));
  }
}

void PlanState::Touch(BufferId buffer) {
  if (touched_in_[buffer] == change_) return;
  touched_in_[buffer] = change_;
  touched_.push_back(buffer);
  move_candidates_.insert(graph_->buffers[buffer].producer);
  AddContribution(buffer, -1);
  MarkDirty(buffer);
  history_.back().lives.emplace_back(buffer, lives_[buffer]);
}

void PlanState::TouchSteps(OpId before) {
  if (steps_touched_in_[before] == change_) return;
  steps_touched_in_[before] = change_;
  dirty_closures_.push_back(before);
  history_.back().steps.emplace_back(before, steps_[before]);
}

void PlanState::AddAccess(BufferId buffer, int slot) {
  Touch(buffer);
  move_candidates_.insert(graph_->buffers[buffer].producer);
  std::vector<Access>& accesses = lives_[buffer].accesses;
  const auto at = FirstAccess(&accesses, slot);
  if (at != accesses.end() && at->slot == slot) {
    ++at->count;
  } else {
    accesses.insert(at, {slot, 1});
  }
}

void PlanState::RemoveAccess(BufferId buffer, int slot) {
  Touch(buffer);
  move_candidates_.insert(graph_->buffers[buffer].producer);
  std::vector<Access>& accesses = lives_[buffer].accesses;
  const auto at = FirstAccess(&accesses, slot);
  if (at != accesses.end() && at->slot == slot && --at->count == 0) accesses.erase(at);
}

void PlanState::ReadInputs(OpId op, int slot) {
  for (const BufferId input : graph_->ops[op].inputs) {
    if (!graph_->buffers[input].resident) AddAccess(input, slot);
  }
}

void PlanState::UnreadInputs(OpId op, int slot) {
  for (const BufferId input : graph_->ops[op].inputs) {
    if (!graph_->buffers[input].resident) RemoveAccess(input, slot);
  }
}

void PlanState::Pin() {
  pinned_.clear();
  for (size_t b = 0; b < lives_.size(); ++b) {
    for (const int start : lives_[b].starts) {
      if (IsClosureSlot(start)) pinned_.emplace_back(static_cast<BufferId>(b), start);
    }
  }
}

bool PlanState::Pinned(BufferId buffer) const {
  const auto at = std::lower_bound(pinned_.begin(), pinned_.end(), std::make_pair(buffer, 0));
  return at != pinned_.end() && at->first == buffer;
}

bool PlanState::PinnedAt(BufferId buffer, int slot) const {
  return !pinned_.empty() && std::binary_search(pinned_.begin(), pinned_.end(), std::make_pair(buffer, slot));
}

void PlanState::Begin() {
  ++change_;
  touched_.clear();
  history_.emplace_back();
  history_.back().cost_us = cost_us_;
  history_.back().swapped_buffers = swapped_buffers_;
  history_.back().stored_bytes = stored_bytes_;
}

void PlanState::Recompute(BufferId buffer, OpId before) {
  const int slot = ClosureSlot(before);
  if (std::binary_search(lives_[buffer].starts.begin(), lives_[buffer].starts.end(), slot)) return;
  Touch(buffer);
  std::vector<int>& starts = lives_[buffer].starts;
  starts.insert(std::upper_bound(starts.begin(), starts.end(), slot), slot);
  TouchSteps(before);
  const OpId op = graph_->buffers[buffer].producer;
  move_candidates_.insert(op);
  std::vector<Step>& steps = steps_[before];
  auto step = FindStep(&steps, op);
  const bool new_step = step == steps.end() || step->op != op;
  if (new_step) step = steps.insert(step, {op, {}});
  step->provides.insert(std::upper_bound(step->provides.begin(), step->provides.end(), buffer), buffer);
  if (!new_step) return;
  cost_us_ += graph_->ops[op].cost_us;
  ReadInputs(op, slot);
}

void PlanState::Retain(BufferId buffer, OpId before) {
  if (RetainSwapIn(buffer, ClosureSlot(before))) return;
  const OpId op = graph_->buffers[buffer].producer;
  std::vector<Step>& steps = steps_[before];
  const auto step = FindStep(&steps, op);
  if (step == steps.end() || step->op != op) return;
  const auto provided = std::find(step->provides.begin(), step->provides.end(), buffer);
  if (provided == step->provides.end()) return;
  const int slot = ClosureSlot(before);
  TouchSteps(before);
  Touch(buffer);
  move_candidates_.insert(op);
  std::vector<int>& starts = lives_[buffer].starts;
  starts.erase(std::find(starts.begin(), starts.end(), slot));
  step->provides.erase(provided);
  if (!step->provides.empty()) return;
  steps.erase(step);
  cost_us_ -= graph_->ops[op].cost_us;
  UnreadInputs(op, slot);
}

bool PlanState::DropUnread() {
  // What goes may have been the last reader of something else, so until nothing goes any more. touched_ grows
  // meanwhile. From its end, as most readers were touched after what they read.
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    for (size_t t = touched_.size(); t-- > 0;) {
      const BufferId b = touched_[t];
      const Life& life = lives_[b];
      for (size_t i = 0; i < life.starts.size(); ++i) {
        if (!IsClosureSlot(life.starts[i])) continue;  // its own place
        const auto first = FirstAccess(&life.accesses, life.starts[i]);
        const bool read =
            first != life.accesses.end() && (i + 1 == life.starts.size() || first->slot < life.starts[i + 1]);
        if (read) continue;
        Retain(b, OpOfSlot(life.starts[i]));
        any = again = true;
        --i;
      }
    }
  }
  return any;
}

void PlanState::Commit() {
  do {
    ResolveMoves();
  } while (DropUnread());
  for (const BufferId b : touched_) {
    AddContribution(b, 1);
    MarkDirty(b);
  }
  RefreshDirty();
}

void PlanState::Undo() {
  Change& change = history_.back();
  for (const OpId op : change.flipped) {
    moved_[op] = !moved_[op];
    tree_.Add(OpSlot(op), OpSlot(op), moved_[op] ? -graph_->ops[op].workspace_bytes : graph_->ops[op].workspace_bytes);
    dirty_ops_.push_back(op);
  }
  // All promises of the change are given back before the old ones are taken again: they may be of the same time.
  for (const auto& [b, life] : change.lives) {
    if (lives_[b].held_until >= 0) link_->GiveBack(lives_[b].swapped_out);
    for (const SwappedIn& in : lives_[b].swapped_in) link_->GiveBack(in.promise);
  }
  for (auto& [b, life] : change.lives) {
    AddContribution(b, -1);
    MarkDirty(b);
    lives_[b] = std::move(life);
    if (lives_[b].held_until >= 0) link_->Take(lives_[b].swapped_out);
    for (const SwappedIn& in : lives_[b].swapped_in) link_->Take(in.promise);
    AddContribution(b, 1);
    MarkDirty(b);
  }
  for (auto& [before, steps] : change.steps) {
    dirty_closures_.push_back(before);
    steps_[before] = std::move(steps);
  }
  cost_us_ = change.cost_us;
  swapped_buffers_ = change.swapped_buffers;
  stored_bytes_ = change.stored_bytes;
  history_.pop_back();
  RefreshDirty();
}

void PlanState::UndoAll() {
  while (!history_.empty()) Undo();
}

std::vector<BufferId> PlanState::Changed() const {
  std::vector<BufferId> changed;
  for (const Change& change : history_) {
    for (const auto& [b, life] : change.lives) changed.push_back(b);
  }
  SortUnique(&changed);
  return changed;
}

void PlanState::RefreshDirty() {
  SortUnique(&dirty_ops_);
  for (const OpId op : dirty_ops_) {
    if (graph_->ops[op].forwardable.size() > kFewForwardable) {
      work_ += static_cast<int64_t>(graph_->ops[op].forwardable.size());
    }
    const int64_t relief = Relief(op);
    tree_.Add(OpSlot(op), OpSlot(op), relief_[op] - relief);
    relief_[op] = relief;
  }
  dirty_ops_.clear();
  SortUnique(&dirty_closures_);
  for (const OpId before : dirty_closures_) {
    work_ += 8 * static_cast<int64_t>(steps_[before].size());
    const int64_t correction = Correction(before);
    tree_.Add(ClosureSlot(before), ClosureSlot(before), correction - correction_[before]);
    correction_[before] = correction;
  }
  dirty_closures_.clear();
}

void PlanState::Load(const Plan& plan) {
  Begin();
  for (size_t b = 0; b < lives_.size(); ++b) {
    while (!lives_[b].swapped_in.empty()) {
      RetainSwapIn(static_cast<BufferId>(b), lives_[b].swapped_in.front().slot);
    }
  }
  for (OpId before = 0; before < static_cast<OpId>(steps_.size()); ++before) {
    const std::vector<Step> old = steps_[before];
    for (const Step& step : old) {
      for (const BufferId b : step.provides) Retain(b, before);
    }
  }
  for (const RecomputeStep& step : plan.steps) {
    for (const BufferId b : step.provides) Recompute(b, step.before);
  }
  LoadSwaps(plan);
  Commit();
}

Plan PlanState::ToPlan() const {
  Plan plan;
  std::vector<bool> ran(graph_->ops.size(), false);
  for (OpId before = 0; before < static_cast<OpId>(steps_.size()); ++before) {
    for (const Step& step : steps_[before]) {
      plan.steps.push_back({before, step.op, step.provides, moved_[step.op] && !ran[step.op]});
      ran[step.op] = true;
    }
  }
  if (swapped_buffers_ == 0) return plan;
  for (size_t b = 0; b < lives_.size(); ++b) {
    const BufferId buffer = static_cast<BufferId>(b);
    if (lives_[b].held_until >= 0) plan.swap_outs.push_back({OpOfSlot(lives_[b].held_until), buffer});
    for (const SwappedIn& in : lives_[b].swapped_in) plan.swap_ins.push_back({OpOfSlot(in.slot), buffer});
  }
  std::sort(plan.swap_outs.begin(), plan.swap_outs.end(),
            [](const SwapOut& a, const SwapOut& b) { return std::tie(a.by, a.buffer) < std::tie(b.by, b.buffer); });
  std::sort(plan.swap_ins.begin(), plan.swap_ins.end(), [](const SwapIn& a, const SwapIn& b) {
    return std::tie(a.before, a.buffer) < std::tie(b.before, b.buffer);
  });
  return plan;
}

}  // namespace lms
