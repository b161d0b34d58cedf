#include "cc/tf/import/import_arrivals.h"

#include <algorithm>

#include "cc/tf/graph/node_types.h"

namespace lms {
namespace {

bool ReadOnDevice(const NodeTypes& types, size_t input) {
  return input < types.inputs.size() && IsPlain(types.inputs[input]) && !types.input_on_host[input];
}

}  // namespace

void CountArrivals(ImportState* state) {
  if (DeviceType(state->out.device) == "CPU") return;
  for (int node = 0; node < state->index.size(); ++node) {
    if (!state->index[node].live || !state->OnDevice(node)) continue;
    const std::vector<TensorRef>& inputs = state->index[node].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const BufferId b = state->BufferOf(inputs[i]);
      if (b == kNone || !ReadOnDevice(state->types[node], i)) continue;
      MemBuffer& buffer = state->out.graph.buffers[b];
      const bool made_here = buffer.producer == kNone || state->OnDevice(state->out.node_of_op[buffer.producer]);
      const std::vector<bool>& on_host = state->types[inputs[i].node].output_on_host;
      const bool from_host = inputs[i].port < static_cast<int>(on_host.size()) && on_host[inputs[i].port];
      if (made_here && !from_host) continue;
      const TensorSize size = state->SizeOf(inputs[i].node, inputs[i].port);
      if (size.bytes <= buffer.bytes) continue;
      buffer.bytes = size.bytes;
      if (!made_here) state->out.arrivals.push_back(state->out.node_of_op[buffer.producer]);
      buffer.resident = false;  // constants and arguments of the host, too, come in each step
      state->out.assumptions_of_buffer[b] = size.assumptions;
    }
  }
}

}  // namespace lms
