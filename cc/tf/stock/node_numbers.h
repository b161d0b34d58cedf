// The numbers that TensorFlow gives to the nodes of a graph on its way to the executor, which goes by them.
//
// Grappler's topological sort takes nodes first come, first served. oneDNN's layout pass puts nodes of its own at the
// end, in the order of a depth-first search (layout_search.h), which depends on how the edges of the graph lie in
// memory: then there are several ways to number them. After that they are sorted again: of those that are ready, the
// first. Arguments of functions come before all. (Held against the logs of that pass and of the executor, TensorFlow
// 2.21: a step of 136 nodes, optimised 49 times, and one of 1,467 have exactly these numbers.)

#ifndef LMS_CC_TF_STOCK_NODE_NUMBERS_H_
#define LMS_CC_TF_STOCK_NODE_NUMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/simulate/edge_order.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Does what its readers get come around a loop?
bool ClosesLoop(const std::string& op_type);

class NodeNumbers {
 public:
  // `index` belongs to the graph; `fused`: per node, the one that it is a part of (layout_fusions.h). Both outlive
  // this. `onednn`: is oneDNN in use? `draws`: of the orders of the search; with kAny there is none. O(n) in nodes and
  // edges.
  NodeNumbers(const tensorflow::GraphDef& graph, const GraphIndex& index, const std::vector<int>& fused, bool onednn,
              EdgeDraws draws);

  // Is there only one way to number the nodes?
  bool Fixed() const { return !any_replaced_ || draws_ == EdgeDraws::kAny; }

  // The nodes by their numbers, in the given draw. O(n log n).
  std::vector<int> Draw(uint32_t draw) const;

 private:
  void SortFirstComeFirstServed();
  void AddEdges();
  std::vector<int> Search(uint32_t draw) const;
  std::vector<int> SortAgain(const std::vector<int>& order) const;
  std::vector<int> ArgumentsFirst(const std::vector<int>& order) const;

  const GraphIndex& index_;
  const std::vector<int>& fused_;
  const EdgeDraws draws_;
  std::vector<bool> closes_loop_;
  std::vector<bool> replaced_;           // by nodes of the layout pass
  std::vector<int> inputs_;              // that a node waits for
  std::vector<std::vector<int>> parts_;  // by node: what is fused into it
  std::vector<int> arguments_;           // of the function, by their index
  bool any_replaced_ = false;
  bool any_fused_ = false;
  std::vector<int> order_;                        // as Grappler has sorted them
  std::vector<std::vector<ReaderEdge>> readers_;  // in the graph that is searched
  std::vector<ReaderEdge> roots_;
  int edges_ = kSinkEdges;
};

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_NODE_NUMBERS_H_
