// Of PlanState: what the tree cannot sum up, of ops that take over storage and of closures, whose steps come one by
// one.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "cc/core/search/plan_state.h"

namespace lms {

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

}  // namespace lms
