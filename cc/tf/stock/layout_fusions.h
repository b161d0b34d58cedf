// What oneDNN's layout pass, which comes after Grappler, makes one node of two: of nodes on the CPU, no others.
//
// It looks at data alone: an edge that leads out of one of the two and, by whatever way, into the other is a cycle
// afterwards, and the function cannot be instantiated. So nothing that is added may wait for the first of such a pair,
// and whatever waits for it counts as waiting for the second one, too.
//
// The one kernel may add up in another order than the two. A pair that stock TensorFlow joins is therefore to be joined
// in the rewritten graph as well, and no other: the pass joins two only where both wait for the same nodes, and a
// padding only with the one convolution that reads it.

#ifndef LMS_CC_TF_STOCK_LAYOUT_FUSIONS_H_
#define LMS_CC_TF_STOCK_LAYOUT_FUSIONS_H_

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Per node: the one that it is fused into and runs as a part of, or itself. A gradient of a bias goes into the gradient
// of the filter that reads the same tensor in the same region, and waits for the same nodes. Without oneDNN every node
// is itself. Linear in nodes and readers.
std::vector<int> FusedInto(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn);

// Gradients of biases that might go into any of several gradients of filters, as all of these read the same tensor,
// each with one of those that FusedInto() does not name. Which one it is depends on the instance of the graph.
struct OtherFusion {
  int node;
  int into;
};
std::vector<OtherFusion> OtherFusions(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn);

// The pooling that hands its gradient `node` what it has noted beside its result (where each maximum was), as the
// gradient reads that result itself; -1 where there is none. A gradient that is handed nothing finds it out again: with
// scratch memory, and where windows overlap with other last bits.
int HandedNotesBy(const tensorflow::GraphDef& graph, const GraphIndex& index, int node, bool onednn);

// Per node: might it be fused into a reader? Those above, and paddings of convolutions.
std::vector<bool> MayBeFused(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn);

// The pairs of a graph as it comes, and what keeps them as they are, joined or apart, in the graph rewritten.
class Fusions {
 public:
  // The graph is only read here.
  Fusions(const tensorflow::GraphDef& graph, bool onednn);

  // Does the node become a part of another, whose inputs it reads?
  bool Follows(int node) const { return followers_.count(node) != 0; }

  // `rewritten`: the same graph with nodes added behind those that it had, and other inputs. Adds waits, each one for
  // what the pair waits for anyway: where two are to be joined, both wait for what one of them waits for. Linear.
  void Keep(tensorflow::GraphDef* rewritten) const;

 private:
  bool Joined(const std::string& padding, const std::string& convolution) const;

  std::unordered_set<int> followers_;
  std::vector<OtherFusion> pairs_;                           // of gradients, by their numbers
  std::unordered_map<std::string, std::string> of_padding_;  // by its name: the convolution that it is joined with
  bool onednn_;
};

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_LAYOUT_FUSIONS_H_
