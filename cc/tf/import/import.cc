#include "cc/tf/import/import.h"

#include <string>

#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/import/import_arrivals.h"
#include "cc/tf/import/import_buffers.h"
#include "cc/tf/import/import_constants.h"
#include "cc/tf/import/import_loops.h"
#include "cc/tf/import/import_order.h"
#include "cc/tf/import/import_reads.h"
#include "cc/tf/import/import_state.h"
#include "cc/tf/import/import_tapes.h"
#include "cc/tf/import/keep_reasons.h"
#include "cc/tf/import/loop_ends.h"
#include "cc/tf/import/region_choice.h"
#include "cc/tf/sizes/planned_devices.h"

namespace lms {

int ImportedGraph::SharedInput(const tensorflow::NodeDef& node, const TensorRef& tensor) const {
  return rows_of[tensor.node] >= 0 ? rows_of[tensor.node] : lms::SharedInput(node, tensor.port);
}

bool ImportedGraph::IsViewOfInput(const tensorflow::NodeDef& node, int index, int input) const {
  return rows_of[index] == input || lms::IsViewOfInput(node, input);
}

absl::Status ImportRegions(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                           const TensorSizes& sizes, const std::vector<int>& regions, bool hold,
                           ImportedGraph* imported, const Deadline& deadline, const std::string& device, int threads) {
  *imported = ImportedGraph();
  ImportState state(item, index, sizes, regions, hold, deadline, imported);
  absl::Status status = ReadNodeTypes(item.graph, index, state.library, &state.types);
  if (!status.ok()) return status;
  state.one_of_several = !device.empty();
  imported->device = device;
  for (const std::string& candidate : DevicesToPlan(item.graph, index, sizes, state.types)) {
    if (imported->device.empty()) imported->device = candidate;
    // Nodes without a device are nobody's.
    if (imported->device != candidate && !candidate.empty()) imported->other_devices.push_back(candidate);
  }
  status = AddOps(&state);
  if (!status.ok()) return status;
  deadline.Check();
  AddBuffers(&state);
  deadline.Check();
  CountFoldedConstants(&state);
  AddEarlierConstants(&state);
  CountArrivals(&state);
  AddReads(&state);
  AddTapeReads(&state);
  deadline.Check();
  AddTakeovers(&state);
  deadline.Check();
  AddLoopReads(&state);
  deadline.Check();
  AddVariableWrites(&state);
  deadline.Check();
  AddHeldReads(&state);
  HoldWhileLoopsEnd(threads, &state);
  deadline.Check();
  AddVersions(&state);
  AddVersionsOfRegions(&state);
  deadline.Check();
  NoteUnknownLists(&state);
  deadline.Check();
  FindKeepReasons(&state);
  const std::string wrong = imported->graph.Validate();
  return wrong.empty() ? absl::OkStatus() : absl::InternalError(wrong);
}

absl::Status ImportGraph(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                         const TensorSizes& sizes, ImportedGraph* imported, const Deadline& deadline,
                         const std::string& device, int threads) {
  absl::Status status = ImportRegions(item, index, sizes, {0}, false, imported, deadline, device, threads);
  if (!status.ok() || index.regions() < 2) return status;
  const int region = RegionOfThePeak(item.graph, index, *imported);
  if (region == 0) return status;
  return ImportRegions(item, index, sizes, {region}, false, imported, deadline, device, threads);
}

void ImportCosts(const tensorflow::grappler::GrapplerItem& item, const TensorSizes& sizes, const SwapLink& link,
                 ImportedGraph* imported) {
  const std::vector<MemBuffer>& buffers = imported->graph.buffers;
  imported->one_lane = link.one_lane();
  for (size_t i = 0; i < imported->graph.ops.size(); ++i) {
    MemOp& op = imported->graph.ops[i];
    if (!IsSwap(op.type)) {
      op.cost_us = sizes.Of(item.graph.node(imported->node_of_op[i]).name()).cost_us;
      continue;
    }
    int64_t bytes = 0;
    for (const BufferId b : op.type == kSwapOutOp ? op.inputs : op.outputs) bytes += buffers[b].bytes;
    op.cost_us = !link.usable() ? 0 : op.type == kSwapOutOp ? link.OutUs(bytes) : link.InUs(bytes);
  }
}

ImportedGraph InOrder(const ImportedGraph& imported, const std::vector<OpId>& order) {
  ImportedGraph result = imported;
  result.graph = Reordered(imported.graph, order);
  for (size_t i = 0; i < order.size(); ++i) {
    result.node_of_op[i] = imported.node_of_op[order[i]];
    result.op_of_node[result.node_of_op[i]] = static_cast<OpId>(i);
  }
  for (HeldRead& held : result.held_reads) {
    held.read = result.op_of_node[imported.node_of_op[held.read]];
    held.reader = result.op_of_node[imported.node_of_op[held.reader]];
  }
  return result;
}

}  // namespace lms
