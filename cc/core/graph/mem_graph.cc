#include "cc/core/graph/mem_graph.h"

#include <algorithm>

namespace lms {
namespace {

bool HasDuplicate(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) != ids.end();
}

bool OutOfRange(const std::vector<int32_t>& ids, size_t size) {
  return std::any_of(ids.begin(), ids.end(), [size](int32_t id) { return id < 0 || static_cast<size_t>(id) >= size; });
}

}  // namespace

int64_t MemGraph::ResidentBytes() const {
  int64_t bytes = 0;
  for (const MemBuffer& buffer : buffers) {
    if (buffer.resident) bytes += buffer.bytes;
  }
  return bytes;
}

double MemGraph::TotalCostUs() const {
  double cost_us = 0;
  for (const MemOp& op : ops) cost_us += op.cost_us;
  return cost_us;
}

bool MemGraph::InputsLast(OpId op, OpId before) const {
  return std::all_of(ops[op].inputs.begin(), ops[op].inputs.end(), [&](BufferId input) {
    const std::vector<OpId>& writers = buffers[input].overwritten_by;
    return !buffers[input].no_more_readers &&
           std::all_of(writers.begin(), writers.end(), [before](OpId writer) { return writer >= before; });
  });
}

std::string MemGraph::Validate() const {
  std::vector<bool> made(buffers.size(), false);  // named as an output of its producer
  for (size_t i = 0; i < ops.size(); ++i) {
    const MemOp& op = ops[i];
    if (OutOfRange(op.deps, ops.size())) return "op " + op.name + " depends on an op that does not exist";
    if (OutOfRange(op.inputs, buffers.size()) || OutOfRange(op.outputs, buffers.size()) ||
        OutOfRange(op.forwardable, buffers.size())) {
      return "op " + op.name + " names a buffer that does not exist";
    }
    if (HasDuplicate(op.inputs) || HasDuplicate(op.outputs)) return "op " + op.name + " names a buffer twice";
    if (op.cost_us < 0 || op.workspace_bytes < 0) return "op " + op.name + " has a negative cost or workspace";
    for (const BufferId b : op.outputs) {
      if (buffers[b].producer != static_cast<OpId>(i)) return "buffer " + buffers[b].name + " has two producers";
      made[b] = true;
    }
  }
  for (size_t b = 0; b < buffers.size(); ++b) {
    const MemBuffer& buffer = buffers[b];
    if (buffer.bytes < 0) return "buffer " + buffer.name + " has a negative size";
    if (OutOfRange(buffer.overwritten_by, ops.size())) {
      return "buffer " + buffer.name + " is overwritten by an op that does not exist";
    }
    if (buffer.producer == kNone) {
      if (!buffer.resident) return "buffer " + buffer.name + " has no producer and is not resident";
      continue;
    }
    if (buffer.producer < 0 || static_cast<size_t>(buffer.producer) >= ops.size()) {
      return "buffer " + buffer.name + " has a producer that does not exist";
    }
    if (!made[b]) return "buffer " + buffer.name + " is not an output of its producer";
  }
  return "";
}

MemGraph Reordered(const MemGraph& graph, const std::vector<OpId>& order) {
  std::vector<OpId> position(graph.ops.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<OpId>(i);
  MemGraph result;
  result.buffers = graph.buffers;
  result.ops.reserve(order.size());
  for (const OpId old : order) {
    result.ops.push_back(graph.ops[old]);
    for (OpId& dep : result.ops.back().deps) dep = position[dep];
  }
  for (MemBuffer& buffer : result.buffers) {
    if (buffer.producer != kNone) buffer.producer = position[buffer.producer];
    for (OpId& op : buffer.overwritten_by) op = position[op];
  }
  return result;
}

}  // namespace lms
