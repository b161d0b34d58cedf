#include "cc/tf/sizes/tensor_sizes.h"

#include <algorithm>

#include "cc/core/base/words.h"
#include "cc/core/graph/node_names.h"
#include "cc/core/options/recorded_shapes.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/sizes/gpu_prices.h"
#include "cc/tf/sizes/list_shapes.h"
#include "cc/tf/sizes/op_key.h"
#include "cc/tf/sizes/row_slices.h"
#include "cc/tf/sizes/sized_op.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/sizes/workspace.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/grappler/clusters/utils.h"
#include "tensorflow/core/grappler/costs/op_context.h"
#include "tensorflow/core/grappler/costs/op_level_cost_estimator.h"
#include "tensorflow/core/grappler/costs/utils.h"
#include "tensorflow/core/platform/cpu_info.h"

namespace lms {
namespace {

using tensorflow::OpInfo;
namespace grappler = tensorflow::grappler;

// Bytes per second at which an op of unknown cost is taken to read and write, where the device does not say.
constexpr double kUnknownOpBytesPerSecond = 1e10;

TensorSize SizeOf(const OpInfo::TensorProperties& properties, int64_t unknown_dim) {
  TensorSize size;
  const int element = tensorflow::DataTypeSize(tensorflow::BaseType(properties.dtype()));
  if (element == 0 || properties.shape().unknown_rank()) return size;
  size.bytes = element;
  for (const auto& dim : properties.shape().dim()) {
    const bool unknown = dim.size() < 0;
    if (unknown) size.assumptions = kUnnamedAssumption;
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

std::vector<OpInfo::TensorProperties> Bound(std::vector<OpInfo::TensorProperties> tensors, int64_t unknown_dim) {
  for (auto& tensor : tensors) BindUnknownDims(unknown_dim, &tensor);
  return tensors;
}

int64_t AllBytesOf(const std::vector<OpInfo::TensorProperties>& tensors, int64_t unknown_dim) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += SizeOf(tensor, unknown_dim).bytes;
  return bytes;
}

// The remapper's fused ops as the estimator knows them: the main op alone, which is nearly all of the work. The number
// is how many of the inputs belong to it.
struct MainOp {
  const char* fused;
  const char* main;
  size_t inputs;
};
constexpr MainOp kMainOps[] = {{"_FusedConv2D", "Conv2D", 2},
                               {"_FusedConv3D", "Conv3D", 2},
                               {"_FusedDepthwiseConv2dNative", "DepthwiseConv2dNative", 2},
                               {"_FusedMatMul", "MatMul", 2},
                               {"_FusedBatchMatMulV2", "BatchMatMulV2", 2},
                               {"_FusedBatchNormEx", "FusedBatchNormV3", 5}};

// The main op of a fused one with so many inputs; null where it is none.
const MainOp* FindMainOp(const std::string& op_type, size_t inputs) {
  const auto* const found = std::find_if(std::begin(kMainOps), std::end(kMainOps),
                                         [&](const MainOp& known) { return op_type == known.fused; });
  return found == std::end(kMainOps) || inputs < found->inputs ? nullptr : found;
}

tensorflow::NodeDef Unfused(const tensorflow::NodeDef& node, const MainOp& main) {
  tensorflow::NodeDef unfused = node;
  unfused.set_op(main.main);
  unfused.mutable_input()->DeleteSubrange(static_cast<int>(main.inputs),
                                          unfused.input_size() - static_cast<int>(main.inputs));
  return unfused;
}

// What a core does per cycle in the kernels that count (matrix products, convolutions). The estimator takes a CPU for
// one operation per core and cycle, which makes a convolution look 30 times as dear as it is beside an elementwise op.
// Measured on an AVX-512 machine (2 cores, 2.21): 150 to 200 GFLOP/s where cores x frequency is 5 G/s; with AVX2 alone
// the vectors are half as wide, with SSE a quarter.
int OperationsPerCycle() {
  using tensorflow::port::CPUFeature;
  using tensorflow::port::TestCPUFeature;
  if (TestCPUFeature(CPUFeature::AVX512F)) return 32;
  if (TestCPUFeature(CPUFeature::AVX2)) return 16;
  return 8;
}

tensorflow::DeviceProperties AsWide(tensorflow::DeviceProperties device) {
  if (device.type() == "CPU") device.set_num_cores(device.num_cores() * OperationsPerCycle());
  return device;
}

// How much longer some kernels take than the estimator says, beside a matrix product of which it says the same.
// Measured on a CPU with AVX-512, 6 MB of floats: functions that are not vectorised, and a batched Einsum, which
// transposes.
double DearerThanEstimated(const std::string& op_type) {
  static const auto* const factors =
      new std::unordered_map<std::string, double>{{"Erf", 2}, {"Erfc", 8}, {"Exp", 2.5}, {"Einsum", 2.5}};
  const auto found = factors->find(op_type);
  return found == factors->end() ? 1 : found->second;
}

// A GPU's own figure: it moves many times what a CPU does, by whose figure a mean or the gradient of a bias would be
// dearer than the convolution beside it. A CPU's own is nominal, and no op of unknown cost reaches it.
double UnknownOpBytesPerSecond(const tensorflow::DeviceProperties& device) {
  const bool known = device.type() == "GPU" && device.bandwidth() > 0;
  return known ? static_cast<double>(device.bandwidth()) * 1e3 : kUnknownOpBytesPerSecond;  // of KB per second
}

absl::Status InferShapes(grappler::GraphProperties* properties) {
  return properties->InferStatically(
      /*assume_valid_feeds=*/true, /*aggressive_shape_inference=*/false, /*include_input_tensor_values=*/true,
      /*include_output_tensor_values=*/false);
}

// Of linking tensor lists: what is known of one may tell the elements of another, or how many there are.
constexpr int kMostRounds = 3;

class Costs {
 public:
  explicit Costs(grappler::Cluster* cluster) {
    if (cluster != nullptr) {
      for (const auto& [name, device] : cluster->GetDevices()) devices_[name] = AsWide(device);
    }
    cpu_ = AsWide(grappler::GetLocalCPUInfo());
  }

  double MicrosecondsOf(const tensorflow::NodeDef& node,
                        const std::unordered_map<std::string, const tensorflow::NodeDef*>& nodes,
                        std::vector<OpInfo::TensorProperties> inputs, std::vector<OpInfo::TensorProperties> outputs,
                        int64_t copied_bytes, int64_t unknown_dim) const {
    const auto found = devices_.find(node.device());
    const tensorflow::DeviceProperties& device = found == devices_.end() ? cpu_ : found->second;
    const double by_bytes_us = static_cast<double>(AllBytesOf(inputs, unknown_dim) + AllBytesOf(outputs, unknown_dim)) /
                               UnknownOpBytesPerSecond(device) * 1e6;
    const MainOp* const main = FindMainOp(node.op(), inputs.size());
    if (main != nullptr) inputs.resize(main->inputs);
    for (auto& input : inputs) BindUnknownDims(unknown_dim, &input);
    for (auto& output : outputs) BindUnknownDims(unknown_dim, &output);
    grappler::OpContext context;
    context.name = node.name();
    context.device_name = node.device();
    if (main == nullptr) {
      context.op_info = grappler::BuildOpInfoWithoutDevice(node, nodes, inputs);
    } else {
      context.op_info = grappler::BuildOpInfoWithoutDevice(Unfused(node, *main), nodes, inputs);
    }
    for (auto& output : outputs) *context.op_info.add_outputs() = std::move(output);
    tensorflow::DeviceProperties* const estimated = context.op_info.mutable_device();
    *estimated = AsEstimated(device);
    const tensorflow::DataType made =
        context.op_info.outputs_size() == 0 ? tensorflow::DT_INVALID : context.op_info.outputs(0).dtype();
    estimated->set_frequency(estimated->frequency() * TensorCoreFactor(device, context.op_info.op(), made));
    const grappler::Costs costs = estimator_.PredictCosts(context);
    const double predicted_us = static_cast<double>(costs.execution_time.count()) / 1e3;
    const bool usable = !costs.inaccurate && predicted_us > 0;
    double us = usable ? predicted_us : std::max(by_bytes_us, predicted_us);
    us *= device.type() == "GPU" ? DearerOnGpu(device, context.op_info) : DearerThanEstimated(context.op_info.op());
    us += 2 * static_cast<double>(copied_bytes) / UnknownOpBytesPerSecond(device) * 1e6;
    return std::max(us, LeastMicroseconds(device, node));
  }

 private:
  grappler::OpLevelCostEstimator estimator_;
  std::unordered_map<std::string, tensorflow::DeviceProperties> devices_;
  tensorflow::DeviceProperties cpu_;
};

}  // namespace

int64_t VariableBytes(const tensorflow::NodeDef& node) {
  OpInfo::TensorProperties properties;
  const auto attr = [&node](const char* name) {
    const auto found = node.attr().find(name);
    return found == node.attr().end() ? nullptr : &found->second;
  };
  if (node.op() == "VarHandleOp") {
    if (attr("dtype") == nullptr || attr("shape") == nullptr) return 0;
    properties.set_dtype(attr("dtype")->type());
    *properties.mutable_shape() = attr("shape")->shape();
  } else {
    const auto* types = attr("_handle_dtypes");
    const auto* shapes = attr("_handle_shapes");
    if (types == nullptr || shapes == nullptr || types->list().type_size() == 0 || shapes->list().shape_size() == 0) {
      return 0;
    }
    properties.set_dtype(types->list().type(0));
    *properties.mutable_shape() = shapes->list().shape(0);
  }
  const TensorSize size = SizeOf(properties, /*unknown_dim=*/1);
  return size.assumptions != 0 ? 0 : size.bytes;
}

TensorSizes::TensorSizes(const grappler::GrapplerItem& item, int64_t unknown_dim)
    : item_(item), original_(item), unknown_dim_(unknown_dim) {}

TensorSizes::TensorSizes(const Dimensions* dimensions)
    : item_(dimensions->item()),
      original_(dimensions->original()),
      dimensions_(dimensions),
      unknown_dim_(dimensions->rest()) {}

absl::Status TensorSizes::Infer(const Deadline& deadline, const Watch& watch) {
  deadline.Check();
  values_.reset();
  nodes_.clear();
  nodes_.reserve(item_.graph.node_size());
  for (const auto& node : item_.graph.node()) nodes_.emplace(node.name(), &node);
  properties_ = std::make_unique<grappler::GraphProperties>(item_);
  absl::Status status = InferShapes(properties_.get());
  if (!status.ok()) return status;
  deadline.Check();
  values_ = dimensions_ == nullptr
                ? std::make_unique<ShapeValues>(item_.graph, *properties_, unknown_dim_, no_labels_)
                : std::make_unique<ShapeValues>(item_.graph, *properties_, unknown_dim_, dimensions_->open(),
                                                dimensions_->recorded(), dimensions_->seen());
  if (watch) watch(true);
  values_->Refine(deadline);
  if (watch) watch(false);
  return ReadSizes();
}

absl::Status TensorSizes::InferLists(const GraphIndex& index, const Deadline& deadline, const Watch& watch) {
  if (!ReadsLists(item_.graph)) return absl::OkStatus();
  const Loops loops(item_.graph, index);
  for (int round = 0; round < kMostRounds; ++round) {
    const TensorLists lists(item_.graph, index, *this, loops);
    if (watch) watch(true);
    const bool refined = values_->Refine(LinkLists(item_.graph, index, lists), deadline);
    if (watch) watch(false);
    if (!refined) break;
    const absl::Status status = ReadSizes();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

const std::vector<std::vector<std::string>>& TensorSizes::assumptions() const {
  static const auto* const none = new std::vector<std::vector<std::string>>();
  return values_ == nullptr ? *none : values_->assumptions();
}

std::vector<ShapeValues::OpenNode> TensorSizes::OpenNodes() const {
  return values_ == nullptr ? std::vector<ShapeValues::OpenNode>() : values_->OpenNodes();
}

std::vector<std::string> TensorSizes::RecordedLines() const {
  return values_ == nullptr ? std::vector<std::string>() : values_->RecordedLines();
}

std::vector<std::string> TensorSizes::RecordedLoops() const {
  std::vector<std::string> lines;
  for (const auto& node : item_.graph.node()) {
    const int64_t trips = node.op() == "LoopCond" ? RecordedTrips(node.name()) : -1;
    if (trips >= 0) lines.push_back(node.name() + " = " + Counted(trips, "iteration") + " (earlier steps)");
  }
  return lines;
}

int64_t TensorSizes::RecordedTrips(const std::string& loop_cond) const {
  if (dimensions_ == nullptr) return -1;
  const auto found = dimensions_->recorded().find(TripsKey(loop_cond));
  return found == dimensions_->recorded().end() || found->second.size() != 1 ? -1 : found->second[0];
}

int64_t TensorSizes::EarlierConstants(const std::string& device) const {
  if (dimensions_ == nullptr) return 0;
  const auto found = dimensions_->earlier_constants().find(device);
  return found == dimensions_->earlier_constants().end() ? 0 : found->second;
}

std::vector<std::string> TensorSizes::SeenLines() const {
  return values_ == nullptr ? std::vector<std::string>() : values_->SeenLines();
}

std::optional<int64_t> TensorSizes::ScalarOf(const std::string& node, int port) const {
  return values_ == nullptr ? std::nullopt : values_->ScalarOf(node, port);
}

const CallBody* TensorSizes::BodyOf(const std::string& node) const {
  return dimensions_ == nullptr ? nullptr : dimensions_->calls().Of(node);
}

const std::vector<OpInfo::TensorProperties>& TensorSizes::OutputsOf(const std::string& node,
                                                                    std::vector<OpInfo::TensorProperties>* made) const {
  const CallBody* body = BodyOf(node);
  if (body == nullptr) return values_->OutputsOf(node);
  *made = values_->OutputsOf(node);
  made->resize(std::max(made->size(), body->results.size()));
  for (size_t port = 0; port < body->results.size(); ++port) {
    const tensorflow::TensorId result = tensorflow::ParseTensorName(body->results[port]);
    const auto& inside = values_->OutputsOf(std::string(result.node()));
    if (static_cast<size_t>(result.index()) < inside.size()) (*made)[port] = inside[result.index()];
  }
  return *made;
}

std::vector<OpInfo::TensorProperties> TensorSizes::BoundInputsOf(const std::string& node) const {
  return Bound(values_->InputsOf(node), unknown_dim_);
}

void TensorSizes::UseDevices(grappler::Cluster* cluster) {
  gpus_.clear();
  if (cluster == nullptr) return;
  for (const auto& [name, device] : cluster->GetDevices()) {
    if (device.type() == "GPU") gpus_[name] = GpuKernels::Of(device);
  }
}

GpuWorkspace TensorSizes::OnGpu(const tensorflow::NodeDef& node, const GpuKernels& gpu) const {
  if (!HasGpuWorkspace(node)) return GpuWorkspace();
  return WorkspaceOnGpu({&node, BoundInputsOf(node.name()), Bound(values_->OutputsOf(node.name()), unknown_dim_)}, gpu);
}

int64_t TensorSizes::WorkspaceOf(const tensorflow::NodeDef& node) const {
  const CallBody* body = BodyOf(node.name());
  const auto gpu = gpus_.find(node.device());
  if (gpu != gpus_.end()) return body == nullptr ? OnGpu(node, gpu->second).bytes : 0;
  if (DeviceType(node.device()) != "CPU") return 0;
  if (body == nullptr) {
    if (!HasWorkspace(node)) return 0;
    const SizedOp op = {&node, BoundInputsOf(node.name()), Bound(values_->OutputsOf(node.name()), unknown_dim_)};
    // The item says how many threads there are (optimizer.cc).
    return OpWorkspace(op, CpuKernels::Here(original_.optimization_options().intra_op_parallelism_threads));
  }
  if (!body->compiled) return 0;
  std::vector<SizedOp> ops;
  std::vector<OpInfo::TensorProperties> made;
  for (const std::string& name : body->nodes) {
    ops.push_back({nodes_.at(name), BoundInputsOf(name), Bound(OutputsOf(name, &made), unknown_dim_)});
  }
  return CompiledWorkspace(ops);
}

bool TensorSizes::KnowsCompiled(const std::string& call) const {
  const CallBody* body = BodyOf(call);
  if (body == nullptr || !body->compiled) return false;
  std::vector<const tensorflow::NodeDef*> ops;
  for (const std::string& name : body->nodes) ops.push_back(nodes_.at(name));
  return KnowsCompiledWorkspace(ops);
}

TensorSize TensorSizes::SizeOfOutput(const std::string& node, size_t port, const OpInfo::TensorProperties& made) const {
  TensorSize size = SizeOf(made, unknown_dim_);
  const CallBody* body = BodyOf(node);
  if (body != nullptr && port < body->results.size()) {
    const tensorflow::TensorId result = tensorflow::ParseTensorName(body->results[port]);
    size.assumptions |= values_->AssumptionsOf(std::string(result.node()), result.index());
  } else {
    size.assumptions |= values_->AssumptionsOf(node, static_cast<int>(port));
  }
  return size;
}

absl::Status TensorSizes::ReadSizes() {
  bool lost = false;
  std::vector<OpInfo::TensorProperties> made;
  figures_.reserve(nodes_.size());
  for (const auto& node : item_.graph.node()) {
    NodeFigures& figures = figures_[node.name()];
    figures.outputs.clear();
    figures.workspace_bytes = WorkspaceOf(node);
    figures.rows_of =
        MaySliceRows(node) && BodyOf(node.name()) == nullptr
            ? RowsOf(node, BoundInputsOf(node.name()), Bound(values_->OutputsOf(node.name()), unknown_dim_))
            : -1;
    for (const auto& output : OutputsOf(node.name(), &made)) {
      figures.outputs.push_back(SizeOfOutput(node.name(), figures.outputs.size(), output));
      lost |= output.shape().unknown_rank() && tensorflow::DataTypeSize(tensorflow::BaseType(output.dtype())) > 0;
    }
  }
  return lost && &original_ != &item_ ? InferUnbound() : absl::OkStatus();
}

absl::Status TensorSizes::InferUnbound() {
  grappler::GrapplerItem unbound = original_;
  CallBodies::Strip(&unbound.graph);
  grappler::GraphProperties properties(unbound);
  absl::Status status = InferShapes(&properties);
  if (!status.ok()) return status;
  for (const auto& node : original_.graph.node()) {
    const auto& outputs = properties.GetOutputProperties(node.name());
    std::vector<TensorSize>& sizes = figures_[node.name()].outputs;
    for (size_t i = 0; i < std::min(outputs.size(), sizes.size()); ++i) {
      if (!sizes[i].known) sizes[i] = SizeOf(outputs[i], unknown_dim_);
    }
  }
  return status;
}

void TensorSizes::EstimateCosts(grappler::Cluster* cluster, const ProfilePrices* prices) {
  const Costs costs(cluster);
  std::vector<OpInfo::TensorProperties> made;
  for (const auto& node : item_.graph.node()) {
    NodeFigures& figures = figures_[node.name()];
    const auto& inputs = values_->InputsOf(node.name());
    const auto& outputs = OutputsOf(node.name(), &made);
    const auto gpu = gpus_.find(node.device());
    const int64_t copied = gpu == gpus_.end() ? 0 : OnGpu(node, gpu->second).copied;
    figures.cost_us = costs.MicrosecondsOf(node, nodes_, inputs, outputs, copied, unknown_dim_);
    if (prices == nullptr) continue;
    figures.op_key = OpKey(node, Bound(inputs, unknown_dim_), Bound(outputs, unknown_dim_));
    const ProfilePrices::Price price = prices->Of(figures.op_key, figures.cost_us);
    figures.cost_us = price.us;
    figures.profiled = price.measured;
  }
}

TensorSize TensorSizes::OfElement(const tensorflow::NodeDef& original) const {
  // As it is in the copy that has sizes.
  const auto bound = nodes_.find(original.name());
  const tensorflow::NodeDef& node = bound == nodes_.end() ? original : *bound->second;
  const auto types = node.attr().find("output_types");
  const auto shapes = node.attr().find("output_shapes");
  TensorSize sum;
  if (types == node.attr().end() || shapes == node.attr().end()) return sum;
  if (types->second.list().type_size() != shapes->second.list().shape_size()) return sum;
  sum.known = true;
  for (int i = 0; i < types->second.list().type_size(); ++i) {
    OpInfo::TensorProperties component;
    component.set_dtype(types->second.list().type(i));
    *component.mutable_shape() = shapes->second.list().shape(i);
    const TensorSize size = SizeOf(component, unknown_dim_);
    sum.bytes += size.bytes;
    sum.known = sum.known && size.known;
    sum.assumptions |= size.assumptions;
  }
  return sum;
}

const NodeFigures& TensorSizes::Of(const std::string& node_name) const {
  auto found = figures_.find(node_name);
  // A copy may be one of a copy.
  for (std::string name = node_name; found == figures_.end() && IsOwnName(name); found = figures_.find(name)) {
    std::string original = OriginalName(name);
    if (original == name) break;
    name = std::move(original);
  }
  return found == figures_.end() ? none_ : found->second;
}

}  // namespace lms
