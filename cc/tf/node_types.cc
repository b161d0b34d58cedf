#include "cc/tf/node_types.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "cc/tf/op_traits.h"
#include "cc/tf/swap_ops.h"
#include "tensorflow/core/framework/memory_types.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

// Which outputs a kernel of the node's device leaves in host memory.
void ReadHostOutputs(const NodeDef& node, std::vector<bool>* output_on_host) {
  const std::string device = DeviceType(node.device());
  if (device == "CPU") return;
  tensorflow::MemoryTypeVector inputs;
  tensorflow::MemoryTypeVector outputs;
  if (!tensorflow::MemoryTypesForNode(tensorflow::OpRegistry::Global(), tensorflow::DeviceType(device), node, &inputs,
                                      &outputs)
           .ok()) {
    return;
  }
  for (size_t port = 0; port < outputs.size() && port < output_on_host->size(); ++port) {
    (*output_on_host)[port] = outputs[port] == tensorflow::HOST_MEMORY;
  }
}

absl::Status CheckPorts(const tensorflow::GraphDef& graph, const GraphIndex& index,
                        const std::vector<NodeTypes>& types) {
  for (int i = 0; i < index.size(); ++i) {
    if (!index[i].live) continue;
    if (index[i].inputs.size() != types[i].inputs.size()) {
      return absl::InvalidArgumentError(graph.node(i).name() + " has another number of inputs than its op takes");
    }
    for (const TensorRef& input : index[i].inputs) {
      if (input.port < static_cast<int>(types[input.node].outputs.size())) continue;
      return absl::InvalidArgumentError(graph.node(i).name() + " reads output " + std::to_string(input.port) + " of " +
                                        graph.node(input.node).name() + ", which has fewer");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string DeviceType(const std::string& device) {
  tensorflow::DeviceNameUtils::ParsedName parsed;
  if (!tensorflow::DeviceNameUtils::ParseFullName(device, &parsed) || !parsed.has_type) return "CPU";
  return parsed.type;
}

bool IsPlain(tensorflow::DataType type) {
  return !tensorflow::IsRefType(type) && type != tensorflow::DT_RESOURCE && type != tensorflow::DT_VARIANT &&
         type != tensorflow::DT_STRING && type != tensorflow::DT_INVALID;
}

bool IsHandle(tensorflow::DataType type) { return tensorflow::IsRefType(type) || type == tensorflow::DT_RESOURCE; }

absl::Status ReadNodeTypes(const tensorflow::GraphDef& graph, const GraphIndex& index,
                           const tensorflow::FunctionLibraryDefinition& library, std::vector<NodeTypes>* types) {
  types->resize(index.size());
  for (int i = 0; i < index.size(); ++i) {
    if (!index[i].live) continue;
    const NodeDef& node = graph.node(i);
    NodeTypes& found = (*types)[i];
    absl::Status status = library.LookUpOpDef(node.op(), &found.op_def);
    if (status.ok()) status = tensorflow::InOutTypesForNode(node, *found.op_def, &found.inputs, &found.outputs);
    if (!status.ok()) return status;
    found.output_on_host.assign(found.outputs.size(), false);
    ReadHostOutputs(node, &found.output_on_host);
  }
  return CheckPorts(graph, index, *types);
}

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
    const NodeDef& node = graph.node(i);
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
