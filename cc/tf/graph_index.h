// A GraphDef resolved for reading: nodes by name, inputs as indices, and where control flow leaves a node.
//
// Built once per graph, then read-only. Fails where an input names a node that is not there.

#ifndef LMS_CC_TF_GRAPH_INDEX_H_
#define LMS_CC_TF_GRAPH_INDEX_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

struct TensorRef {
  int node;
  int port;
  bool operator==(const TensorRef& other) const { return node == other.node && port == other.port; }
};

struct NodeIndex {
  std::vector<TensorRef> inputs;  // data, in order
  std::vector<int> controls;
  std::vector<int> readers;  // nodes that read an output or wait for the node; may repeat
  bool live = false;         // runs in every step, or in the branches and loops that it belongs to
  bool in_frame = false;     // inside a while loop
  bool conditional = false;  // runs only in some branch
  int cycle = -1;            // the cycle of a loop that the node is on: index for GraphIndex::CycleEnds()
};

class GraphIndex {
 public:
  absl::Status Build(const tensorflow::grappler::GrapplerItem& item);

  int Find(const std::string& name) const;  // -1 when there is none
  const NodeIndex& operator[](int node) const { return nodes_[node]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  // Fetched, fed or otherwise not to be touched by name.
  bool Preserved(int node) const { return preserved_[node]; }
  // The NextIteration nodes of a cycle. What reads from a cycle and is not on it runs after all of them (an Exit after
  // the last iteration), and every node of the cycle leads to one without passing another.
  const std::vector<int>& CycleEnds(int cycle) const { return cycle_ends_[cycle]; }

 private:
  absl::Status Resolve(const tensorflow::GraphDef& graph);
  void FindPreserved(const tensorflow::grappler::GrapplerItem& item);
  void FindLive(const tensorflow::grappler::GrapplerItem& item);
  void FindFrames(const tensorflow::GraphDef& graph);
  void FindCycles(const tensorflow::GraphDef& graph);
  void FindBranches(const tensorflow::GraphDef& graph);

  std::vector<NodeIndex> nodes_;
  std::vector<bool> preserved_;
  std::vector<std::vector<int>> cycle_ends_;
  std::unordered_map<std::string, int> by_name_;
};

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_INDEX_H_
