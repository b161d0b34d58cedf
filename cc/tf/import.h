// A graph as a MemGraph: which tensors share storage, how large each buffer is, what may be evicted and why not.
//
// One device is planned at a time: the GPU that holds the most bytes, or the CPU where there is none. Buffers elsewhere
// count nothing and stay. Only nodes that run in every step, outside loops and branches, are copied or evicted from.

#ifndef LMS_CC_TF_IMPORT_H_
#define LMS_CC_TF_IMPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/mem_graph.h"
#include "cc/core/overlap.h"
#include "cc/tf/graph_index.h"
#include "cc/tf/tensor_sizes.h"
#include "cc/tf/variable_waits.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

struct ImportedGraph {
  MemGraph graph;                                     // in execution order
  std::vector<int> node_of_op;                        // index into the GraphDef's nodes
  std::vector<OpId> op_of_node;                       // kNone for nodes that never run
  std::vector<std::vector<BufferId>> buffer_of_port;  // per node and output port; kNone for ports without storage
  std::vector<HeldRead> held_reads;                   // of variables that the step changes
  std::vector<VariableWait> variable_waits;           // which the order assumes: a rewrite makes edges of them
  std::string device;                                 // the one that is planned
  int assumed_tensors = 0;                            // whose size rests on an unknown dimension
  std::string assumed_example;                        // the largest of them
};

// `index` belongs to the item's graph. Fails, and says why, where the graph cannot be put in order or is unsound.
absl::Status ImportGraph(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                         const TensorSizes& sizes, ImportedGraph* imported);

// Fills in the ops' costs, once `sizes` has them.
void ImportCosts(const tensorflow::grappler::GrapplerItem& item, const TensorSizes& sizes, ImportedGraph* imported);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_H_
