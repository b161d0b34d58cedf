#include "cc/tf/graph/node_types.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "cc/tf/graph/op_traits.h"
#include "tensorflow/core/framework/memory_types.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

// All of a node that its kernel and the types of what it makes depend on: not its name, inputs, shapes and values.
std::string KernelKey(const NodeDef& node, const std::string& device) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : node.attr()) {
    if (name == "shared_name" || name == "container" || name == "_class") continue;
    switch (value.value_case()) {
      case tensorflow::AttrValue::kShape:
      case tensorflow::AttrValue::kTensor:
        break;
      case tensorflow::AttrValue::kList:
        if (value.list().shape_size() > 0 || value.list().tensor_size() > 0) break;
        [[fallthrough]];
      default:
        parts.push_back(name + '=' + value.SerializeAsString());
    }
  }
  std::sort(parts.begin(), parts.end());
  std::string key = node.op() + '@' + device;
  for (const std::string& part : parts) key += '\n' + std::to_string(part.size()) + ':' + part;
  return key;
}

// Which inputs a kernel of a node's device wants in host memory, and which outputs it leaves there. Each kind of node
// is looked up once: where an op has no kernel TensorFlow goes through all that there are, to say which.
class HostTensors {
 public:
  void Read(const NodeDef& node, NodeTypes* types) {
    const std::string device = DeviceType(node.device());
    if (device == "CPU") return;
    const auto [it, is_new] = known_.try_emplace(KernelKey(node, device));
    Memory& memory = it->second;
    if (is_new && !tensorflow::MemoryTypesForNode(tensorflow::OpRegistry::Global(), tensorflow::DeviceType(device),
                                                  node, &memory.inputs, &memory.outputs)
                       .ok()) {
      memory.inputs.clear();
      memory.outputs.clear();
    }
    Note(memory.inputs, &types->input_on_host);
    Note(memory.outputs, &types->output_on_host);
  }

 private:
  struct Memory {
    tensorflow::MemoryTypeVector inputs, outputs;
  };

  static void Note(const tensorflow::MemoryTypeVector& memory, std::vector<bool>* on_host) {
    for (size_t i = 0; i < memory.size() && i < on_host->size(); ++i) {
      (*on_host)[i] = memory[i] == tensorflow::HOST_MEMORY;
    }
  }

  std::unordered_map<std::string, Memory> known_;
};

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

bool IsGpu(const std::string& device) { return device.find("GPU:") != std::string::npos; }

std::string DeviceType(const std::string& device) {
  // Most nodes of a graph are on the device of the node that was asked for before.
  thread_local std::string asked;
  thread_local std::string type = "CPU";
  if (device == asked) return type;
  tensorflow::DeviceNameUtils::ParsedName parsed;
  const bool known = tensorflow::DeviceNameUtils::ParseFullName(device, &parsed) && parsed.has_type;
  asked = device;
  type = known ? parsed.type : "CPU";
  return type;
}

bool IsPlain(tensorflow::DataType type) {
  return !tensorflow::IsRefType(type) && type != tensorflow::DT_RESOURCE && type != tensorflow::DT_VARIANT &&
         type != tensorflow::DT_STRING && type != tensorflow::DT_INVALID;
}

bool IsHandle(tensorflow::DataType type) { return tensorflow::IsRefType(type) || type == tensorflow::DT_RESOURCE; }

absl::Status ReadNodeTypes(const tensorflow::GraphDef& graph, const GraphIndex& index,
                           const tensorflow::FunctionLibraryDefinition& library, std::vector<NodeTypes>* types) {
  types->resize(index.size());
  HostTensors hosts;
  for (int i = 0; i < index.size(); ++i) {
    if (!index[i].live) continue;
    const NodeDef& node = graph.node(i);
    NodeTypes& found = (*types)[i];
    absl::Status status = library.LookUpOpDef(node.op(), &found.op_def);
    if (status.ok()) status = tensorflow::InOutTypesForNode(node, *found.op_def, &found.inputs, &found.outputs);
    if (!status.ok()) return status;
    found.input_on_host.assign(found.inputs.size(), false);
    found.output_on_host.assign(found.outputs.size(), false);
    hosts.Read(node, &found);
  }
  return CheckPorts(graph, index, *types);
}

}  // namespace lms
