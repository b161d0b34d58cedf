// The numbers that TensorFlow gives to the nodes of a graph on its way to the executor, which goes by them.
//
// Grappler's topological sort takes nodes first come, first served. oneDNN's layout pass puts nodes of its own at the
// end, in the order of a depth-first search through the graph (mkl_layout_pass.cc; GetReversePostOrder), which depends
// on how the edges of the graph lie in memory (edge_order.h): then there are several ways to number them. After that
// they are sorted again: of those that are ready, the first. Arguments of functions come before all.

#ifndef LMS_CC_TF_NODE_NUMBERS_H_
#define LMS_CC_TF_NODE_NUMBERS_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cc/tf/edge_order.h"
#include "cc/tf/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Does what its readers get come around a loop?
bool ClosesLoop(const std::string& op_type);

// Each node's device, as a number from 0 on. What TensorFlow runs on a device is a graph of its own.
std::vector<int> DeviceNumbers(const tensorflow::GraphDef& graph);

// Numbers for the edges of such graphs; an edge belongs to the graph of the node that it leads to.
class EdgeNumbers {
 public:
  int Next(int device) {
    if (device >= static_cast<int>(next_.size())) next_.resize(device + 1, kSinkEdges);
    return next_[device]++;
  }
  // Of the graph that has most.
  int most() const { return next_.empty() ? kSinkEdges : *std::max_element(next_.begin(), next_.end()); }

 private:
  std::vector<int> next_;
};

class NodeNumbers {
 public:
  // `index` belongs to the graph; `fused`: per node, the one that it is a part of (layout_fusions.h). Both outlive
  // this. `onednn`: is oneDNN in use? O(n) in nodes and edges.
  NodeNumbers(const tensorflow::GraphDef& graph, const GraphIndex& index, const std::vector<int>& fused, bool onednn);

  // Is there only one way to number the nodes?
  bool Fixed() const { return !any_replaced_; }

  // The nodes by their numbers, in one instance of the graph. O(n log n).
  std::vector<int> Draw(std::mt19937* random) const;

 private:
  void SortFirstComeFirstServed();
  void AddEdges();
  std::vector<int> ReversePostOrder(const EdgeOrder& edges) const;
  std::vector<int> Replace(std::mt19937* random) const;
  std::vector<int> SortAgain(const std::vector<int>& order) const;
  std::vector<int> ArgumentsFirst(const std::vector<int>& order) const;

  const GraphIndex& index_;
  const std::vector<int>& fused_;
  std::vector<bool> closes_loop_;
  std::vector<bool> replaced_;  // by nodes of the layout pass
  std::vector<int> devices_;
  std::vector<int> inputs_;     // that a node waits for
  std::vector<int> arguments_;  // of the function, by their index
  bool any_replaced_ = false;
  std::vector<int> order_;  // as Grappler has sorted them
  std::vector<std::vector<ReaderEdge>> readers_;
  std::vector<std::vector<ReaderEdge>> roots_;  // by device
  EdgeNumbers edges_;
};

}  // namespace lms

#endif  // LMS_CC_TF_NODE_NUMBERS_H_
