#include "cc/core/search/delay.h"

#include <algorithm>
#include <vector>

#include "cc/core/base/sort_unique.h"
#include "cc/core/search/means.h"

namespace lms {
namespace {

// The op that reads the instance of this closure slot first, from slot `from` on; kNone: nothing does.
OpId FirstReader(const PlanState& state, BufferId buffer, int slot, int from) {
  const int first = state.FirstReadFrom(buffer, from);
  const std::vector<int>& starts = state.life(buffer).starts;
  const auto next = std::upper_bound(starts.begin(), starts.end(), slot);
  return first < 0 || (next != starts.end() && *next <= first) ? kNone : OpOfSlot(first);
}

// Does the step read something that has come back from where it was swapped to? When that is to be there was decided
// with when it is read.
bool ReadsSwappedIn(const PlanState& state, OpId op, int slot) {
  const std::vector<BufferId>& inputs = state.graph().ops[op].inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](BufferId input) {
    const std::vector<int>& starts = state.life(input).starts;
    const auto next = std::upper_bound(starts.begin(), starts.end(), slot);
    return next != starts.begin() && state.SwappedInAt(input, *(next - 1)) != nullptr;
  });
}

// The last op before which the step may run; `before` where it is read there.
OpId Latest(const PlanState& state, const PlanState::Step& step, OpId before) {
  OpId latest = kNone;
  for (const BufferId b : step.provides) {
    const OpId reader = FirstReader(state, b, ClosureSlot(before), ClosureSlot(before));
    if (reader == kNone || state.PinnedAt(b, ClosureSlot(before))) return before;
    latest = latest == kNone ? reader : std::min(latest, reader);
  }
  const bool stays = latest == kNone || ReadsSwappedIn(state, step.op, ClosureSlot(before)) ||
                     !state.graph().InputsLast(step.op, latest);
  return stays ? before : latest;
}

// Bytes times slots, of all instances of what these steps make and read.
double AreaOf(const PlanState& state, const std::vector<PlanState::Step>& steps) {
  std::vector<BufferId> buffers;
  for (const PlanState::Step& step : steps) {
    buffers.insert(buffers.end(), step.provides.begin(), step.provides.end());
    const std::vector<BufferId>& inputs = state.graph().ops[step.op].inputs;
    buffers.insert(buffers.end(), inputs.begin(), inputs.end());
  }
  SortUnique(&buffers);
  double area = 0;
  for (const BufferId b : buffers) {
    const std::vector<int>& starts = state.life(b).starts;
    int64_t slots = 0;
    for (size_t i = 0; i < starts.size(); ++i) {
      const int next = i + 1 < starts.size() ? starts[i + 1] : state.slots();
      slots += state.AliveUntil(b, next - 1) - starts[i];
    }
    area += static_cast<double>(slots) * static_cast<double>(state.graph().buffers[b].bytes);
  }
  return area;
}

// No step of this closure slot goes further than before this op, as its readers there go no further than to theirs.
OpId Furthest(const PlanState& state, OpId before) {
  OpId furthest = before;
  for (const PlanState::Step& step : state.steps(before)) {
    for (const BufferId b : step.provides) {
      furthest = std::max(furthest, FirstReader(state, b, ClosureSlot(before), OpSlot(before)));
    }
  }
  return furthest;
}

// The last first, so that what they read may follow. True where a step has changed its place.
bool DelaySteps(OpId before, PlanState* state) {
  const std::vector<PlanState::Step> steps = state->steps(before);
  bool any = false;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const OpId latest = Latest(*state, *step, before);
    if (latest <= before) continue;
    for (const BufferId b : step->provides) state->Recompute(b, latest);
    for (const BufferId b : step->provides) state->Retain(b, before);
    any = true;
  }
  return any;
}

}  // namespace

bool DelayRecomputations(PlanState* state) {
  bool delayed = false;
  for (auto before = static_cast<OpId>(state->graph().ops.size()); before-- > 0;) {
    const OpId furthest = Furthest(*state, before);
    if (furthest == before) continue;
    const std::vector<PlanState::Step> steps = state->steps(before);
    const double area = AreaOf(*state, steps);
    const double cost = state->cost_us();
    const int64_t peak = state->bytes().Max(ClosureSlot(before), OpSlot(furthest));
    state->Begin();
    const bool any = DelaySteps(before, state);
    state->Commit();
    const bool dearer = state->cost_us() > cost + kEqualCostUs;
    const bool larger = AreaOf(*state, steps) >= area;
    if (!any || dearer || larger || state->bytes().Max(ClosureSlot(before), OpSlot(furthest)) > peak) {
      state->Undo();
    } else {
      delayed = true;
    }
  }
  return delayed;
}

}  // namespace lms
