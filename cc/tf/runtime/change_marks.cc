#include "cc/tf/runtime/change_marks.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cc/core/base/latest.h"
#include "cc/tf/graph/function_calls.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;

constexpr size_t kMostKept = 64 << 10;       // bytes of one variable
constexpr size_t kMostKeptInAll = 16 << 20;  // of all

// What the calls of one function have changed since ForgetChanges. A variable holds its value by a reference, and so
// does this: it outlives what the step does to the variable.
class ChangeLog {
 public:
  void Keep(tensorflow::core::RefCountPtr<tensorflow::Var> variable) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [kept, value] : kept_) {
      if (kept.get() == variable.get()) return;  // its first value is the one from before the step
    }
    tensorflow::tf_shared_lock reading(*variable->mu());
    const size_t bytes = variable->tensor()->TotalBytes();
    if (!variable->is_initialized || bytes > kMostKept || kept_bytes_ + bytes > kMostKeptInAll) {
      why_not_ = "a variable has been changed already";
      return;
    }
    kept_bytes_ += bytes;
    tensorflow::Tensor value = *variable->tensor();
    kept_.emplace_back(std::move(variable), std::move(value));
  }

  void NoteElement() {
    const std::lock_guard<std::mutex> lock(mutex_);
    element_ = true;
  }

  void NoteOther(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    why_not_ = what + " has run already";
  }

  Undone Undo() {
    const std::lock_guard<std::mutex> lock(mutex_);
    Undone result;
    result.element = element_;
    result.why_not = why_not_;
    if (!why_not_.empty()) return result;
    for (auto& [variable, value] : kept_) {
      const tensorflow::mutex_lock writing(*variable->mu());
      *variable->tensor() = value;
    }
    result.undone = true;
    return result;
  }

  void Forget() {
    std::vector<std::pair<tensorflow::core::RefCountPtr<tensorflow::Var>, tensorflow::Tensor>> kept;
    const std::lock_guard<std::mutex> lock(mutex_);
    kept.swap(kept_);
    kept_bytes_ = 0;
    element_ = false;
    why_not_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<tensorflow::core::RefCountPtr<tensorflow::Var>, tensorflow::Tensor>> kept_;
  size_t kept_bytes_ = 0;
  bool element_ = false;
  std::string why_not_;
};

// Of the latest functions that have marks.
Latest<ChangeLog>& Logs() {
  static auto* logs = new Latest<ChangeLog>;
  return *logs;
}

class ChangeMark : public OpKernel {
 public:
  explicit ChangeMark(OpKernelConstruction* context) : OpKernel(context) {
    std::string function;
    OP_REQUIRES_OK(context, context->GetAttr("function", &function));
    OP_REQUIRES_OK(context, context->GetAttr("marked", &marked_));
    OP_REQUIRES_OK(context, context->GetAttr("element", &element_));
    log_ = Logs().Of(function);
  }

  void Compute(OpKernelContext* context) override {
    if (element_) return log_->NoteElement();
    if (context->num_inputs() == 0) return log_->NoteOther(marked_);
    for (int i = 0; i < context->num_inputs(); ++i) {
      tensorflow::core::RefCountPtr<tensorflow::Var> variable;
      if (LookupResource(context, HandleFromInput(context, i), &variable).ok()) {
        log_->Keep(std::move(variable));
      } else {
        log_->NoteOther(marked_);
      }
    }
  }
  bool IsExpensive() override { return false; }

 private:
  std::string marked_;  // type and name of the op that comes behind
  bool element_ = false;
  std::shared_ptr<ChangeLog> log_;
};

const bool change_mark_registered = RegisterChangeMark();

// Ops that TensorFlow calls stateful, and that leave all that outlives a step as it was: what they print or check is
// printed or checked once more, and random numbers need not be the same ones.
bool LeavesAllAsItWas(const NodeDef& node, const tensorflow::OpDef& definition) {
  static const auto* const these = new std::unordered_set<std::string>{"VarHandleOp",
                                                                       "VariableV2",
                                                                       "Variable",
                                                                       "_Arg",
                                                                       "_Retval",
                                                                       "_DeviceArg",
                                                                       "_DeviceRetval",
                                                                       "Placeholder",
                                                                       "Assert",
                                                                       "PrintV2",
                                                                       "Print",
                                                                       "TemporaryVariable",
                                                                       "DestroyTemporaryVariable",
                                                                       "IteratorV2",
                                                                       kSwapOutOp,
                                                                       kSwapInOp,
                                                                       kSwapWaitOp,
                                                                       kSwapFetchOp,
                                                                       kSwapFetchedOp,
                                                                       kSizeRecordOp,
                                                                       kPlacesOp,
                                                                       kChangeMarkOp};
  if (these->count(node.op()) != 0 || IsControlFlow(node.op())) return true;
  if (IsVariableRead(node.op()) || IsVariableQuery(node.op())) return true;
  if (!definition.is_stateful()) return false;
  const auto& attrs = definition.attr();
  return std::any_of(attrs.begin(), attrs.end(), [](const auto& attr) { return attr.name() == "seed2"; });
}

bool TakesReference(const tensorflow::OpDef& definition) {
  const auto& inputs = definition.input_arg();
  return std::any_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.is_ref(); });
}

std::string NodeOf(const std::string& input) { return std::string(tensorflow::ParseTensorName(input).node()); }

const tensorflow::OpDef* DefinitionOf(const NodeDef& node) {
  const tensorflow::OpDef* definition = nullptr;
  return tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &definition).ok() ? definition : nullptr;
}

// May the op change what outlives the step? An op of an unknown kind may.
bool MayChange(const NodeDef& node) {
  const tensorflow::OpDef* const definition = DefinitionOf(node);
  if (definition == nullptr) return true;
  if (LeavesAllAsItWas(node, *definition)) return false;
  return definition->is_stateful() || TakesReference(*definition) || MayWaitForOthers(node.op(), *definition);
}

// The handles of all that the op changes; nothing where it may change anything else.
std::vector<std::string> Handles(const NodeDef& node) {
  std::vector<std::string> handles;
  const tensorflow::OpDef* const definition = DefinitionOf(node);
  tensorflow::DataTypeVector types;
  if (definition == nullptr || NamesFunction(node) || TakesReference(*definition) ||
      MayWaitForOthers(node.op(), *definition) || !tensorflow::InputTypesForNode(node, *definition, &types).ok()) {
    return handles;
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == tensorflow::DT_RESOURCE) handles.push_back(node.input(static_cast<int>(i)));
  }
  return handles;
}

// Sums that Grappler adds up in a variable of the step's own, term by term.
class SumsOfTheStep {
 public:
  explicit SumsOfTheStep(const GraphDef& graph) : graph_(graph) {
    for (int i = 0; i < graph.node_size(); ++i) {
      const std::string& op = graph.node(i).op();
      if (op == "TemporaryVariable" || op == "Assign" || op == "AssignAdd") numbers_[graph.node(i).name()] = i;
    }
  }
  // Does the node add to one?
  bool Has(const NodeDef& node) const {
    const NodeDef* at = &node;
    for (size_t steps = 0; steps <= numbers_.size() && at->op() != "TemporaryVariable"; ++steps) {
      if ((at->op() != "Assign" && at->op() != "AssignAdd") || at->input_size() == 0) return false;
      const auto found = numbers_.find(NodeOf(at->input(0)));
      if (found == numbers_.end()) return false;
      at = &graph_.node(found->second);
    }
    return at->op() == "TemporaryVariable";
  }

 private:
  const GraphDef& graph_;
  std::unordered_map<std::string, int> numbers_;
};

NodeDef MakeMark(const std::string& function, const NodeDef& node) {
  NodeDef mark;
  mark.set_name("lms/change/" + node.name());
  mark.set_op(kChangeMarkOp);
  mark.set_device(node.device());
  const std::vector<std::string> handles = Advances(node.op()) ? std::vector<std::string>() : Handles(node);
  for (const std::string& handle : handles) mark.add_input(handle);
  std::set<std::string> waits;
  for (const std::string& input : node.input()) waits.insert(NodeOf(input));
  for (const std::string& handle : handles) waits.erase(NodeOf(handle));
  for (const std::string& wait : waits) mark.add_input("^" + wait);
  auto& attrs = *mark.mutable_attr();
  attrs["N"].set_i(static_cast<int64_t>(handles.size()));
  attrs["function"].set_s(function);
  attrs["marked"].set_s(node.op() + " " + node.name());
  attrs["element"].set_b(Advances(node.op()));
  return mark;
}

}  // namespace

bool RegisterChangeMark() noexcept {
  if (IsRegistered(kChangeMarkOp)) return false;
  REGISTER_OP("LmsChangeMark")
      .Input("variables: N * resource")
      .Attr("N: int >= 0")
      .Attr("function: string")
      .Attr("marked: string")
      .Attr("element: bool")
      .SetIsStateful()
      .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });
  REGISTER_KERNEL_BUILDER(Name("LmsChangeMark").Device(tensorflow::DEVICE_CPU), ChangeMark);
  REGISTER_KERNEL_BUILDER(Name("LmsChangeMark").Device(tensorflow::DEVICE_GPU).HostMemory("variables"), ChangeMark);
  return true;
}

void AddChangeMarks(const std::string& function, GraphDef* graph) {
  const std::shared_ptr<ChangeLog> log = Logs().Of(function);
  const SumsOfTheStep sums(*graph);
  const int before = graph->node_size();
  for (int i = 0; i < before; ++i) {
    if (!MayChange(graph->node(i)) || sums.Has(graph->node(i))) continue;
    NodeDef mark = MakeMark(function, graph->node(i));
    graph->mutable_node(i)->add_input("^" + mark.name());
    *graph->add_node() = std::move(mark);
  }
}

Undone UndoChanges(const std::string& function) {
  const std::shared_ptr<ChangeLog> log = Logs().Find(function);
  if (log != nullptr) return log->Undo();
  Undone unknown;
  unknown.why_not = "what it has changed is not known";
  return unknown;
}

void ForgetChanges(const std::string& function) {
  const std::shared_ptr<ChangeLog> log = Logs().Find(function);
  if (log != nullptr) log->Forget();
}

}  // namespace lms
