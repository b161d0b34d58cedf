#include "cc/tf/import/region_choice.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/simulate/liveness.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/import/import_buffers.h"

namespace lms {
namespace {

// Of activations: regions with less are not worth a plan.
constexpr int64_t kLeastBytes = 256 << 10;
// Of what is held, for a region to count; and of the peak, where there is no limit.
constexpr int64_t kLeastShare = 8;
constexpr int kMostRegions = 64;

}  // namespace

int RegionOfThePeak(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported) {
  const MemGraph& memory = imported.graph;
  const OpId peak = Simulate(memory, Plan()).peak_op;
  if (peak == kNone) return 0;
  std::vector<OpId> last_read(memory.buffers.size(), kNone);
  for (OpId op = 0; op < static_cast<OpId>(memory.ops.size()); ++op) {
    for (const BufferId b : memory.ops[op].inputs) last_read[b] = op;
  }
  const Loops loops(graph, index);
  std::vector<int64_t> bytes(index.regions(), 0);
  for (size_t b = 0; b < memory.buffers.size(); ++b) {
    const MemBuffer& buffer = memory.buffers[b];
    if (buffer.resident || buffer.producer == kNone || buffer.producer > peak) continue;
    if (last_read[b] < peak && !buffer.escapes && buffer.producer != peak) continue;
    if (buffer.keep_reason == kTensorList) continue;  // of all iterations
    const int node = imported.node_of_op[buffer.producer];
    if (index[node].region >= 0 && (!loops.Straggles(node) || loops.MayBeHeld(node)))
      bytes[index[node].region] += buffer.bytes;
  }
  int best = 0;
  for (int region = 1; region < index.regions(); ++region) {
    if (bytes[region] > bytes[best] && loops.MayBePlanned(region)) best = region;
  }
  return best;
}

std::vector<int> RegionsAbove(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                              int64_t limit_bytes) {
  std::vector<int> chosen = imported.regions;
  if (index.regions() < 2) return chosen;
  const MemGraph& memory = imported.graph;
  const MemoryProfile profile = Simulate(memory, Plan());
  const int64_t peak = profile.peak_bytes - profile.resident_bytes;
  const int64_t above = std::max(limit_bytes - profile.resident_bytes, std::max(kLeastBytes, peak / kLeastShare));
  const auto ops = static_cast<OpId>(memory.ops.size());
  std::vector<OpId> last_read(memory.buffers.size(), kNone);
  for (OpId op = 0; op < ops; ++op) {
    for (const BufferId b : memory.ops[op].inputs) last_read[b] = op;
  }
  std::vector<std::vector<BufferId>> freed(memory.ops.size());
  for (size_t b = 0; b < memory.buffers.size(); ++b) {
    const MemBuffer& buffer = memory.buffers[b];
    if (buffer.resident || buffer.escapes || buffer.producer == kNone || buffer.keep_reason == kTensorList) continue;
    freed[std::max(last_read[b], buffer.producer)].push_back(static_cast<BufferId>(b));
  }
  const Loops loops(graph, index);
  const auto region_of = [&](OpId op) {
    const int node = imported.node_of_op[op];
    return !loops.Straggles(node) || loops.MayBeHeld(node) ? index[node].region : -1;
  };
  std::vector<int64_t> live(index.regions(), 0);  // of what the region made
  std::vector<bool> found(index.regions(), false);
  for (const int region : chosen) found[region] = true;
  for (OpId op = 0; op < ops; ++op) {
    const int region = region_of(op);
    for (const BufferId b : memory.ops[op].outputs) {
      const MemBuffer& buffer = memory.buffers[b];
      if (region >= 0 && !buffer.resident && !buffer.escapes && buffer.keep_reason != kTensorList)
        live[region] += buffer.bytes;
    }
    const int64_t held = profile.op_bytes[op] - profile.resident_bytes;
    // Where there are very many regions, those alone that run.
    const int first = index.regions() <= kMostRegions ? 0 : std::max(region, 0);
    const int last = index.regions() <= kMostRegions ? index.regions() - 1 : region;
    for (int r = first; r <= last && held > above; ++r) {
      if (found[r] || live[r] <= held / kLeastShare) continue;
      found[r] = true;
      if (loops.MayBePlanned(r)) chosen.push_back(r);
    }
    for (const BufferId b : freed[op]) {
      const int made = region_of(memory.buffers[b].producer);
      if (made >= 0) live[made] -= memory.buffers[b].bytes;
    }
  }
  return chosen;
}

}  // namespace lms
