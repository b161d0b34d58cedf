#include "cc/core/graph/tail.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace lms {

MemGraph TailOf(const MemGraph& graph, OpId first) {
  const auto id = [first](OpId op) { return op < first ? 0 : op - first + 1; };
  MemGraph tail;
  tail.ops.resize(1);
  tail.ops[0].name = graph.ops[first - 1].name;
  for (size_t i = first; i < graph.ops.size(); ++i) {
    MemOp op = graph.ops[i];
    op.deps = {0};
    for (const OpId dep : graph.ops[i].deps) {
      if (dep >= first) op.deps.push_back(id(dep));
    }
    tail.ops.push_back(std::move(op));
  }
  std::vector<bool> wanted(graph.buffers.size(), false);
  for (const MemOp& op : tail.ops) {
    for (const BufferId b : op.inputs) wanted[b] = true;
  }
  tail.buffers = graph.buffers;
  for (size_t b = 0; b < tail.buffers.size(); ++b) {
    MemBuffer& buffer = tail.buffers[b];
    std::vector<OpId>& writers = buffer.overwritten_by;
    writers.erase(std::remove_if(writers.begin(), writers.end(), [first](OpId op) { return op < first; }),
                  writers.end());
    for (OpId& op : writers) op = id(op);
    if (buffer.producer == kNone) continue;
    buffer.producer = id(buffer.producer);
    if (buffer.producer != 0) continue;
    tail.ops[0].outputs.push_back(static_cast<BufferId>(b));
    if (!wanted[b] && !buffer.escapes && !buffer.resident) buffer.bytes = 0;
  }
  return tail;
}

std::vector<OpId> OrderWithTail(OpId first, const std::vector<OpId>& tail) {
  std::vector<OpId> order(first);
  std::iota(order.begin(), order.end(), 0);
  for (const OpId op : tail) {
    if (op != 0) order.push_back(op - 1 + first);
  }
  return order;
}

}  // namespace lms
