#include "cc/tf/tensor_sizes.h"

#include <algorithm>

#include "cc/tf/node_names.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/clusters/utils.h"
#include "tensorflow/core/grappler/costs/op_context.h"
#include "tensorflow/core/grappler/costs/op_level_cost_estimator.h"
#include "tensorflow/core/grappler/costs/utils.h"

namespace lms {
namespace {

using tensorflow::OpInfo;
namespace grappler = tensorflow::grappler;

// Bytes per second at which an op of unknown cost is taken to read and write.
constexpr double kUnknownOpBytesPerSecond = 1e10;
// Counting above this would overflow sums of sizes; no real tensor comes near.
constexpr int64_t kMostBytes = int64_t{1} << 50;

TensorSize SizeOf(const OpInfo::TensorProperties& properties, int64_t unknown_dim) {
  TensorSize size;
  const int element = tensorflow::DataTypeSize(tensorflow::BaseType(properties.dtype()));
  if (element == 0 || properties.shape().unknown_rank()) return size;
  size.bytes = element;
  for (const auto& dim : properties.shape().dim()) {
    const bool unknown = dim.size() < 0;
    size.assumed |= unknown;
    const int64_t extent = unknown ? unknown_dim : dim.size();
    if (extent > 0 && size.bytes > kMostBytes / extent) return TensorSize();
    size.bytes *= extent;
  }
  size.known = true;
  return size;
}

void BindUnknownDims(int64_t unknown_dim, OpInfo::TensorProperties* properties) {
  for (auto& dim : *properties->mutable_shape()->mutable_dim()) {
    if (dim.size() < 0) dim.set_size(unknown_dim);
  }
}

int64_t BytesOf(const std::vector<OpInfo::TensorProperties>& tensors, int64_t unknown_dim) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += SizeOf(tensor, unknown_dim).bytes;
  return bytes;
}

class Costs {
 public:
  explicit Costs(grappler::Cluster* cluster) {
    if (cluster != nullptr) devices_ = cluster->GetDevices();
    cpu_ = grappler::GetLocalCPUInfo();
  }

  double MicrosecondsOf(const tensorflow::NodeDef& node,
                        const std::unordered_map<std::string, const tensorflow::NodeDef*>& nodes,
                        std::vector<OpInfo::TensorProperties> inputs, std::vector<OpInfo::TensorProperties> outputs,
                        int64_t unknown_dim) const {
    const double by_bytes_us = static_cast<double>(BytesOf(inputs, unknown_dim) + BytesOf(outputs, unknown_dim)) /
                               kUnknownOpBytesPerSecond * 1e6;
    for (auto& input : inputs) BindUnknownDims(unknown_dim, &input);
    for (auto& output : outputs) BindUnknownDims(unknown_dim, &output);
    grappler::OpContext context;
    context.name = node.name();
    context.device_name = node.device();
    context.op_info = grappler::BuildOpInfoWithoutDevice(node, nodes, inputs);
    for (const auto& output : outputs) *context.op_info.add_outputs() = output;
    const auto device = devices_.find(node.device());
    *context.op_info.mutable_device() = device == devices_.end() ? cpu_ : device->second;
    const grappler::Costs costs = estimator_.PredictCosts(context);
    const double predicted_us = static_cast<double>(costs.execution_time.count()) / 1e3;
    const bool usable = !costs.inaccurate && predicted_us > 0;
    return usable ? predicted_us : std::max(by_bytes_us, predicted_us);
  }

 private:
  grappler::OpLevelCostEstimator estimator_;
  std::unordered_map<std::string, tensorflow::DeviceProperties> devices_;
  tensorflow::DeviceProperties cpu_;
};

}  // namespace

TensorSizes::TensorSizes(const grappler::GrapplerItem& item, int64_t unknown_dim)
    : item_(item), unknown_dim_(unknown_dim), properties_(item) {}

absl::Status TensorSizes::Infer() {
  absl::Status status = properties_.InferStatically(
      /*assume_valid_feeds=*/true, /*aggressive_shape_inference=*/false, /*include_input_tensor_values=*/true,
      /*include_output_tensor_values=*/false);
  if (!status.ok()) return status;
  for (const auto& node : item_.graph.node()) {
    NodeFigures& figures = figures_[node.name()];
    for (const auto& output : properties_.GetOutputProperties(node.name())) {
      figures.outputs.push_back(SizeOf(output, unknown_dim_));
    }
  }
  return status;
}

void TensorSizes::EstimateCosts(grappler::Cluster* cluster) {
  std::unordered_map<std::string, const tensorflow::NodeDef*> nodes;
  for (const auto& node : item_.graph.node()) nodes[node.name()] = &node;
  const Costs costs(cluster);
  for (const auto& node : item_.graph.node()) {
    figures_[node.name()].cost_us =
        costs.MicrosecondsOf(node, nodes, properties_.GetInputProperties(node.name()),
                             properties_.GetOutputProperties(node.name()), unknown_dim_);
  }
}

const NodeFigures& TensorSizes::Of(const std::string& node_name) const {
  auto found = figures_.find(node_name);
  if (found == figures_.end()) found = figures_.find(OriginalName(node_name));
  return found == figures_.end() ? none_ : found->second;
}

}  // namespace lms
