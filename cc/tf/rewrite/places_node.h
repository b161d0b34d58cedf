// The node that tells whose places those of a step's tensors are (tf/runtime/places_op.h).

#ifndef LMS_CC_TF_REWRITE_PLACES_NODE_H_
#define LMS_CC_TF_REWRITE_PLACES_NODE_H_

#include <cstdint>
#include <string>
#include <unordered_set>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Adds the node, for which all of `ops` wait that are outside of loops, and the loops that others are in: what enters
// them on this device does. `index` is that of the graph. The node waits for nothing, so the graph stays acyclic.
// Linear in the graph.
void AddPlacesNode(int64_t number, const std::string& device, const std::unordered_set<std::string>& ops,
                   const GraphIndex& index, tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_PLACES_NODE_H_
