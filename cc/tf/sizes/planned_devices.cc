#include "cc/tf/sizes/planned_devices.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

TensorSize SizeOfPort(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes, int node,
                      int port) {
  for (int steps = 0; IsSwap(graph.node(node).op()); ++steps) {
    if (graph.node(node).op() == kSwapOutOp && steps == 0) return {0, /*known=*/true, false};
    if (steps > index.size() || index[node].inputs.empty()) return TensorSize();
    port = index[node].inputs[0].port;
    node = index[node].inputs[0].node;
  }
  const std::vector<TensorSize>& outputs = sizes.Of(graph.node(node).name()).outputs;
  return port < static_cast<int>(outputs.size()) ? outputs[port] : TensorSize();
}

std::vector<std::string> DevicesToPlan(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                       const TensorSizes& sizes, const std::vector<NodeTypes>& types) {
  std::map<std::string, int64_t> bytes;
  bool any_gpu = false;
  for (int i = 0; i < index.size(); ++i) {
    if (!index[i].live) continue;
    const tensorflow::NodeDef& node = graph.node(i);
    any_gpu |= DeviceType(node.device()) == "GPU";
    int64_t& sum = bytes[node.device()];
    for (size_t port = 0; port < types[i].outputs.size(); ++port) {
      sum += SizeOfPort(graph, index, sizes, i, static_cast<int>(port)).bytes;
    }
  }
  std::vector<std::string> devices;
  for (const auto& [device, sum] : bytes) {
    if (!any_gpu || DeviceType(device) == "GPU") devices.push_back(device);
  }
  std::stable_sort(devices.begin(), devices.end(),
                   [&bytes](const std::string& a, const std::string& b) { return bytes.at(a) > bytes.at(b); });
  return devices;
}

}  // namespace lms
