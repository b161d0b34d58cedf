#include "cc/core/search/means_recompute.h"

#include <cmath>
#include <cstddef>
#include <limits>

namespace lms {
namespace {

constexpr size_t kMostEarly = 16;  // recomputations that gather where an excess ends: more are slow to simulate

}  // namespace

bool RecomputeMeans::Serves(BufferId b) const {
  const MemBuffer& buffer = state_.graph().buffers[b];
  return buffer.evictable && !buffer.resident && state_.graph().ops[buffer.producer].recomputable;
}

double RecomputeMeans::Score(const EvictionRun& run, const Excess& excess, const Gap& gap,
                             const Closure& closure) const {
  const MemGraph& graph = state_.graph();
  const int last = ClosureSlot(gap.before) - 1;
  double gain = excess.Gain(graph.buffers[gap.buffer].bytes, gap.opens + 1, last);
  for (const BufferId kept : closure.kept) {
    const int until = state_.AliveUntil(kept, last + 1);
    gain -= static_cast<double>(graph.buffers[kept].bytes) * excess.Count(until + 1, last + 1);
  }
  return ScoreOf(closure.cost_us + kNodeCostUs * static_cast<double>(closure.recomputed.size()), gain, run.rule);
}

double RecomputeMeans::Weigh(const EvictionRun& run, const Excess& excess, const Gap& gap) {
  const Closure& closure = finder_.Find(gap.buffer, gap.before, gap.rule);
  state_.AddWork(4 * finder_.looked_at());
  return closure.possible ? Score(run, excess, gap, closure) : std::numeric_limits<double>::infinity();
}

void RecomputeMeans::Add(const EvictionRun& run, const Excess& excess, Gap gap, std::vector<Gap>* gaps) {
  gap.rule.keep_ratio = run.rule.keep_ratio;
  gap.rule.limit_bytes = run.limit;
  gap.score = Weigh(run, excess, gap);
  if (!std::isfinite(gap.score)) {
    // What keeping inputs cannot do recomputing them may, and the other way round.
    gap.rule.keep_ratio = gap.rule.keep_ratio < 1 ? 1 : 0;
    gap.score = Weigh(run, excess, gap);
  }
  Offer(run, gap, gaps);
}

void RecomputeMeans::AddGaps(const EvictionRun& run, const Excess& excess, const Gap& gap, std::vector<Gap>* gaps) {
  if (!run.rule.recompute) return;
  Add(run, excess, gap, gaps);
  // Where the excess ends long before the next read, inputs may still be there at its end.
  Gap early = gap;
  early.early = true;
  early.before = OpOfSlot(excess.LastUpTo(ClosureSlot(gap.before) - 1)) + 1;
  if (early.before < gap.before && state_.steps(early.before).size() < kMostEarly) Add(run, excess, early, gaps);
}

bool RecomputeMeans::Evict(const EvictionRun& run, const Excess& excess, const Gap& gap, bool anyway) {
  if (gap.early && state_.steps(gap.before).size() >= kMostEarly) return false;
  const Closure& closure = finder_.Find(gap.buffer, gap.before, gap.rule);
  state_.AddWork(4 * finder_.looked_at());
  if (!closure.possible) return false;
  if (run.rule.noise == 0 && !anyway && Score(run, excess, gap, closure) > kMostWorse * gap.score) return false;
  const int closes = ClosureSlot(gap.before);
  const int64_t before = state_.bytes().Max(closes, closes);
  state_.Begin();
  for (const BufferId b : closure.recomputed) state_.Recompute(b, gap.before);
  state_.Commit();
  const int64_t after = state_.bytes().Max(closes, closes);
  if (after > run.limit && before <= run.limit && !anyway) {
    state_.Undo();  // the closure itself does not fit there
    return false;
  }
  return true;
}

}  // namespace lms
