#include "cc/tf/loops/body_ops.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "cc/tf/graph/loop_variables.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/stock/layout_fusions.h"
#include "cc/tf/stock/sum_holders.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

// Ops that hand their gradients notes beside their results, in a way that the graph does not show: oneDNN's kernels of
// these do where the gradient reads the result itself, and not where it comes out of a list.
bool HandsNotes(std::string_view op) {
  return op == "MaxPool" || op == "MaxPool3D" || op == "AvgPool" || op == "AvgPool3D" || op == "LRN" ||
         op.rfind("FusedBatchNorm", 0) == 0 || op.rfind("_FusedBatchNorm", 0) == 0;
}

// Have the ops of lists kernels for it? Those that are missing here have none on a CPU, or may have none.
bool MayBeListed(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_HALF:
    case tensorflow::DT_BFLOAT16:
    case tensorflow::DT_FLOAT:
    case tensorflow::DT_DOUBLE:
    case tensorflow::DT_COMPLEX64:
    case tensorflow::DT_COMPLEX128:
    case tensorflow::DT_BOOL:
    case tensorflow::DT_INT8:
    case tensorflow::DT_INT16:
    case tensorflow::DT_INT32:
    case tensorflow::DT_INT64:
    case tensorflow::DT_UINT8:
    case tensorflow::DT_UINT16:
    case tensorflow::DT_UINT32:
    case tensorflow::DT_UINT64:
      return true;
    default:
      return false;
  }
}

}  // namespace

BodyOps::BodyOps(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes,
                 const std::vector<NodeTypes>& types, const std::string& device)
    : graph_(graph),
      index_(index),
      sizes_(sizes),
      types_(types),
      device_(device),
      loops_(graph, index),
      lists_(graph, index, sizes, loops_),
      on_way_to_sums_(OnWayToSums(graph, index)) {}

std::vector<GradientLoop> BodyOps::LoopsToChange() const {
  std::vector<GradientLoop> loops = FindGradientLoops(graph_, index_, loops_);
  std::set<int> gradients;
  for (const GradientLoop& loop : loops) gradients.insert(loop.backward);
  std::vector<GradientLoop> chosen;
  for (GradientLoop& loop : loops) {
    // What a gradient of a gradient is handed may itself be taken out of a list.
    if (gradients.count(loop.forward) != 0) continue;
    if (SumsMayTakeOver(loop)) continue;
    const auto stays = [this](const ListChain& chain) {
      return graph_.node(chain.push).device() != device_ || on_way_to_sums_[index_[chain.push].inputs[1].node];
    };
    loop.chains.erase(std::remove_if(loop.chains.begin(), loop.chains.end(), stays), loop.chains.end());
    if (!loop.chains.empty()) chosen.push_back(std::move(loop));
  }
  return chosen;
}

bool BodyOps::SumsMayTakeOver(const GradientLoop& loop) const {
  // Of sums in the body itself, the terms stay as they are.
  const auto has_sum = [&](int node) {
    return index_[node].live && index_[node].region != loop.forward_region &&
           OrderDependsOnHolders(graph_.node(node).op(), index_[node].inputs.size());
  };
  const std::vector<int>& body = loops_.NodesIn(loop.forward);
  if (std::any_of(body.begin(), body.end(), has_sum)) return true;
  // What enters the loop or leaves it: the state, and what does not change.
  for (const int node : body) {
    if (IsExit(graph_.node(node)) && on_way_to_sums_[node]) return true;
    if (!IsEnter(graph_.node(node)) || index_[node].inputs.empty()) continue;
    if (on_way_to_sums_[index_[node].inputs[0].node]) return true;
  }
  return std::any_of(loop.chains.begin(), loop.chains.end(),
                     [this](const ListChain& chain) { return on_way_to_sums_[chain.pop]; });
}

int64_t BodyOps::Trips(int frame) const { return std::max<int64_t>(0, lists_.Trips(frame)); }

tensorflow::DataType BodyOps::TypeOf(const TensorRef& tensor) const {
  const tensorflow::DataTypeVector& outputs = types_[tensor.node].outputs;
  return tensor.port < static_cast<int>(outputs.size()) ? outputs[tensor.port] : tensorflow::DT_INVALID;
}

bool BodyOps::MayRunAgain(int node, const GradientLoop& loop) {
  const tensorflow::NodeDef& def = graph_.node(node);
  if (index_[node].region != loop.forward_region || def.device() != device_ || index_.Preserved(node)) return false;
  if (IsControlFlow(def.op()) || HandsNotes(def.op()) || OrderDependsOnHolders(def.op(), index_[node].inputs.size())) {
    return false;
  }
  if (may_be_fused_.empty()) may_be_fused_ = MayBeFused(graph_, index_, tensorflow::IsMKLEnabled());
  // A padding whose result is no longer pushed might be joined with its only reader.
  if (may_be_fused_[node]) return false;
  const NodeTypes& types = types_[node];
  const auto plain = [](tensorflow::DataType type) { return IsPlain(type); };
  if (!std::all_of(types.outputs.begin(), types.outputs.end(), plain)) return false;
  return def.op() == "Const" || WhyNotRecomputable(def).empty();
}

bool BodyOps::MayBePushed(const TensorRef& tensor, const GradientLoop& loop) const {
  const tensorflow::NodeDef& def = graph_.node(tensor.node);
  const bool state = def.op() == "Switch" && tensor.port == 1 && index_[tensor.node].frame == loop.forward;
  const tensorflow::DataType type = TypeOf(tensor);
  if (on_way_to_sums_[tensor.node]) return false;
  // Elsewhere small whole numbers lie in the host's memory.
  const bool carried = tensorflow::DataTypeIsFloating(type) || DeviceType(device_) == "CPU";
  return carried && MayBeListed(type) && def.device() == device_ &&
         (state || (index_[tensor.node].region == loop.forward_region && !IsControlFlow(def.op())));
}

TensorRef BodyOps::SameInAll(const TensorRef& tensor) const {
  const TensorRef outside = OutsideOf(graph_, index_, loops_, tensor);
  const bool value = IsPlain(TypeOf(tensor)) || lists_.ListOf(tensor.node) >= 0;
  return value ? outside : TensorRef{-1, 0};
}

double BodyOps::BytesOf(const TensorRef& tensor) const {
  const std::vector<TensorSize>& outputs = sizes_.Of(graph_.node(tensor.node).name()).outputs;
  const bool own = lists_.MadeInIteration(tensor);
  if (!own || tensor.port >= static_cast<int>(outputs.size())) return 0;
  return static_cast<double>(outputs[tensor.port].bytes);
}

}  // namespace lms
