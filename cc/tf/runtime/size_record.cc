#include "cc/tf/runtime/size_record.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cc/core/base/latest.h"
#include "cc/core/options/recorded_sizes.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/runtime/memory_counter.h"
#include "cc/tf/sizes/known_shapes.h"
#include "cc/tf/stock/layout_fusions.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/memory_types.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;

// What was seen of the latest functions.
Latest<RecordedSizes>& Functions() {
  static auto* functions = new Latest<RecordedSizes>;
  return *functions;
}

class SizeRecord : public OpKernel {
 public:
  explicit SizeRecord(OpKernelConstruction* context) : OpKernel(context) {
    std::string function, node;
    bool sizes = false;
    OP_REQUIRES_OK(context, context->GetAttr("function", &function));
    OP_REQUIRES_OK(context, context->GetAttr("node", &node));
    OP_REQUIRES_OK(context, context->GetAttr("sizes", &sizes));
    OP_REQUIRES_OK(context, context->GetAttr("least", &least_));
    OP_REQUIRES_OK(context, context->GetAttr("element", &element_));
    std::string loop;
    OP_REQUIRES_OK(context, context->GetAttr("loop", &loop));
    std::vector<int> ports;
    OP_REQUIRES_OK(context, context->GetAttr("ports", &ports));
    OP_REQUIRES(context, static_cast<int>(ports.size()) == num_inputs(),
                absl::InvalidArgumentError(name() + ": as many ports are wanted as there are inputs"));
    for (const int port : ports) tensors_.push_back(node + ":" + std::to_string(port));
    counts_ = !loop.empty();
    if (counts_) tensors_ = {TripsKey(loop)};
    if (sizes || counts_) sizes_ = Functions().Of(function);
  }

  void Compute(OpKernelContext* context) override {
    if (counts_) {
      const tensorflow::Tensor& end = context->input(0);
      OP_REQUIRES(context, end.NumElements() == 1, absl::InvalidArgumentError(name() + ": a counter is one number"));
      const int64_t trips =
          end.dtype() == tensorflow::DT_INT64 ? end.flat<int64_t>()(0) : int64_t{end.flat<int32_t>()(0)};
      sizes_->Note(tensors_[0], {std::max<int64_t>(0, trips)}, least_);
      return;
    }
    RecordedShape shape;
    for (int i = 0; i < context->num_inputs(); ++i) {
      const tensorflow::Tensor& tensor = context->input(i);
      if (sizes_ != nullptr && HasSize(tensor.dtype())) {
        shape.clear();
        for (const auto& dim : tensor.shape()) shape.push_back(dim.size);
        sizes_->Note(tensors_[i], shape, least_);
      }
      if (element_) NoteBlock(tensor, context->step_id());
    }
  }
  bool IsExpensive() override { return false; }

 private:
  static void NoteBlock(tensorflow::Tensor tensor, int64_t run) {
    tensorflow::TensorBuffer* const buffer = tensorflow::DMAHelper::buffer(&tensor);
    if (buffer == nullptr || !HasSize(tensor.dtype())) return;
    // A tensor may be a part of a block.
    const auto bytes = static_cast<int64_t>(tensor.TotalBytes());
    if (bytes > 0) NoteTaken(buffer->root_buffer()->data(), bytes, run);
  }

  std::vector<std::string> tensors_;
  int64_t least_ = 0;
  bool element_ = false;
  bool counts_ = false;                   // a loop's iterations, in place of sizes
  std::shared_ptr<RecordedSizes> sizes_;  // null: these are known
};

const bool size_record_registered = RegisterSizeRecord();

// May it have control inputs of its own? What closes a loop or ends a branch is left as it is.
bool MayWait(const NodeDef& node) {
  static const auto* const not_these =
      new std::unordered_set<std::string>{"Merge", "RefMerge", "NextIteration", "RefNextIteration", "LoopCond"};
  return not_these->count(node.op()) == 0;
}

// By output: does a kernel of the node's device leave it in host memory? Empty where nobody knows.
std::vector<bool> OnHost(const NodeDef& node, size_t outputs) {
  const std::string device = DeviceType(node.device());
  if (device == "CPU") return std::vector<bool>(outputs, false);
  tensorflow::MemoryTypeVector taken, made;
  if (!tensorflow::MemoryTypesForNode(tensorflow::OpRegistry::Global(), tensorflow::DeviceType(device), node, &taken,
                                      &made)
           .ok() ||
      made.size() != outputs) {
    return {};
  }
  std::vector<bool> on_host;
  for (const auto memory : made) on_host.push_back(memory == tensorflow::HOST_MEMORY);
  return on_host;
}

// The node's results as the record's inputs: those of its device first.
void AddInputs(const NodeDef& node, const tensorflow::DataTypeVector& types, const std::vector<bool>& on_host,
               NodeDef* record) {
  auto& attrs = *record->mutable_attr();
  for (const bool host : {false, true}) {
    auto* const kinds = attrs[host ? "H" : "T"].mutable_list();
    for (size_t port = 0; port < types.size(); ++port) {
      if (on_host[port] != host) continue;
      record->add_input(InputName(node.name(), static_cast<int>(port)));
      kinds->add_type(types[port]);
      attrs["ports"].mutable_list()->add_i(static_cast<int64_t>(port));
    }
  }
}

// What all records have: of which node they are, and its results as inputs.
void BeginRecord(const std::string& function, const NodeDef& node, const tensorflow::DataTypeVector& types,
                 const std::vector<bool>& on_host, NodeDef* record) {
  record->set_name("lms/sizes/" + node.name());
  record->set_op(kSizeRecordOp);
  record->set_device(node.device());
  AddInputs(node, types, on_host, record);
  (*record->mutable_attr())["function"].set_s(function);
  (*record->mutable_attr())["node"].set_s(node.name());
}

// The op behind the node; false where that may not be. `open`: the sizes to be recorded, null: none.
bool MakeRecord(const std::string& function, const NodeDef& node, const OpenSize* open, NodeDef* record) {
  const tensorflow::OpDef* definition = nullptr;
  tensorflow::DataTypeVector types;
  if (node.op() == "_Arg" || node.op() == "Placeholder") return false;  // each call tells of its arguments
  if (IsControlFlow(node.op())) return false;                           // one of its results may never come
  const std::string device = DeviceType(node.device());
  const bool elements_only = open == nullptr;  // which are the CPU's
  if ((device != "CPU" && (device != "GPU" || elements_only)) || node.attr().count("_XlaMustCompile") != 0)
    return false;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &definition).ok()) return false;
  if (!tensorflow::OutputTypesForNode(node, *definition, &types).ok() || types.empty()) return false;
  if (std::any_of(types.begin(), types.end(), [](auto type) { return tensorflow::IsRefType(type); })) return false;
  if (std::none_of(types.begin(), types.end(), HasSize)) return false;
  const std::vector<bool> on_host = OnHost(node, types.size());
  if (on_host.empty()) return false;
  BeginRecord(function, node, types, on_host, record);
  auto& attrs = *record->mutable_attr();
  attrs["sizes"].set_b(open != nullptr);
  attrs["least"].set_i(open == nullptr ? 0 : open->least);
  attrs["element"].set_b(device == "CPU" && TakesElement(node.op()));
  return true;
}

// What the loop's counter ends with, and the op that notes it. Nothing where the host does not have that number.
void AddTripRecord(const std::string& function, const OpenLoop& loop, const NodeDef& counter, GraphDef* graph) {
  const std::string device = DeviceType(counter.device());
  const auto type = counter.attr().find("T");
  if ((device != "CPU" && device != "GPU") || counter.attr().count("_XlaMustCompile") != 0) return;
  if (counter.op() != "Switch" || type == counter.attr().end()) return;
  if (type->second.type() != tensorflow::DT_INT32 && type->second.type() != tensorflow::DT_INT64) return;
  NodeDef end;
  end.set_name("lms/trips/" + counter.name());
  end.set_op("Exit");
  end.set_device(counter.device());
  end.add_input(counter.name());
  (*end.mutable_attr())["T"] = type->second;
  const std::vector<bool> on_host = OnHost(end, 1);
  if (on_host.empty() || (device == "GPU" && !on_host[0])) return;
  NodeDef record;
  BeginRecord(function, end, {type->second.type()}, on_host, &record);
  auto& attrs = *record.mutable_attr();
  attrs["sizes"].set_b(false);
  attrs["least"].set_i(loop.least);
  attrs["element"].set_b(false);
  attrs["loop"].set_s(loop.loop);
  *graph->add_node() = std::move(end);
  *graph->add_node() = std::move(record);
}

}  // namespace

bool RegisterSizeRecord() noexcept {
  if (IsRegistered(kSizeRecordOp)) return false;
  REGISTER_OP("LmsSizeRecord")
      .Input("inputs: T")
      .Input("on_host: H")
      .Attr("T: list(type) >= 0")
      .Attr("H: list(type) >= 0")
      .Attr("function: string")
      .Attr("node: string")
      .Attr("ports: list(int) >= 1")
      .Attr("sizes: bool")
      .Attr("least: int")
      .Attr("element: bool")
      .Attr("loop: string = ''")
      .SetIsStateful()
      .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });
  REGISTER_KERNEL_BUILDER(Name("LmsSizeRecord").Device(tensorflow::DEVICE_CPU), SizeRecord);
  REGISTER_KERNEL_BUILDER(Name("LmsSizeRecord").Device(tensorflow::DEVICE_GPU).HostMemory("on_host"), SizeRecord);
  return true;
}

bool AddSizeRecords(const std::string& function, const std::vector<OpenSize>& open, const std::vector<OpenLoop>& loops,
                    bool elements, GraphDef* graph) {
  std::unordered_map<std::string, const OpenSize*> open_of;  // by node
  for (const OpenSize& size : open) open_of[size.node] = &size;
  const Fusions fusions(*graph, tensorflow::IsMKLEnabled());
  std::unordered_map<std::string, std::string> records;  // by node: what waits for it
  const int before = graph->node_size();
  for (int i = 0; i < before; ++i) {
    const NodeDef& node = graph->node(i);
    const auto sizes = open_of.find(node.name());
    const OpenSize* const wanted = sizes == open_of.end() ? nullptr : sizes->second;
    if (node.op() == kSizeRecordOp || (wanted == nullptr && !(elements && TakesElement(node.op())))) continue;
    NodeDef record;
    if (!MakeRecord(function, node, wanted, &record)) continue;
    records[node.name()] = record.name();
    *graph->add_node() = std::move(record);
  }
  std::unordered_map<std::string, const OpenLoop*> loop_of;  // by counter
  for (const OpenLoop& loop : loops) loop_of[loop.counter] = &loop;
  for (int i = 0; i < before; ++i) {
    const auto loop = loop_of.find(graph->node(i).name());
    if (loop != loop_of.end()) AddTripRecord(function, *loop->second, graph->node(i), graph);
  }
  if (graph->node_size() == before) return false;
  for (int i = 0; i < before && !records.empty(); ++i) {
    NodeDef* const node = graph->mutable_node(i);
    if (!MayWait(*node)) continue;
    std::unordered_set<std::string> waits;
    for (const std::string& input : node->input()) {
      if (input.empty() || input[0] == '^') continue;
      const auto found = records.find(std::string(tensorflow::ParseTensorName(input).node()));
      if (found != records.end()) waits.insert(found->second);
    }
    for (const std::string& record : waits) node->add_input("^" + record);
  }
  fusions.Keep(graph);
  return true;
}

std::string RecordedSizesOf(const std::string& function) {
  const std::shared_ptr<RecordedSizes> sizes = Functions().Find(function);
  return sizes == nullptr ? "" : sizes->Text();
}

}  // namespace lms
