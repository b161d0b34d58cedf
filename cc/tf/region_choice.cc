#include "cc/tf/region_choice.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/liveness.h"
#include "cc/tf/loops.h"

namespace lms {

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

}  // namespace lms
