// A graph resolved for following shapes and small values through it: inputs as indices, an order in which they come
// first, and which variables of loops never change.
//
// Built once, then read-only. Linear in nodes and inputs. Inputs that name no node end the list of their node's inputs.

#ifndef LMS_CC_TF_SIZES_SHAPE_GRAPH_H_
#define LMS_CC_TF_SIZES_SHAPE_GRAPH_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op.h"

namespace lms {

struct ShapeNode {
  const tensorflow::NodeDef* def = nullptr;
  const tensorflow::OpRegistrationData* op = nullptr;  // null: not registered
  std::vector<TensorRef> inputs;                       // data, in order
};

class ShapeGraph {
 public:
  // The graph must outlive this.
  explicit ShapeGraph(const tensorflow::GraphDef& graph);

  int size() const { return static_cast<int>(nodes_.size()); }
  const ShapeNode& operator[](int node) const { return nodes_[node]; }
  int Find(std::string_view name) const;  // -1 where there is none
  int producer() const { return producer_; }

  // All nodes, those that others read before these. What goes back around a loop does not count; nor does order within
  // other cycles. `first`: nodes that must come before another one, besides.
  std::vector<int> Order(const std::vector<std::pair<int, int>>& first) const;

  // Of a Merge: the input that comes from the iteration before; -1 where it is no loop's.
  int BackInput(int merge) const;
  // What comes into a loop by this Merge and is handed through every iteration as it is: the tensor that it is outside
  // of the loop. Node -1 where the Merge is none of that kind.
  TensorRef Invariant(int merge) const;

 private:
  std::vector<ShapeNode> nodes_;
  std::unordered_map<std::string_view, int> by_name_;
  int producer_;
};

bool IsMerge(const tensorflow::NodeDef& node);
// Hands on input 0, as it is, as each of its outputs: what leaves, enters and passes loops and branches. No Merge.
bool IsPassage(const tensorflow::NodeDef& node);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_SHAPE_GRAPH_H_
