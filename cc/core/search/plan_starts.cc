#include "cc/core/search/plan_starts.h"

#include <algorithm>
#include <utility>

#include "cc/core/graph/repeats.h"
#include "cc/core/search/checkpoint_chain.h"
#include "cc/core/search/delay.h"

namespace lms {
namespace {

constexpr double kHalf = 0.5;
constexpr size_t kRepeats = 4;       // as many alike buffers are a reason for a start that treats them alike
constexpr int64_t kRepeatsWork = 8;  // steps, for each op and buffer
constexpr double kHopeless = 2;      // a chain so many times dearer than the best plan is not refined

bool Always(StartContext*) { return true; }

Tried Evict(const EvictionRule& rule, StartContext* context) {
  const EvictionRule allowed = context->planning.Allowed(rule, context->found);
  return context->eviction.Run(allowed) ? Tried::kUnder : Tried::kOver;
}

// From "keep everything".
PlanStart ByGaps(const EvictionRule& rule, double share = kHalf) {
  return {"gap eviction", share, Always, [rule](StartContext* context) { return Evict(rule, context); }};
}

// Whole stages, again and again, where others have found something far cheaper, are not worth refining.
bool Hopeless(const StartContext& context) {
  return context.best[0].feasible && context.state.cost_us() > kHopeless * context.best[0].cost_us;
}

// The highest level of the chain whose decisions are under the limit; -1 if there is none. The state is left as it was.
int HighestLevel(const CheckpointChain& chain, int64_t limit, PlanState* state) {
  int good = -1;
  int low = chain.LeastLevel();
  int high = chain.levels() - 1;
  while (low <= high) {
    const int middle = low + (high - low) / 2;
    chain.Apply(middle, state);
    const bool under = state->bytes().Max() <= limit;
    state->UndoAll();
    if (under) {
      good = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return good;
}

CheckpointChain* ChainOf(const StartContext& context) {
  return context.planning.Chain(context.limit + context.planning.resident());
}

PlanStart ByChain() {
  return {"checkpoint chain", PlanStart::kWhileThereIsWork,
          [](StartContext* context) {
            // Stages of hundreds of ops make closures that are slow to refine: on huge graphs only where nothing else
            // works.
            const bool huge = context->planning.huge() && context->best[0].feasible;
            return !huge && ChainOf(*context) != nullptr;
          },
          [](StartContext* context) {
            const CheckpointChain& chain = *ChainOf(*context);
            const int level = HighestLevel(chain, context->limit, &context->state);
            context->chain_level = std::max(level, chain.LeastLevel());
            if (level < 0) return Tried::kGivenUp;
            chain.Apply(level, &context->state);
            return Hopeless(*context) ? Tried::kGivenUp : Tried::kUnder;
          },
          /*when_late=*/true};
}

// The chain for so many times the limit, with gap eviction for the rest.
PlanStart ByLooserChain(double slack) {
  const auto level = [slack](const StartContext& context) { return static_cast<int>(slack * context.chain_level); };
  return {"looser checkpoint chain", kHalf,
          [level](StartContext* context) {
            return context->chain_level != kNone && level(*context) < ChainOf(*context)->levels();
          },
          [level](StartContext* context) {
            ChainOf(*context)->Apply(level(*context), &context->state);
            return Hopeless(*context) ? Tried::kGivenUp : Evict(kFirstRules[0], context);
          }};
}

PlanStart ByRepeats() {
  return {"alike buffers alike", kHalf,
          [](StartContext* context) {
            context->alike = FindRepeats(context->planning.graph());
            context->planning.CountSweep(kRepeatsWork);
            return std::any_of(context->alike.begin(), context->alike.end(),
                               [](const auto& group) { return group.size() >= kRepeats; });
          },
          [](StartContext* context) {
            const EvictionRule allowed = context->planning.Allowed(kFirstRules[1], context->found);
            return context->eviction.RunAlike(allowed, context->alike) ? Tried::kUnder : Tried::kOver;
          }};
}

}  // namespace

const std::vector<PlanStart>& PlanStarts() {
  static const auto* const starts = new std::vector<PlanStart>{
      ByGaps(kFirstRules[0], PlanStart::kWhileThereIsWork),
      ByChain(),
      ByLooserChain(1.15),
      ByLooserChain(1.4),
      ByLooserChain(1.8),
      ByLooserChain(2.5),
      ByGaps(kFirstRules[1]),
      ByGaps(kFirstRules[2]),
      ByRepeats(),
      ByGaps({1.0, 0.0}),
      ByGaps({0.7, 0.25}),
      ByGaps({1.4, 0.25}),
      ByGaps({1.0, 1.0}),
      ByGaps({0.7, 1.0}),
      ByGaps({1.4, 0.0}),
      ByGaps({1.0, 0.0, 0.95}),
      ByGaps({1.0, 0.25, 0.85}),
      // Where all of these fail.
      ByGaps({1.0, 0.0, 1, true}, PlanStart::kWithoutPlan),
      ByGaps({1.0, 1.0, 1, true}, PlanStart::kWithoutPlan),
  };
  return *starts;
}

std::vector<PlannerResult> RunStarts(const std::vector<PlanStart>& starts, int64_t limit_bytes, Planning* planning) {
  std::vector<PlannerResult> best{planning->Evaluate(planning->hinted(), limit_bytes)};
  const int64_t limit = limit_bytes - planning->resident();
  if (best[0].feasible || limit <= 0) return best;
  PlanState state = planning->Fresh();
  int found = 0;
  const auto late = [&] { return found > 0 ? planning->Late(state.work()) : planning->LateForFirst(state.work()); };
  GapEviction eviction(&state, limit, late, planning->options().swap_rules);
  eviction.ForgetHistory();
  StartContext context{*planning, limit, state, eviction, best, found};
  bool fresh = true;
  for (const PlanStart& start : starts) {
    if (found > 0) {
      const auto done = static_cast<double>(planning->work() + state.work());
      const bool enough = best[0].feasible && done > start.share * static_cast<double>(planning->options().work);
      const bool needed = start.when_late && planning->huge() && !best[0].feasible;
      if (enough || (planning->Late(state.work()) && !needed)) continue;
    }
    if (!start.applies(&context)) continue;
    if (!std::exchange(fresh, false)) {
      planning->Count(state.work());
      state = planning->Fresh();
    }
    const Tried tried = start.run(&context);
    if (tried == Tried::kGivenUp) continue;
    if (tried == Tried::kUnder) {
      eviction.TakeBack();
      if (DelayRecomputations(&state)) eviction.TakeBack();
      eviction.Exchange();
    }
    KeepBest(planning->Evaluate(state.ToPlan(), limit_bytes), &best);
    ++found;
    if (planning->options().single_start) break;
  }
  planning->Count(state.work());
  return best;
}

}  // namespace lms
