#include "cc/core/graph/turn.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lms {

OpId TurnOf(const MemGraph& graph) {
  const OpId n = static_cast<OpId>(graph.ops.size());
  if (n == 0) return 0;
  struct Widest {
    OpId last = kNone;  // the use before
    OpId from = 0;
    OpId to = 0;
  };
  std::vector<Widest> widest(graph.buffers.size());
  for (size_t b = 0; b < graph.buffers.size(); ++b) widest[b].last = graph.buffers[b].producer;
  const auto use = [&widest](BufferId b, OpId at) {
    Widest& w = widest[b];
    if (at - w.last > w.to - w.from) {
      w.from = w.last;
      w.to = at;
    }
    w.last = at;
  };
  for (OpId op = 0; op < n; ++op) {
    for (const BufferId b : graph.ops[op].inputs) use(b, op);
  }
  std::vector<int64_t> change(n + 2, 0);
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    if (buffer.resident || buffer.producer == kNone || (!buffer.evictable && buffer.hint != Hint::kKeep)) continue;
    if (buffer.escapes) use(static_cast<BufferId>(b), n);
    if (widest[b].to - widest[b].from < 2) continue;
    change[widest[b].from] += buffer.bytes;
    change[widest[b].to] -= buffer.bytes;
  }
  OpId turn = 0;
  int64_t waiting = 0;
  int64_t most = 0;
  for (OpId op = 0; op < n; ++op) {
    waiting += change[op];
    if (waiting > most) {
      most = waiting;
      turn = op;
    }
  }
  // Of several equal places the last one before something is read a second time.
  std::vector<bool> read(graph.buffers.size(), false);
  for (OpId op = 0; op <= turn; ++op) {
    for (const BufferId b : graph.ops[op].inputs) read[b] = true;
  }
  for (OpId op = turn + 1; op < n && change[op] == 0; ++op) {
    const std::vector<BufferId>& inputs = graph.ops[op].inputs;
    if (std::any_of(inputs.begin(), inputs.end(), [&](BufferId b) { return read[b] && !graph.buffers[b].resident; })) {
      break;
    }
    for (const BufferId b : inputs) read[b] = true;
    turn = op;
  }
  return turn;
}

}  // namespace lms
