#include "cc/core/search/hinted_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cc/core/graph/swap_link.h"
#include "cc/core/graph/turn.h"
#include "cc/core/search/closure.h"

namespace lms {
namespace {

constexpr int64_t kLeastBytes = 1024;  // smaller ones are not worth a node, unless they were named
constexpr double kKeepRatio = 0.25;    // of inputs of a tensor that was named itself
constexpr int kMostOps = 1 << 20;

bool Evicts(const MemBuffer& buffer) {
  const bool recompute = buffer.hint == Hint::kRecompute && buffer.evictable;
  const bool swap = buffer.hint == Hint::kSwap && buffer.swappable;
  return (recompute || swap) && !buffer.resident && buffer.producer != kNone;
}

class Forcer {
 public:
  explicit Forcer(PlanState* state)
      : state_(*state), graph_(state->graph()), turn_(OpSlot(TurnOf(state->graph()))), finder_(*state) {}

  void Force(BufferId b, AppliedHints* applied) {
    const MemBuffer& buffer = graph_.buffers[b];
    const Gap gap = FindGap(b, buffer.hint_named);
    if (gap.before == kNone) {
      if (buffer.hint_named) applied->refused.push_back({b, "it is not held for long between two uses"});
      return;
    }
    std::string reason = buffer.hint == Hint::kSwap ? Swap(b, gap) : Recompute(b, gap);
    if (reason.empty()) {
      applied->evicted.push_back(b);
    } else {
      applied->refused.push_back({b, std::move(reason)});
    }
  }

 private:
  struct Gap {
    int opens = -1;
    OpId before = kNone;
  };

  Gap FindGap(BufferId b, bool widest) const {
    const PlanState::Life& life = state_.life(b);
    Gap found;
    int width = 0;
    int opens = -1;
    size_t next_start = 0;
    for (const PlanState::Access& access : life.accesses) {
      while (next_start < life.starts.size() && life.starts[next_start] <= access.slot) {
        opens = std::max(opens, life.starts[next_start++]);
      }
      if (access.slot >= state_.slots() - 1) break;  // what is returned stays
      const OpId before = OpOfSlot(access.slot);
      const int gap = ClosureSlot(before) - opens - 1;
      if (opens >= 0 && gap > 0) {
        if (opens <= turn_ && access.slot > turn_) return {opens, before};
        if (widest && gap > width) {
          width = gap;
          found = {opens, before};
        }
      }
      opens = access.slot;
    }
    return found;
  }

  std::string Recompute(BufferId b, const Gap& gap) {
    ClosureRule rule;
    rule.max_ops = kMostOps;
    rule.hinted_only = !graph_.buffers[b].hint_named;
    rule.keep_ratio = rule.hinted_only ? 0 : kKeepRatio;
    if (!Find(b, gap, rule)) {
      rule.hinted_only = true;
      rule.keep_ratio = 0;
      if (!Find(b, gap, rule)) return WhyNot(b, gap.before);
    }
    return "";
  }

  bool Find(BufferId b, const Gap& gap, const ClosureRule& rule) {
    const Closure& closure = finder_.Find(b, gap.before, rule);
    state_.AddWork(4 * finder_.looked_at());
    if (!closure.possible) return false;
    state_.Begin();
    for (const BufferId again : closure.recomputed) state_.Recompute(again, gap.before);
    state_.Commit();
    return true;
  }

  std::string WhyNot(BufferId b, OpId before) const {
    for (const BufferId input : graph_.ops[graph_.buffers[b].producer].inputs) {
      const MemBuffer& buffer = graph_.buffers[input];
      if (buffer.no_more_readers) return "it is made of a term of a sum whose order depends on who else holds it";
      for (const OpId writer : buffer.overwritten_by) {
        if (writer < before) return "it is made of " + buffer.name + ", which has been overwritten by then";
      }
    }
    return "what it is made of cannot be had again";
  }

  std::string Swap(BufferId b, const Gap& gap) {
    if (!state_.MaySwap(b)) return "there is nowhere to swap it to";
    if (state_.stored_bytes() + StoredBytes(graph_.buffers[b].bytes) > state_.link().link().capacity_bytes) {
      return "there is no more room where it would be swapped to";
    }
    const PlanState::SwapWay way = state_.FindSwap(b, gap.opens, gap.before, kNone, kNone);
    if (way.by != kNone && way.by >= way.at) return "it is used again before it could be out";
    state_.Begin();
    state_.Swap(b, way);
    state_.Commit();
    return "";
  }

  PlanState& state_;
  const MemGraph& graph_;
  const int turn_;
  ClosureFinder finder_;
};

}  // namespace

bool HasEvictionHints(const MemGraph& graph) { return std::any_of(graph.buffers.begin(), graph.buffers.end(), Evicts); }

AppliedHints ApplyHints(PlanState* state) {
  const MemGraph& graph = state->graph();
  std::vector<BufferId> hinted;
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    if (Evicts(buffer) && (buffer.hint_named || buffer.bytes >= kLeastBytes))
      hinted.push_back(static_cast<BufferId>(b));
  }
  if (hinted.empty()) return {};
  // Readers before what they read: a recomputation then finds the hinted inputs alive, and has them recomputed next.
  std::sort(hinted.begin(), hinted.end(), [&graph](BufferId a, BufferId b) {
    return std::make_tuple(-graph.buffers[a].producer, a) < std::make_tuple(-graph.buffers[b].producer, b);
  });
  Forcer forcer(state);
  AppliedHints applied;
  for (const BufferId b : hinted) {
    forcer.Force(b, &applied);
    state->ForgetHistory();
  }
  state->Pin();
  return applied;
}

}  // namespace lms
