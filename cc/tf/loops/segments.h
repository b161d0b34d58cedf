// Loops whose gradients compute again what lists would hold, a segment of iterations at a time.
//
// The forward loop keeps its state at the beginning of every k-th iteration alone. The gradient goes through the
// segments from the last to the first: where it comes to one, the forward body runs again from the state that was kept,
// through all of the segment's iterations, and fills the lists that the gradient then pops. With n iterations, states
// of s bytes and e bytes of elements in one iteration the lists hold n / k * s + k * e bytes, least at k = sqrt(n * s /
// e), in place of n * e; everything in the body runs once more. (Checkpoints in time: Chen et al., "Training deep nets
// with sublinear memory cost", 2016; Griewank, "Achieving logarithmic growth of temporal and spatial complexity in
// reverse automatic differentiation", 1992.)

#ifndef LMS_CC_TF_LOOPS_SEGMENTS_H_
#define LMS_CC_TF_LOOPS_SEGMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loop_variables.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/loops/list_chains.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

// A tensor of the forward body that nothing computes again: a list brings it, by the number of the iteration.
struct IndexedTensor {
  TensorRef tensor;
  tensorflow::DataType dtype;
};

struct LoopSegments {
  struct State {
    LoopVariable variable;
    tensorflow::DataType dtype;
  };

  GradientLoop loop;          // its chains: those whose elements are computed again
  std::vector<State> states;  // kept at the beginning of each segment
  std::vector<int> counters;  // variables (their Switches) that count iterations from 0
  std::vector<IndexedTensor> indexed;
  std::vector<bool> runs_again;  // per node of the graph
  int64_t trips = 0;
  int64_t length = 0;       // of a segment, in iterations
  int64_t states_kept = 0;  // of each state
  int64_t bytes = 0;        // that lists hold less
  double cost_us = 0;       // of what runs again, in all iterations
};

// One for each loop that holds less so; none for loops that go round nobody knows how often. `device`: of the lists.
// `graph` is the one that `index` and `types` are of, `sizes` that or the one that it was made from. Throws TooMuch
// where the deadline passes.
std::vector<LoopSegments> FindLoopSegments(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                           const TensorSizes& sizes, const std::vector<NodeTypes>& types,
                                           const std::string& device, const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_SEGMENTS_H_
