#include "cc/core/plan_state.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace lms {
namespace {

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

void SortUnique(std::vector<OpId>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
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

// Whatever waits for an op by a control edge must find it done. Views wait too, and whoever waits for them; who reads
// the op's results, through views or not, is known to the lives.
void PlanState::FindLatestMoves() {
  // Per free op: those of the ops that wait for it, directly or through other free ops, that come first. A few are
  // enough: the last one of a full list stands for all after it.
  constexpr size_t kFew = 8;
  const OpId n = static_cast<OpId>(graph_->ops.size());
  std::vector<std::vector<OpId>> waiting(n);
  latest_move_.assign(n, n);
  // The dependents of op are dependents[first[op]] to dependents[first[op + 1] - 1].
  std::vector<int> first(n + 1, 0);
  for (const MemOp& op : graph_->ops) {
    for (const OpId dep : op.deps) ++first[dep];
  }
  for (OpId op = 0; op < n; ++op) first[op + 1] += first[op];
  std::vector<OpId> dependents(first[n]);
  for (OpId op = n - 1; op >= 0; --op) {
    for (const OpId dep : graph_->ops[op].deps) dependents[--first[dep]] = op;
  }
  const auto reads = [this](OpId reader, OpId producer) {
    const std::vector<BufferId>& inputs = graph_->ops[reader].inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](BufferId b) { return graph_->buffers[b].producer == producer; });
  };
  std::vector<OpId> all;
  for (OpId op = n - 1; op >= 0; --op) {
    all.clear();
    for (int i = first[op]; i < first[op + 1]; ++i) {
      const OpId dependent = dependents[i];
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
      if (!reads(all[i], op) || i + 1 == kFew) latest_move_[op] = all[i];
    }
  }
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

double PlanState::Cost(BufferId buffer, const LinkTime::Promise& promise) const {
  return promise.stall_us + link_->link().compute_us_per_byte * static_cast<double>(graph_->buffers[buffer].bytes);
}

PlanState::SwapWay PlanState::FindSwap(BufferId buffer, int opens, OpId before, OpId by, OpId at) const {
  const Life& life = lives_[buffer];
  const int64_t bytes = graph_->buffers[buffer].bytes;
  SwapWay way;
  // What is used last in a closure slot may go out while its op runs.
  const OpId from = IsClosureSlot(opens) ? OpOfSlot(opens) - 1 : OpOfSlot(opens);
  OpId not_before = from + 2;
  if (life.held_until < 0 || life.held_until > opens) {
    way.out = link_->Out(bytes, from, by == kNone ? kNone : std::max(by, from + 1), &way.by);
    way.cost_us += Cost(buffer, way.out);
    way.link_us += link_->link().OutUs(bytes);
    not_before = way.by + 1;
  }
  not_before = std::min(not_before, before);
  way.in = link_->In(bytes, before, at == kNone ? kNone : std::clamp(at, not_before, before), not_before, &way.at);
  way.cost_us += Cost(buffer, way.in);
  way.link_us += link_->link().InUs(bytes);
  return way;
}

void PlanState::Swap(BufferId buffer, const SwapWay& way) {
  const int slot = ClosureSlot(way.at);
  Life& life = lives_[buffer];
  if (std::binary_search(life.starts.begin(), life.starts.end(), slot)) return;
  Touch(buffer);
  if (way.by != kNone) {
    if (life.held_until >= 0) DropSwapOut(buffer);
    life.held_until = OpSlot(way.by);
    life.swapped_out = way.out;
    link_->Take(way.out);
    cost_us_ += Cost(buffer, way.out);
    ++swapped_buffers_;
    stored_bytes_ += StoredBytes(graph_->buffers[buffer].bytes);
  }
  life.starts.insert(std::upper_bound(life.starts.begin(), life.starts.end(), slot), slot);
  const auto at = std::find_if(life.swapped_in.begin(), life.swapped_in.end(),
                               [slot](const SwappedIn& in) { return in.slot > slot; });
  life.swapped_in.insert(at, {slot, way.in});
  link_->Take(way.in);
  cost_us_ += Cost(buffer, way.in);
}

void PlanState::DropSwapOut(BufferId buffer) {
  Life& life = lives_[buffer];
  link_->GiveBack(life.swapped_out);
  cost_us_ -= Cost(buffer, life.swapped_out);
  life.held_until = -1;
  life.swapped_out = {};
  --swapped_buffers_;
  stored_bytes_ -= StoredBytes(graph_->buffers[buffer].bytes);
}

const PlanState::SwappedIn* PlanState::SwappedInAt(BufferId buffer, int slot) const {
  const std::vector<SwappedIn>& swapped_in = lives_[buffer].swapped_in;
  const auto in = std::find_if(swapped_in.begin(), swapped_in.end(),
                               [slot](const SwappedIn& swapped) { return swapped.slot == slot; });
  return in == swapped_in.end() ? nullptr : &*in;
}

double PlanState::CostOfSwap(BufferId buffer, const SwappedIn& in) const {
  const Life& life = lives_[buffer];
  return Cost(buffer, in.promise) + Cost(buffer, life.swapped_out) / static_cast<double>(life.swapped_in.size());
}

// Takes back the buffer's swap-in of that slot, and its swap-out with the last one; false if there is none.
bool PlanState::RetainSwapIn(BufferId buffer, int slot) {
  Life& life = lives_[buffer];
  const auto in = std::find_if(life.swapped_in.begin(), life.swapped_in.end(),
                               [slot](const SwappedIn& swapped) { return swapped.slot == slot; });
  if (in == life.swapped_in.end()) return false;
  Touch(buffer);
  move_candidates_.insert(graph_->buffers[buffer].producer);
  life.starts.erase(std::find(life.starts.begin(), life.starts.end(), slot));
  link_->GiveBack(in->promise);
  cost_us_ -= Cost(buffer, in->promise);
  life.swapped_in.erase(in);
  if (life.swapped_in.empty()) DropSwapOut(buffer);
  return true;
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
  // meanwhile.
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    for (size_t t = 0; t < touched_.size(); ++t) {
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

bool PlanState::ShouldMove(OpId op) const {
  const MemOp& o = graph_->ops[op];
  if (!move_ || !o.recomputable) return false;
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

int64_t PlanState::Relief(OpId op) const {
  const MemOp& o = graph_->ops[op];
  if (o.forwardable.empty() || moved_[op]) return 0;
  std::vector<int64_t> dying;
  for (const BufferId in : o.forwardable) {
    // What is still going out is not given up.
    if (graph_->buffers[in].resident || lives_[in].held_until == OpSlot(op)) continue;
    if (EndOf(in, OpSlot(op)) == OpSlot(op)) dying.push_back(graph_->buffers[in].bytes);
  }
  int64_t relief = 0;
  for (const BufferId out : o.outputs) {
    if (graph_->buffers[out].resident) continue;
    const auto same = std::find(dying.begin(), dying.end(), graph_->buffers[out].bytes);
    if (same == dying.end()) continue;
    relief += *same;
    dying.erase(same);
  }
  return relief;
}

int64_t PlanState::Correction(OpId before) const {
  const std::vector<Step>& steps = steps_[before];
  if (steps.empty()) return 0;
  const int slot = ClosureSlot(before);
  // Bytes by which the closure's plain sum must be changed while each step runs; see the header.
  std::vector<std::pair<BufferId, OpId>> last_reader;  // of instances that end in this slot
  int64_t unmade = 0;
  for (const Step& step : steps) {
    for (const BufferId b : graph_->ops[step.op].inputs) {
      if (!graph_->buffers[b].resident && EndOf(b, slot) == slot) last_reader.emplace_back(b, step.op);
    }
    for (const BufferId b : step.provides) unmade += graph_->buffers[b].bytes;
  }
  std::sort(last_reader.begin(), last_reader.end());
  const auto dies_at = [&last_reader](BufferId b, OpId op) {
    const auto after =
        std::upper_bound(last_reader.begin(), last_reader.end(), std::make_pair(b, std::numeric_limits<OpId>::max()));
    return after != last_reader.begin() && *(after - 1) == std::make_pair(b, op);
  };
  int64_t worst = 0;
  bool first = true;
  int64_t freed = 0;
  std::vector<int64_t> dying;
  for (const Step& step : steps) {
    const MemOp& o = graph_->ops[step.op];
    for (const BufferId b : step.provides) unmade -= graph_->buffers[b].bytes;
    int64_t during = o.workspace_bytes - unmade - freed;
    dying.clear();
    for (const BufferId b : o.inputs) {
      if (graph_->buffers[b].resident || !dies_at(b, step.op)) continue;
      freed += graph_->buffers[b].bytes;
      if (std::find(o.forwardable.begin(), o.forwardable.end(), b) != o.forwardable.end()) {
        dying.push_back(graph_->buffers[b].bytes);
      }
    }
    for (const BufferId b : o.outputs) {
      if (graph_->buffers[b].resident) continue;
      if (!std::binary_search(step.provides.begin(), step.provides.end(), b)) during += graph_->buffers[b].bytes;
      const auto same = std::find(dying.begin(), dying.end(), graph_->buffers[b].bytes);
      if (same == dying.end()) continue;
      during -= *same;
      dying.erase(same);
    }
    if (first || during > worst) worst = during;
    first = false;
  }
  return worst;
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
  std::vector<OpId> by(plan.swap_outs.empty() ? 0 : graph_->buffers.size(), kNone);
  for (const SwapOut& swap : plan.swap_outs) by[swap.buffer] = swap.by;
  for (const SwapIn& swap : plan.swap_ins) {
    const Life& life = lives_[swap.buffer];
    const auto use = FirstAccess(&life.accesses, ClosureSlot(swap.before));
    const OpId before = use == life.accesses.end() ? swap.before : OpOfSlot(use->slot);
    const int opens =
        by[swap.buffer] == kNone ? life.held_until : LastNeededBefore(swap.buffer, OpSlot(by[swap.buffer]));
    SwapWay way = FindSwap(swap.buffer, opens, std::max(before, swap.before), by[swap.buffer], swap.before);
    way.at = swap.before;
    Swap(swap.buffer, way);
    by[swap.buffer] = kNone;  // it is out
  }
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
