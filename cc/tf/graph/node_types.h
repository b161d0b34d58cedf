// What each node takes and makes: its op, the types of its inputs and outputs, and which outputs are in host memory.
//
// Linear in nodes and ports.

#ifndef LMS_CC_TF_GRAPH_NODE_TYPES_H_
#define LMS_CC_TF_GRAPH_NODE_TYPES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/types.h"

namespace lms {

struct NodeTypes {
  const tensorflow::OpDef* op_def = nullptr;  // the library's or the registry's
  tensorflow::DataTypeVector inputs;
  tensorflow::DataTypeVector outputs;
  std::vector<bool> input_on_host;   // though the node is on another device
  std::vector<bool> output_on_host;  // likewise
};

// "CPU" or "GPU", say, from a device's full name; "CPU" where it does not say.
std::string DeviceType(const std::string& device);

// Is it the name of a GPU, full or short?
bool IsGpu(const std::string& device);

// Is a tensor of the type bytes and nothing else, which may be copied and made once more?
bool IsPlain(tensorflow::DataType type);

// Handles of variables: of one buffer, whoever has them.
bool IsHandle(tensorflow::DataType type);

// Of all live nodes; those of others stay empty. `index` belongs to the graph; the library must outlive `types`. Fails
// where an op is not known, a node has another number of inputs than its op takes, or reads an output that is not
// there.
absl::Status ReadNodeTypes(const tensorflow::GraphDef& graph, const GraphIndex& index,
                           const tensorflow::FunctionLibraryDefinition& library, std::vector<NodeTypes>* types);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_NODE_TYPES_H_
