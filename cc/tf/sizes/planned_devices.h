// How many bytes each node makes, and from that the devices that may be planned.

#ifndef LMS_CC_TF_SIZES_PLANNED_DEVICES_H_
#define LMS_CC_TF_SIZES_PLANNED_DEVICES_H_

#include <string>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Of the node's output; not known where `sizes` has none. A swap's handle is on the host; what is swapped in is as
// large as what was swapped out.
TensorSize SizeOfPort(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes, int node,
                      int port);

// The devices of the live nodes, those whose nodes make the most bytes first: GPUs alone, where there are any.
std::vector<std::string> DevicesToPlan(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                       const TensorSizes& sizes, const std::vector<NodeTypes>& types);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_PLANNED_DEVICES_H_
