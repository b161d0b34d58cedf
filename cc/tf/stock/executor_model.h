// The order in which TensorFlow's executor runs a graph: a model of it, to be run many times.
//
// One thread leaves the executor no choice but one. A node that has run hands on to its readers, those of its tensors
// first and then those that only wait for it, each in the order of the readers' numbers. What becomes ready and is
// cheap (op_traits: RunsInline) joins the queue at hand; of the rest the last one goes there too if that queue is
// empty, and the others to the pool, whose single thread takes the newest first. The exception: the readers of a node
// with more than eight outgoing edges come in an order that changes with every instance of the graph, in one process
// too (edge_order.h). One such node is the source, on which every constant and argument hangs. So a graph has not one
// order but a set of them, and Run() draws one.
//
// With several threads each has a pool of its own: it takes the newest of that, or where there is none the oldest of
// another's. What runs beside what then depends on how long kernels take.
//
// Swaps (swap_ops.cc) are started on the spot and go on beside the threads: each direction of the link carries one at a
// time, or both together do, the most urgent first. What waits for one is handed to the pool when it has ended.
//
// oneDNN's layout pass, which comes after Grappler, has its part in it: it numbers nodes anew (node_numbers.h), and it
// fuses gradients of biases into those of filters. Left out: constants folded later, other kernels that complete
// elsewhere, and that the executor treats a kernel as cheap, too, once it has measured some ninety
// times that it takes less than a few microseconds.

#ifndef LMS_CC_TF_STOCK_EXECUTOR_MODEL_H_
#define LMS_CC_TF_STOCK_EXECUTOR_MODEL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/core/simulate/timed_execution.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/stock/node_numbers.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

class ExecutorModel {
 public:
  // `index` belongs to the graph; both outlive this. `onednn`: is oneDNN in use? `draws`: which orders; of the graphs
  // of several devices always any. `iteration`: which one of each loop. In its middle all that enters it is there; the
  // first may begin without. `arrivals`: nodes whose results have to be copied to the device first, on its link, as
  // what is swapped in. O(n log n) in nodes and inputs.
  enum class Iteration { kFirst, kMiddle };
  ExecutorModel(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn, EdgeDraws draws,
                Iteration iteration = Iteration::kFirst, const std::vector<int>& arrivals = {});

  // The live nodes in an order in which they may run, those of all branches; the same draw gives the same order.
  // Shorter than the live nodes where some never become ready. O(n log n).
  std::vector<int> Run(uint32_t draw) const;

  using Event = ExecutorEvent;
  // The same on `threads` threads, where a node takes so many microseconds (a swap: of the link): the live nodes as
  // they begin and end. `one_lane`: do swaps of both directions follow each other? `dead`, per node: is it in a branch
  // that is not taken? Such nodes are among the events, and take no time. Empty: all branches run. O(n (log n +
  // threads)).
  std::vector<Event> RunOnThreads(uint32_t draw, int threads, const std::vector<double>& microseconds,
                                  bool one_lane = false, const std::vector<bool>& dead = {}) const;

 private:
  class Execution;

  // The nodes with their edges, where they have these numbers.
  ExecutorNodes Connected(const std::vector<int>& order) const;

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const EdgeDraws draws_;
  const Iteration iteration_;
  const std::vector<int> fused_;
  std::vector<ExecutorNode> alone_;  // without edges
  const NodeNumbers numbers_;
  std::optional<ExecutorNodes> fixed_;  // where there is one way to number the nodes
};

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_EXECUTOR_MODEL_H_
