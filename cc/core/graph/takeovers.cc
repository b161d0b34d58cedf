#include "cc/core/graph/takeovers.h"

#include <algorithm>

namespace lms {

void ApplyTakeovers(const std::vector<Takeover>& takeovers, const std::vector<OpId>& order, MemGraph* graph) {
  if (takeovers.empty()) return;
  std::vector<OpId> last(graph->buffers.size(), kNone);
  for (const OpId op : order) {
    for (const BufferId b : graph->ops[op].inputs) last[b] = op;
  }
  std::vector<bool> holds_more(graph->buffers.size(), false);
  for (const Takeover& takeover : takeovers) {
    MemOp& op = graph->ops[takeover.op];
    MemBuffer& result = graph->buffers[op.outputs[0]];
    result.bytes = takeover.bytes;
    const auto dies = [&](const Takeover::Input& input) {
      const MemBuffer& buffer = graph->buffers[input.buffer];
      return last[input.buffer] == takeover.op && !buffer.resident && !buffer.escapes;
    };
    const auto taken = std::find_if(takeover.inputs.begin(), takeover.inputs.end(), dies);
    if (taken == takeover.inputs.end() || (!taken->rows && !holds_more[taken->buffer])) continue;
    result.bytes = graph->buffers[taken->buffer].bytes;
    holds_more[op.outputs[0]] = true;
    const bool known = std::count(op.forwardable.begin(), op.forwardable.end(), taken->buffer) != 0;
    if (!known) op.forwardable.push_back(taken->buffer);
  }
}

}  // namespace lms
