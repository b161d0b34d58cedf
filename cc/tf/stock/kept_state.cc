#include "cc/tf/stock/kept_state.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cc/core/base/latest.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/strings/proto_serialization.h"

namespace lms {
namespace {

using ::tensorflow::AttrValue;
using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;

// Their kernels speak of inputs and outputs by number, not by name.
const std::unordered_set<std::string>& Keepable() {
  static const auto* ops = new std::unordered_set<std::string>{
      "Multinomial",    "ParameterizedTruncatedNormal", "RandomGamma",   "RandomPoissonV2",
      "RandomShuffle",  "RandomStandardNormal",         "RandomUniform", "RandomUniformInt",
      "TruncatedNormal"};
  return *ops;
}

bool HasSeed(const NodeDef& node) {
  const auto& attrs = node.attr();
  return std::any_of(attrs.begin(), attrs.end(), [](const auto& attr) {
    return (attr.first == "seed" || attr.first == "seed2") && attr.second.i() != 0;
  });
}

// The functions that a node calls, by name.
void AddCalled(const NodeDef& node, std::vector<std::string>* called) {
  called->push_back(node.op());
  for (const auto& [name, value] : node.attr()) {
    if (value.has_func()) called->push_back(value.func().name());
    for (const auto& function : value.list().func()) called->push_back(function.name());
  }
}

AttrValue ListOf(const tensorflow::DataTypeVector& types) {
  AttrValue value;
  auto* const list = value.mutable_list();  // there also where it is empty
  for (const tensorflow::DataType type : types) list->add_type(type);
  return value;
}

// The kernels that are computed by, by function, node and device. An entry ends with the last kernel that uses it.
class Kernels {
 public:
  static Kernels& Global() {
    static auto* kernels = new Kernels;
    return *kernels;
  }

  // The one under this key, else what `make` makes, which may be null.
  template <typename Make>
  std::shared_ptr<OpKernel> Get(const std::string& key, const Make& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<OpKernel> kernel = kernels_[key].lock();
    if (kernel != nullptr) return kernel;
    kernel = make();
    kernels_[key] = kernel;
    if (kernels_.size() > 2 * live_) Forget();
    return kernel;
  }

 private:
  void Forget() {
    for (auto entry = kernels_.begin(); entry != kernels_.end();) {
      entry = entry->second.expired() ? kernels_.erase(entry) : std::next(entry);
    }
    live_ = std::max<size_t>(64, kernels_.size());
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<OpKernel>> kernels_;
  size_t live_ = 64;
};

class KeptState : public OpKernel {
 public:
  explicit KeptState(OpKernelConstruction* context) : OpKernel(context) {
    std::string function, text;
    OP_REQUIRES_OK(context, context->GetAttr("function", &function));
    OP_REQUIRES_OK(context, context->GetAttr("node", &text));
    NodeDef node;
    OP_REQUIRES(context, node.ParseFromString(text), absl::InvalidArgumentError("no node in " + name()));
    const std::string key =
        function + "\n" + text + "\n" + std::to_string(reinterpret_cast<uintptr_t>(context->device()));
    absl::Status status;
    kernel_ = Kernels::Global().Get(key, [&] {
      auto* const device = context->device();
      return std::shared_ptr<OpKernel>(tensorflow::CreateOpKernel(
          context->device_type(), device, device->GetAllocator(tensorflow::AllocatorAttributes()), node,
          context->graph_def_version(), &status));
    });
    OP_REQUIRES_OK(context, status);
  }

  void Compute(OpKernelContext* context) override { kernel_->Compute(context); }
  bool IsExpensive() override { return kernel_ == nullptr || kernel_->IsExpensive(); }

 private:
  std::shared_ptr<OpKernel> kernel_;
};

struct Nothing {};

// The functions for which KeepState was called.
Latest<Nothing>& KeptFunctions() {
  static auto* functions = new Latest<Nothing>;
  return *functions;
}

const bool kept_state_registered = RegisterKeptState();

}  // namespace

bool RegisterKeptState() noexcept {
  if (IsRegistered(kKeptStateOp)) return false;
  REGISTER_OP("LmsKeptState")
      .Input("inputs: Tin")
      .Output("outputs: Tout")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("function: string")
      .Attr("node: string")
      .SetIsStateful()
      .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
        for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->UnknownShape());
        return absl::OkStatus();
      });
  REGISTER_KERNEL_BUILDER(Name("LmsKeptState").Device(tensorflow::DEVICE_CPU), KeptState);
  return true;
}

bool CanKeepState(const GraphDef& graph) {
  std::unordered_map<std::string, const tensorflow::FunctionDef*> library;
  for (const auto& function : graph.library().function()) library[function.signature().name()] = &function;
  std::vector<std::string> called;
  for (const NodeDef& node : graph.node()) {
    if (HasSeed(node) && (Keepable().count(node.op()) == 0 || DeviceType(node.device()) != "CPU")) return false;
    AddCalled(node, &called);
  }
  while (!called.empty()) {
    const auto found = library.find(called.back());
    called.pop_back();
    if (found == library.end()) continue;
    const tensorflow::FunctionDef* const function = found->second;
    library.erase(found);
    for (const NodeDef& node : function->node_def()) {
      if (HasSeed(node)) return false;
      AddCalled(node, &called);
    }
  }
  return true;
}

void KeepState(const std::string& function, GraphDef* graph) {
  for (NodeDef& node : *graph->mutable_node()) {
    const tensorflow::OpDef* definition = nullptr;
    tensorflow::DataTypeVector inputs, outputs;
    if (!HasSeed(node) || Keepable().count(node.op()) == 0) continue;
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &definition).ok()) continue;
    if (!tensorflow::InOutTypesForNode(node, *definition, &inputs, &outputs).ok()) continue;
    NodeDef original = node;
    original.clear_input();  // as many are needed, but whose results they are may differ from plan to plan
    for (size_t i = 0; i < inputs.size(); ++i) original.add_input("input_" + std::to_string(i));
    original.clear_device();
    original.clear_experimental_debug_info();
    for (auto attr = original.mutable_attr()->begin(); attr != original.mutable_attr()->end();) {
      attr = attr->first[0] == '_' ? original.mutable_attr()->erase(attr) : std::next(attr);
    }
    std::string text;
    // Maps are written in any order otherwise.
    tensorflow::SerializeToStringDeterministic(original, &text);
    auto& attrs = *node.mutable_attr();
    for (const auto& [name, value] : original.attr()) attrs.erase(name);
    node.set_op(kKeptStateOp);
    attrs["Tin"] = ListOf(inputs);
    attrs["Tout"] = ListOf(outputs);
    attrs["function"].set_s(function);
    attrs["node"].set_s(text);
  }
  KeptFunctions().Of(function);
}

bool KeepsState(const std::string& function) { return KeptFunctions().Find(function) != nullptr; }

}  // namespace lms
