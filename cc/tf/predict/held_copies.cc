#include "cc/tf/predict/held_copies.h"

#include "cc/tf/graph/handed_copies.h"

namespace lms {

HeldCopies::HeldCopies(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported)
    : copies_of_(imported.graph.ops.size()), held_(imported.graph.ops.size(), false) {
  for (size_t op = 0; op < copies_of_.size(); ++op) {
    for (const int copy : CopiesHeldUntil(graph, index, imported.node_of_op[op])) {
      const OpId out = imported.op_of_node[copy];
      copies_of_[op].push_back(out);
      held_[out] = true;
    }
  }
}

std::vector<RunEvent> HeldCopies::HoldIn(const std::vector<RunEvent>& run) const {
  std::vector<RunEvent> with_ends;
  with_ends.reserve(run.size());
  std::vector<bool> holds = held_;
  const auto end = [&](OpId copy) {
    if (holds[copy]) with_ends.push_back({copy, true});
    holds[copy] = false;
  };
  for (const RunEvent& event : run) {
    if (event.ends && held_[event.op]) continue;
    if (!event.ends) {
      for (const OpId copy : copies_of_[event.op]) end(copy);
    }
    with_ends.push_back(event);
  }
  for (size_t op = 0; op < holds.size(); ++op) end(static_cast<OpId>(op));
  return with_ends;
}

}  // namespace lms
