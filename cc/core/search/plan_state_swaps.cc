// Of PlanState: how a buffer may be swapped, and what is promised to it.

#include <algorithm>

#include "cc/core/search/plan_state.h"

namespace lms {
namespace {

// The op behind which the buffer may go out, if `opens` is the slot in which it is used last. What is used in a closure
// slot may go out while its op runs.
OpId UsedUntil(int opens) { return IsClosureSlot(opens) ? OpOfSlot(opens) - 1 : OpOfSlot(opens); }

}  // namespace

double PlanState::Cost(BufferId buffer, const LinkTime::Promise& promise) const {
  return promise.stall_us + link_->link().compute_us_per_byte * static_cast<double>(graph_->buffers[buffer].bytes);
}

PlanState::SwapWay PlanState::FindSwap(BufferId buffer, int opens, OpId before, OpId by, OpId at) const {
  const Life& life = lives_[buffer];
  const int64_t bytes = graph_->buffers[buffer].bytes;
  SwapWay way;
  const OpId from = UsedUntil(opens);
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

// The link's time is promised as the transfers follow each other: swap-outs from the first one on, swap-ins from the
// last one back.
void PlanState::LoadSwaps(const Plan& plan) {
  if (plan.swap_outs.empty()) return;
  std::vector<OpId> by(graph_->buffers.size(), kNone);
  std::vector<LinkTime::Promise> outs(graph_->buffers.size());
  for (const SwapOut& swap : plan.swap_outs) {
    by[swap.buffer] = swap.by;
    const int opens = LastNeededBefore(swap.buffer, OpSlot(swap.by));
    outs[swap.buffer] = link_->Out(graph_->buffers[swap.buffer].bytes, UsedUntil(opens), swap.by, nullptr);
    link_->Take(outs[swap.buffer]);
  }
  for (auto swap = plan.swap_ins.rbegin(); swap != plan.swap_ins.rend(); ++swap) {
    const BufferId b = swap->buffer;
    const int use = FirstReadFrom(b, ClosureSlot(swap->before));
    const OpId before = use < 0 ? swap->before : OpOfSlot(use);
    SwapWay way;
    way.by = by[b];
    way.at = swap->before;
    if (way.by != kNone) {
      link_->GiveBack(outs[b]);  // Swap() takes it
      way.out = std::move(outs[b]);
    }
    way.in = link_->In(graph_->buffers[b].bytes, before, swap->before, swap->before, nullptr);
    Swap(b, way);
    by[b] = kNone;  // it is out
  }
  for (const SwapOut& swap : plan.swap_outs) {
    if (by[swap.buffer] != kNone) link_->GiveBack(outs[swap.buffer]);  // it never comes back
  }
}

}  // namespace lms
