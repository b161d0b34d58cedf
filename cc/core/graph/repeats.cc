#include "cc/core/graph/repeats.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "cc/core/graph/mix.h"

namespace lms {
namespace {

constexpr int kRefinements = 3;

}  // namespace

std::vector<std::vector<BufferId>> FindRepeats(const MemGraph& graph) {
  const size_t n = graph.ops.size();
  std::vector<uint64_t> colour(n);
  std::vector<std::vector<OpId>> readers(n);
  for (size_t i = 0; i < n; ++i) {
    const MemOp& op = graph.ops[i];
    uint64_t hash = op.recomputable ? 1 : 2;
    for (const char c : op.type) hash = Mix(hash, static_cast<unsigned char>(c));
    uint64_t cost = 0;
    std::memcpy(&cost, &op.cost_us, sizeof(cost));
    hash = Mix(hash, cost);
    for (const BufferId b : op.outputs) hash = Mix(hash, static_cast<uint64_t>(graph.buffers[b].bytes));
    colour[i] = hash;
    for (const BufferId b : op.inputs) {
      const OpId producer = graph.buffers[b].producer;
      if (producer != kNone && !graph.buffers[b].resident) readers[producer].push_back(static_cast<OpId>(i));
    }
  }
  for (int round = 0; round < kRefinements; ++round) {
    std::vector<uint64_t> refined(n);
    for (size_t i = 0; i < n; ++i) {
      uint64_t hash = colour[i];
      for (const BufferId b : graph.ops[i].inputs) {
        const OpId producer = graph.buffers[b].producer;
        hash = Mix(hash, graph.buffers[b].resident || producer == kNone ? 0 : colour[producer]);
      }
      uint64_t read_by = 0;  // in no order
      for (const OpId reader : readers[i]) read_by += Mix(1, colour[reader]);
      refined[i] = Mix(hash, read_by);
    }
    colour = std::move(refined);
  }
  std::map<std::pair<uint64_t, size_t>, std::vector<BufferId>> groups;
  for (size_t i = 0; i < n; ++i) {
    for (size_t o = 0; o < graph.ops[i].outputs.size(); ++o) {
      const BufferId b = graph.ops[i].outputs[o];
      if (graph.buffers[b].evictable && !graph.buffers[b].resident) groups[{colour[i], o}].push_back(b);
    }
  }
  std::vector<std::vector<BufferId>> result;
  result.reserve(groups.size());
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  std::sort(result.begin(), result.end(),
            [](const std::vector<BufferId>& a, const std::vector<BufferId>& b) { return a.front() < b.front(); });
  return result;
}

}  // namespace lms
