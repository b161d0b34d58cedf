// A GraphDef resolved for reading: nodes by name, inputs as indices, and where control flow leaves a node.
//
// A region is a set of nodes that always run together: of one frame (one iteration of one loop, or the graph outside of
// all loops) and under the same conditions (outcomes of branches, and that the loop goes on). Region 0 runs once in
// every step.
//
// Built once per graph, then read-only. Fails where an input names a node that is not there. Throws TooMuch where the
// deadline passes, and where loops or branches are nested so deeply that the conditions alone would fill the memory.
// O(n log n) where they are not nested.

#ifndef LMS_CC_TF_GRAPH_GRAPH_INDEX_H_
#define LMS_CC_TF_GRAPH_GRAPH_INDEX_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

struct TensorRef {
  int node;
  int port;
  bool operator==(const TensorRef& other) const { return node == other.node && port == other.port; }
};

// To sort and find tensors by.
using TensorKey = std::pair<int, int>;  // node, port
inline TensorKey KeyOf(const TensorRef& tensor) { return {tensor.node, tensor.port}; }

// A tensor as the inputs of nodes name it.
inline std::string InputName(const std::string& node, int port) {
  return port == 0 ? node : node + ":" + std::to_string(port);
}

struct NodeIndex {
  std::vector<TensorRef> inputs;  // data, in order
  std::vector<int> controls;
  std::vector<int> readers;  // nodes that read an output or wait for the node; may repeat
  bool live = false;         // runs in every step, or in the branches and loops that it belongs to
  bool root = false;         // live, whatever depends on it: preserved, or with an effect in a function
  bool in_frame = false;     // inside a while loop
  bool conditional = false;  // runs only in some branch
  int cycle = -1;            // the cycle of a loop that the node is on: index for GraphIndex::CycleEnds()
  int frame = -1;            // index for GraphIndex::frame(); 0: outside of all loops; -1: the graph is not clear
  int region = -1;           // index for GraphIndex::region(); -1: the graph is not clear
};

// What a loop runs in; an Enter and an Exit belong to the loop.
struct Frame {
  std::string name;
  int parent = -1;
  int loop_cond = -1;     // the node that decides whether it goes on
  std::vector<int> ends;  // its NextIteration nodes
};

// The predicate (a node's output) has the outcome: the port of a Switch. Port -1: some input of the Merge arrives.
struct Condition {
  int node;
  int port;
  int outcome;
  bool operator<(const Condition& other) const {
    return std::tie(node, port, outcome) < std::tie(other.node, other.port, other.outcome);
  }
  bool operator==(const Condition& other) const {
    return node == other.node && port == other.port && outcome == other.outcome;
  }
};

struct Region {
  int frame = 0;
  std::set<Condition> conditions;  // all hold where the region runs
};

class GraphIndex {
 public:
  absl::Status Build(const tensorflow::grappler::GrapplerItem& item, const Deadline& deadline = Deadline());

  int Find(std::string_view name) const;  // -1 when there is none
  const NodeIndex& operator[](int node) const { return nodes_[node]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  // Fetched, fed or otherwise not to be touched by name.
  bool Preserved(int node) const { return preserved_[node]; }
  // Of those: fetched or fed. The caller holds what it makes until the step has ended; of the others nobody does.
  bool Fetched(int node) const { return fetched_[node]; }
  // The NextIteration nodes of a cycle. What reads from a cycle and is not on it runs after all of them (an Exit after
  // the last iteration), and every node of the cycle leads to one without passing another.
  const std::vector<int>& CycleEnds(int cycle) const { return cycle_ends_[cycle]; }

  int frames() const { return static_cast<int>(frames_.size()); }
  const Frame& frame(int frame) const { return frames_[frame]; }
  int regions() const { return static_cast<int>(regions_.size()); }
  const Region& region(int region) const { return regions_[region]; }
  // Is `inner` a loop within `outer`, at any depth? Not when they are one.
  bool Within(int inner, int outer) const;
  // Wherever and whenever a node of region `b` runs, do those of `a` run too, in the same iteration? Then one of `b`
  // may wait for one of `a`.
  bool Implies(int b, int a) const;
  // Do nodes of the two never both run, in one iteration of all loops that both are in? They are where a predicate that
  // is decided once in such an iteration has different outcomes.
  bool Exclusive(int a, int b) const;
  // Is the node of the other graph in the same loop and branch as this graph's? Nodes that both graphs have must have
  // the same numbers.
  bool SamePlace(int node, const GraphIndex& other, int other_node) const;

 private:
  absl::Status Resolve(const tensorflow::GraphDef& graph);
  void FindPreserved(const tensorflow::grappler::GrapplerItem& item);
  void FindLive(const tensorflow::grappler::GrapplerItem& item);
  void FindFrames(const tensorflow::GraphDef& graph, Pace* pace);
  void FindCycles(const tensorflow::GraphDef& graph);
  void FindBranches(const tensorflow::GraphDef& graph, Pace* pace);
  int FrameOf(const tensorflow::GraphDef& graph, int node);
  int RegionOf(int node, const std::set<Condition>& conditions);

  std::vector<NodeIndex> nodes_;
  std::vector<bool> preserved_;
  std::vector<bool> fetched_;
  std::vector<std::vector<int>> cycle_ends_;
  std::vector<Frame> frames_;
  std::map<std::pair<int, std::string>, int> frame_ids_;  // by what is around it and its name
  std::vector<Region> regions_;
  std::map<std::pair<int, std::set<Condition>>, int> region_ids_;
  absl::flat_hash_map<std::string, int> by_name_;
};

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_GRAPH_INDEX_H_
