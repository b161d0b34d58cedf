#include "cc/tf/import/import_state.h"

#include <algorithm>

#include "cc/tf/import/import_loops.h"
#include "cc/tf/stock/layout_fusions.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/util.h"

namespace lms {

ImportState::ImportState(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                         const TensorSizes& sizes, const std::vector<int>& regions, bool hold, const Deadline& deadline,
                         ImportedGraph* imported)
    : deadline(deadline),
      graph(item.graph),
      index(index),
      sizes(sizes),
      loops(item.graph, index),
      lists(item.graph, index, sizes, loops),
      library(tensorflow::OpRegistry::Global(), item.graph.library()),
      out(*imported),
      planned(index.regions(), false) {
  fused_into = FusedInto(graph, index, tensorflow::IsMKLEnabled());
  joined.resize(fused_into.size(), false);
  for (size_t i = 0; i < fused_into.size(); ++i) {
    if (fused_into[i] != static_cast<int>(i)) joined[fused_into[i]] = true;
  }
  notes.assign(fused_into.size(), false);
  for (int i = 0; i < index.size(); ++i) {
    noted_by.push_back(index[i].live ? HandedNotesBy(graph, index, i, tensorflow::IsMKLEnabled()) : -1);
    if (noted_by[i] >= 0) notes[noted_by[i]] = true;
  }
  may_be_fused = MayBeFused(graph, index, tensorflow::IsMKLEnabled());
  part.assign(index.size(), false);
  out.rows_of.assign(index.size(), -1);
  out.regions = regions;
  for (const int region : regions) planned[region] = true;
  if (!hold) return;
  std::vector<bool> held(index.frames(), false);
  for (const int region : regions) {
    const int frame = index.region(region).frame;
    if (!held[frame]) loops.HoldIterations(frame);
    held[frame] = true;
  }
  for (int f = 1; f < index.frames(); ++f) {
    const bool much = lists.OverlapOf(f) > 0 || BytesAhead(*this, f) > 0;
    if (!held[f] && much) loops.HoldIterations(f);
  }
  out.holds = loops.Holds();
}

std::vector<BufferId>& ImportState::Slots(int node) {
  if (out.buffer_of_port.empty()) out.buffer_of_port.resize(index.size());
  return out.buffer_of_port[node];
}

BufferId ImportState::BufferOf(const TensorRef& tensor) const {
  const std::vector<BufferId>& ports = out.buffer_of_port[tensor.node];
  return tensor.port < static_cast<int>(ports.size()) ? ports[tensor.port] : kNone;
}

BufferId ImportState::NewBuffer(int node, int port, int64_t bytes, bool resident) {
  MemBuffer buffer;
  buffer.name = Node(node).name() + ":" + std::to_string(port);
  buffer.bytes = bytes;
  buffer.resident = resident;
  buffer.producer = out.op_of_node[node];
  out.graph.buffers.push_back(buffer);
  facts.push_back({});
  out.dtype_of_buffer.push_back(types[node].outputs[port]);
  out.assumptions_of_buffer.push_back(0);
  const BufferId id = static_cast<BufferId>(out.graph.buffers.size()) - 1;
  Op(node).outputs.push_back(id);
  return id;
}

void AddOnce(std::vector<int32_t>* list, int32_t id) {
  if (std::find(list->begin(), list->end(), id) == list->end()) list->push_back(id);
}

}  // namespace lms
