// What the steps of an import (import.cc) share while it goes on: what they read, and what they have found so far.
//
// Plain data with short ways to it. For the import_*.cc files and keep_reasons.cc alone; one thread.

#ifndef LMS_CC_TF_IMPORT_IMPORT_STATE_H_
#define LMS_CC_TF_IMPORT_IMPORT_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/import/import.h"
#include "cc/tf/sizes/planned_devices.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// Why tensors are kept that Grappler's memory optimizer makes of a sum of many, to add them up one after the other.
inline constexpr char kPartOfSum[] = "part of a sum that is added up in place";

struct BufferFacts {
  std::string keep_reason;  // why the buffer itself is kept, whatever made it: neither recomputed nor swapped
  bool by_name = false;     // made by a node that is preserved by name: not recomputed
};

struct ImportState {
  // All arguments must outlive this. What `hold` means: see ImportRegions().
  ImportState(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index, const TensorSizes& sizes,
              const std::vector<int>& regions, bool hold, const Deadline& deadline, ImportedGraph* imported);

  const tensorflow::NodeDef& Node(int node) const { return graph.node(node); }
  TensorSize SizeOf(int node, int port) const { return SizeOfPort(graph, index, sizes, node, port); }

  bool OnDevice(int node) const { return Node(node).device() == out.device; }
  bool Planned(int region) const { return region >= 0 && planned[region]; }
  bool InRegion(int node) const { return Planned(index[node].region) && !loops.Straggles(node); }

  // Of a node that runs; once the ops are there.
  MemOp& Op(int node) { return out.graph.ops[out.op_of_node[node]]; }

  // Of each output port; empty where the buffers are still to come.
  std::vector<BufferId>& Slots(int node);

  // kNone where the tensor has no storage, or none yet.
  BufferId BufferOf(const TensorRef& tensor) const;

  // As of op_traits.h, and with rows that lie in the storage of what they are rows of: those of earlier nodes, while
  // the buffers are made.
  int SharedInput(const TensorRef& tensor) const { return out.SharedInput(Node(tensor.node), tensor); }
  bool IsViewOfInput(int node, int input) const { return out.IsViewOfInput(Node(node), node, input); }

  // Allocated by the node's op.
  BufferId NewBuffer(int node, int port, int64_t bytes, bool resident);

  const Deadline deadline;
  const tensorflow::GraphDef& graph;
  const GraphIndex& index;
  const TensorSizes& sizes;
  Loops loops;
  const TensorLists lists;
  tensorflow::FunctionLibraryDefinition library;
  ImportedGraph& out;
  bool one_of_several = false;  // devices: waits between nodes elsewhere are not this import's
  std::vector<bool> planned;    // per region
  std::vector<NodeTypes> types;
  std::vector<int> fused_into;     // per node: what a later pass makes it a part of (layout_fusions.h), or itself
  std::vector<bool> joined;        // per node: another one is a part of it
  std::vector<bool> notes;         // per node: it hands on what it notes beside its result
  std::vector<int> noted_by;       // per node: who hands it that, or -1
  std::vector<bool> may_be_fused;  // per node: into any other
  std::vector<bool> part;          // per node: its results lie in larger storage, as rows of it
  std::vector<int> order;          // nodes in execution order
  std::vector<BufferFacts> facts;  // per buffer
};

// Appends the id, unless the list has it.
void AddOnce(std::vector<int32_t>* list, int32_t id);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_STATE_H_
