// Where a tensor enters a loop or branches: who reads it there, and where they end.

#ifndef LMS_CC_TF_STOCK_ENTRANCES_H_
#define LMS_CC_TF_STOCK_ENTRANCES_H_

#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

struct Entrance {
  std::vector<int> readers;   // of the tensor; of a loop, in its first iteration
  std::vector<int> ways_out;  // the loop's Exits; the Merges where branches end that it goes into
  bool held = false;          // to the end of the loop
  std::vector<int> gates;     // of a variable of a loop: what must have run for the loop to go on
};

// Does the tensor go into a loop or branches by this input of the node: an Enter, or the data of a Switch? So it does
// by the Switch by which a loop goes on, which is in the loop already.
bool LeadsIn(const tensorflow::NodeDef& node, int input);

// Of a live node that leads in. Linear in what is there.
Entrance LookInto(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops, int node, Pace* pace);

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_ENTRANCES_H_
