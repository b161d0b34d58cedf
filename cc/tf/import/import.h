// A graph as a MemGraph: which tensors share storage, how large each buffer is, what may be evicted and why not.
//
// One device is planned at a time: the GPU that holds the most bytes, or the CPU where there is none, or the one that
// is asked for. Buffers elsewhere count nothing and stay. Only nodes of the planned regions (graph_index.h) are copied,
// evicted from or waited for, each by and for nodes of its own region. The first of these made most of what is held at
// the peak: what runs in every step, or the body of a loop or a branch. Loops count as one iteration (loops.h),
// branches as taken.

#ifndef LMS_CC_TF_IMPORT_IMPORT_H_
#define LMS_CC_TF_IMPORT_IMPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/swap_link.h"
#include "cc/core/graph/takeovers.h"
#include "cc/core/simulate/overlap.h"
#include "cc/tf/graph/collectives.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "cc/tf/stock/node_wait.h"
#include "cc/tf/stock/variable_waits.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// What a buffer may take at worst; in the graph it takes nothing.
struct WorstBytes {
  BufferId buffer;
  int64_t bytes;
  bool for_good;  // nothing may lower it: what the loop computes depends on it (Loops::DependsOnOverlap)
};

struct ImportedGraph {
  MemGraph graph;                                     // in execution order
  std::vector<int> node_of_op;                        // index into the GraphDef's nodes
  std::vector<OpId> op_of_node;                       // kNone for nodes that never run
  std::vector<std::vector<BufferId>> buffer_of_port;  // per node and output port; kNone for ports without storage
  std::vector<int> rows_of;                           // per node: the input that its outputs are rows of; -1: none
  std::vector<tensorflow::DataType> dtype_of_buffer;  // of the tensor that owns it; DT_INVALID where several do
  std::vector<int> arrivals;                          // nodes elsewhere of which copies come to the device
  std::vector<HeldRead> held_reads;                   // of variables that the step changes
  std::vector<BufferId> overlaps;                     // what iterations of loops may hold beyond one of them
  std::vector<WorstBytes> ahead;                      // what they may hold at worst, besides
  std::vector<bool> before_data;  // by node: waits for nothing in the order (variable_waits.h); empty: none is such
  std::vector<VariableWait> variable_waits;          // which the order assumes: a rewrite makes edges of them
  std::vector<NodeWait> bit_waits;                   // likewise; on which bits depend (sum_holders.h, loop_starts.h)
  std::vector<CollectiveWait> collective_waits;      // which the graph has, by edges or through other nodes: likewise
  std::string device;                                // the one that is planned
  std::vector<std::string> other_devices;            // that could be, most bytes first
  std::vector<int> regions = {0};                    // of the index: those that are planned, the main one first
  bool enters_last = false;                          // what enters some loop waits for what leaves it
  std::vector<Loops::Hold> holds;                    // edges that a rewrite adds, and the plan relies on
  int hidden_ops = 0;                                // in loops that hold tensor lists of unknown size
  std::string hidden_example;                        // of an op that makes such a list
  std::vector<TensorLists::OpenLoop> open_loops;     // of which earlier steps may tell how large their lists get
  std::vector<AssumptionSet> assumptions_of_buffer;  // that its size rests on
  std::vector<Takeover> takeovers;                   // in the graph as they are in its own order
  bool one_lane = false;                             // SwapLink::one_lane(), of the link that its swaps take

  // As of op_traits.h, for nodes of the graph, and with rows that lie in the storage of what they are rows of.
  int SharedInput(const tensorflow::NodeDef& node, const TensorRef& tensor) const;
  bool IsViewOfInput(const tensorflow::NodeDef& node, int index, int input) const;
};

// `index` belongs to the item's graph. `threads`: how many of the executor run ops side by side. Fails, and says why,
// where the graph cannot be put in order or is unsound. Throws TooMuch where the deadline passes, and where what nodes
// wait for would fill the memory.
absl::Status ImportGraph(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                         const TensorSizes& sizes, ImportedGraph* imported, const Deadline& deadline = Deadline(),
                         const std::string& device = "", int threads = 1);

// The same with those regions for the planned ones. `hold`: as it will be when the rewrite has added edges that keep
// the iterations apart, of the regions' loops and of others that hold much while they overlap.
absl::Status ImportRegions(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                           const TensorSizes& sizes, const std::vector<int>& regions, bool hold,
                           ImportedGraph* imported, const Deadline& deadline = Deadline(),
                           const std::string& device = "", int threads = 1);

// Fills in the ops' costs, once `sizes` has them: of swaps what the link takes for their bytes (nothing where it is not
// usable).
void ImportCosts(const tensorflow::grappler::GrapplerItem& item, const TensorSizes& sizes, const SwapLink& link,
                 ImportedGraph* imported);

// The same graph with its ops in another order.
ImportedGraph InOrder(const ImportedGraph& imported, const std::vector<OpId>& order);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_H_
