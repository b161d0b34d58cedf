// Random MemGraphs for tests: a chain of layers with skip connections, forward ops that may share storage, and a
// backward part that reads the forward part in reverse. Deterministic by seed, on every platform.

#ifndef LMS_TESTS_CC_CORE_RANDOM_GRAPH_H_
#define LMS_TESTS_CC_CORE_RANDOM_GRAPH_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/random.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/schedule.h"

namespace lms::testing {

class Random : public lms::Random {
 public:
  using lms::Random::Random;
  bool OneIn(int n) { return Below(n) == 0; }
};

// Helpers to build graphs by hand, in execution order.
inline BufferId AddBuffer(MemGraph* graph, int64_t bytes, OpId producer) {
  MemBuffer buffer;
  buffer.name = "b" + std::to_string(graph->buffers.size());
  buffer.bytes = bytes;
  buffer.producer = producer;
  buffer.resident = producer == kNone;
  buffer.evictable = producer != kNone;
  graph->buffers.push_back(buffer);
  return static_cast<BufferId>(graph->buffers.size()) - 1;
}

// An op that reads `inputs` and makes one buffer of `bytes` (none for 0). Returns the op.
inline OpId AddOp(MemGraph* graph, const std::vector<BufferId>& inputs, int64_t bytes, double cost_us = 1) {
  const OpId id = static_cast<OpId>(graph->ops.size());
  MemOp op;
  op.name = "op" + std::to_string(id);
  op.type = "Op";
  op.cost_us = cost_us;
  op.inputs = inputs;
  op.recomputable = true;
  for (const BufferId b : inputs) {
    const OpId producer = graph->buffers[b].producer;
    bool known = producer == kNone;
    for (const OpId dep : op.deps) known |= dep == producer;
    if (!known) op.deps.push_back(producer);
  }
  graph->ops.push_back(op);
  if (bytes > 0) graph->ops.back().outputs.push_back(AddBuffer(graph, bytes, id));
  return id;
}

// The same, of an op that must not run again, and whose result stays.
inline OpId AddFixedOp(MemGraph* graph, const std::vector<BufferId>& inputs, int64_t bytes) {
  const OpId op = AddOp(graph, inputs, bytes);
  graph->ops[op].recomputable = false;
  for (const BufferId b : graph->ops[op].outputs) graph->buffers[b].evictable = false;
  return op;
}

inline BufferId OutputOf(const MemGraph& graph, OpId op) { return graph.ops[op].outputs.at(0); }

// Forward ops f0..fn-1 in a chain, each making `bytes`; backward ops in reverse, each reading the gradient and the
// forward op's input: the peak is at the turn.
inline MemGraph Chain(int n, int64_t bytes, double forward_us = 1, double backward_us = 2) {
  MemGraph graph;
  const BufferId input = AddBuffer(&graph, bytes, kNone);
  std::vector<BufferId> made{input};
  for (int i = 0; i < n; ++i) {
    made.push_back(OutputOf(graph, AddOp(&graph, {made.back()}, bytes, forward_us)));
  }
  BufferId gradient = made.back();
  for (int i = n - 1; i >= 0; --i) {
    std::vector<BufferId> reads{gradient};
    if (made[i] != gradient) reads.push_back(made[i]);
    gradient = OutputOf(graph, AddOp(&graph, reads, bytes, backward_us));
  }
  graph.buffers[gradient].escapes = true;
  graph.buffers[gradient].evictable = false;
  return graph;
}

inline MemGraph RandomGraph(uint64_t seed, int layers) {
  Random random(seed);
  MemGraph graph;
  std::vector<BufferId> made{AddBuffer(&graph, 64 * (1 + random.Below(100)), kNone)};
  if (random.OneIn(2)) made.push_back(AddBuffer(&graph, 4096, kNone));
  const auto pick = [&](int back) {
    const int size = static_cast<int>(made.size());
    return made[size - 1 - random.Below(std::min(size, back))];
  };
  const auto add = [&](const std::vector<BufferId>& inputs) {
    std::vector<BufferId> distinct;
    for (const BufferId b : inputs) {
      bool seen = false;
      for (const BufferId d : distinct) seen |= d == b;
      if (!seen) distinct.push_back(b);
    }
    const int64_t bytes = random.OneIn(8) ? 8 : 1024 * (1 + random.Below(64));
    const OpId op = AddOp(&graph, distinct, bytes, 0.5 + random.Below(20));
    if (random.OneIn(6)) graph.ops[op].outputs.push_back(AddBuffer(&graph, 1024 * (1 + random.Below(16)), op));
    if (random.OneIn(5)) graph.ops[op].workspace_bytes = 512 * random.Below(32);
    if (random.OneIn(3)) {
      // Elementwise: as large as its first input, and may take over its storage.
      graph.buffers[graph.ops[op].outputs[0]].bytes = graph.buffers[distinct[0]].bytes;
      if (!graph.buffers[distinct[0]].resident) graph.ops[op].forwardable.push_back(distinct[0]);
    }
    if (random.OneIn(12)) {
      graph.ops[op].recomputable = false;
      graph.ops[op].keep_reason = "random";
      for (const BufferId b : graph.ops[op].outputs) graph.buffers[b].evictable = false;
    }
    for (const BufferId b : graph.ops[op].outputs) made.push_back(b);
    return op;
  };
  for (int i = 0; i < layers; ++i) {
    std::vector<BufferId> inputs{pick(1)};
    if (random.OneIn(3)) inputs.push_back(pick(10));
    add(inputs);
  }
  const std::vector<BufferId> forward = made;
  for (int i = static_cast<int>(forward.size()) - 1; i >= 0; --i) {
    std::vector<BufferId> inputs{made.back(), forward[i]};
    if (random.OneIn(4)) inputs.push_back(pick(4));
    add(inputs);
  }
  graph.buffers[made.back()].escapes = true;
  graph.buffers[made.back()].evictable = false;
  return graph;
}

// Ops that read one to three buffers made anywhere before, half of the time recent ones: branches that are far from
// each other and join late, so that much depends on the order. In the executor's order.
inline MemGraph RandomBranches(uint64_t seed, int ops) {
  Random random(seed);
  MemGraph graph;
  std::vector<BufferId> made{AddBuffer(&graph, 1024, kNone)};
  for (int i = 0; i < ops; ++i) {
    const int count = 1 + random.Below(3);
    std::vector<BufferId> inputs;
    for (int j = 0; j < count; ++j) {
      const int size = static_cast<int>(made.size());
      const BufferId b = made[random.OneIn(2) ? size - 1 - random.Below(std::min(size, 3)) : random.Below(size)];
      if (std::find(inputs.begin(), inputs.end(), b) == inputs.end()) inputs.push_back(b);
    }
    const OpId op = AddOp(&graph, inputs, 1 + random.Below(random.OneIn(3) ? 10000 : 1000), 1 + random.Below(10));
    if (random.OneIn(4)) {
      graph.buffers[OutputOf(graph, op)].bytes = graph.buffers[inputs[0]].bytes;
      if (!graph.buffers[inputs[0]].resident) graph.ops[op].forwardable.push_back(inputs[0]);
    }
    if (random.OneIn(8)) graph.ops[op].outputs.push_back(AddBuffer(&graph, 1 + random.Below(3000), op));
    if (random.OneIn(8)) graph.ops[op].workspace_bytes = random.Below(4000);
    if (random.OneIn(20)) {
      graph.buffers[OutputOf(graph, op)].escapes = true;
      graph.buffers[OutputOf(graph, op)].evictable = false;
    }
    for (const BufferId b : graph.ops[op].outputs) made.push_back(b);
  }
  return Reordered(graph, ExecutionOrder(graph));
}

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_CORE_RANDOM_GRAPH_H_
