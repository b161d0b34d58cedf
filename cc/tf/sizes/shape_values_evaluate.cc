#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "cc/tf/graph/small_tensor.h"
#include "cc/tf/sizes/known_shapes.h"
#include "cc/tf/sizes/shape_values.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace lms {
namespace {

using tensorflow::NodeDef;
using tensorflow::Tensor;
using tensorflow::TensorShapeProto;

constexpr size_t kMostInputs = 256;  // of an op that is evaluated
constexpr int kMostSteps = 64;       // from an Optional to what made it
constexpr int64_t kMostElements = OpEvaluator::kMostElements;

bool AsksForShapes(const NodeDef& node) {
  static const auto* const ops = new std::unordered_set<std::string>{"Rank", "Shape", "ShapeN", "Size"};
  return ops->count(node.op()) != 0;
}

// -1: not known.
int64_t KnownElements(const TensorShapeProto* shape) {
  return shape == nullptr || !IsKnown(*shape) ? -1 : ElementsOf(*shape);
}

// Do they contradict each other nowhere?
bool MayBeOne(const TensorShapeProto& a, const TensorShapeProto& b) {
  if (a.unknown_rank() || b.unknown_rank()) return true;
  if (a.dim_size() != b.dim_size()) return false;
  for (int d = 0; d < a.dim_size(); ++d) {
    if (a.dim(d).size() >= 0 && b.dim(d).size() >= 0 && a.dim(d).size() != b.dim(d).size()) return false;
  }
  return true;
}

// A vector, or a scalar, of the type. Nothing where a number is too large for it.
std::optional<Tensor> Numbers(tensorflow::DataType type, const std::vector<int64_t>& numbers, bool scalar) {
  const tensorflow::TensorShape shape =
      scalar ? tensorflow::TensorShape() : tensorflow::TensorShape({static_cast<int64_t>(numbers.size())});
  if (type != tensorflow::DT_INT32 && type != tensorflow::DT_INT64) return std::nullopt;
  Tensor tensor(type, shape);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (type == tensorflow::DT_INT64) {
      tensor.flat<int64_t>()(static_cast<int64_t>(i)) = numbers[i];
      continue;
    }
    if (numbers[i] > std::numeric_limits<int32_t>::max()) return std::nullopt;
    tensor.flat<int32_t>()(static_cast<int64_t>(i)) = static_cast<int32_t>(numbers[i]);
  }
  return tensor;
}

// Of Shape, ShapeN, Size or Rank, of one input.
std::optional<Tensor> OfShape(const NodeDef& node, const TensorShapeProto* shape) {
  if (shape == nullptr || shape->unknown_rank()) return std::nullopt;
  const auto attr = node.attr().find("out_type");
  const tensorflow::DataType type = attr == node.attr().end() ? tensorflow::DT_INT32 : attr->second.type();
  if (node.op() == "Rank") return Numbers(tensorflow::DT_INT32, {shape->dim_size()}, /*scalar=*/true);
  std::vector<int64_t> dims;
  int64_t size = 1;
  for (const auto& dim : shape->dim()) {
    if (dim.size() < 0 || (dim.size() > 0 && size > std::numeric_limits<int64_t>::max() / dim.size())) {
      return std::nullopt;
    }
    size *= dim.size();
    dims.push_back(dim.size());
  }
  return node.op() == "Size" ? Numbers(type, {size}, /*scalar=*/true) : Numbers(type, dims, /*scalar=*/false);
}

}  // namespace

const Tensor* ShapeValues::Known(const TensorRef& tensor) const {
  const auto& outputs = values_[tensor.node].outputs;
  const bool known = tensor.port < static_cast<int>(outputs.size()) && outputs[tensor.port].has_value();
  return known ? &*outputs[tensor.port] : nullptr;
}

const Tensor* ShapeValues::ValueOf(const TensorRef& tensor) {
  using State = Values::State;
  std::vector<int> stack = {tensor.node};  // each one is asked for by the one below it
  std::vector<TensorRef> needed;
  while (!stack.empty()) {
    const int node = stack.back();
    State& state = values_[node].state;
    bool done = state == State::kDone || !Needs(node, &needed);
    int next = -1;
    for (size_t i = 0; i < needed.size() && !done && next < 0; ++i) {
      if (values_[needed[i].node].state == State::kNew) {
        next = needed[i].node;
      } else {
        done = Known(needed[i]) == nullptr;  // one that is asked for already goes round in a circle
      }
    }
    if (next >= 0) {
      state = State::kAsked;
      stack.push_back(next);
      continue;
    }
    if (!done) Evaluate(node, needed);
    state = State::kDone;
    stack.pop_back();
  }
  return Known(tensor);
}

const ListLink* ShapeValues::LinkOf(int node) const {
  const auto found = links_of_.find(node);
  return found == links_of_.end() ? nullptr : &links_[found->second.front()];
}

bool ShapeValues::Needs(int node, std::vector<TensorRef>* needed) const {
  const ShapeNode& of = graph_[node];
  needed->clear();
  if (of.def->op() == "Const" || AsksForShapes(*of.def) || IsSeen(node)) return true;
  TensorRef same = {-1, 0};  // what the node hands on
  if (const ListLink* link = LinkOf(node); link != nullptr) {
    // What every iteration puts in is what each one takes out.
    if (link->kind == ListLink::Kind::kElement && link->sources.size() == 1) same = InputOf(link->sources[0]);
  } else if (IsMerge(*of.def)) {
    same = graph_.Invariant(node);
  } else if (of.def->op() == "OptionalGetValue") {
    const std::vector<TensorRef> held = HeldTensors(node, 0);
    if (Facts(node).size() == 1 && held.size() == 1) same = held[0];
  } else if (IsPassage(*of.def)) {
    if (!of.inputs.empty()) same = of.inputs[0];
  } else {
    if (of.op == nullptr || of.inputs.size() > kMostInputs || !OpEvaluator::MayRun(*of.def, of.op->op_def)) {
      return false;
    }
    const auto too_large = [this](const TensorRef& tensor) { return KnownElements(ShapeOf(tensor)) > kMostElements; };
    for (int port = 0; port < static_cast<int>(Facts(node).size()); ++port) {
      if (too_large({node, port})) return false;
    }
    if (std::any_of(of.inputs.begin(), of.inputs.end(), too_large)) return false;
    *needed = of.inputs;
    return true;
  }
  if (same.node < 0) return false;
  needed->push_back(same);
  return true;
}

void ShapeValues::Evaluate(int node, const std::vector<TensorRef>& needed) {
  const ShapeNode& of = graph_[node];
  Values& made = values_[node];
  made.outputs.clear();
  for (const TensorRef& tensor : needed) made.assumptions |= values_[tensor.node].assumptions;
  if (of.def->op() == "Const") {
    const auto value = of.def->attr().find("value");
    Tensor tensor;
    if (value == of.def->attr().end() || !OpEvaluator::IsPlain(value->second.tensor().dtype())) return;
    if (ReadSmallTensor(value->second.tensor(), kMostElements, &tensor)) made.outputs.emplace_back(std::move(tensor));
    return;
  }
  if (IsSeen(node)) {
    made.outputs.push_back(SeenTensor(node));
    made.assumptions = kSeenNumber;
    return;
  }
  if (AsksForShapes(*of.def)) return EvaluateShape(node);
  const bool merge = IsMerge(*of.def);
  const ListLink* const link = LinkOf(node);
  if (merge || link != nullptr || IsPassage(*of.def) || of.def->op() == "OptionalGetValue") {
    const Tensor same = *Known(needed[0]);
    made.outputs.resize(std::max<size_t>(1, Facts(node).size()));
    for (size_t port = 0; port < made.outputs.size(); ++port) {
      const bool is_same = link != nullptr ? static_cast<int>(port) == link->port : !merge || port == 0;
      if (is_same) made.outputs[port] = same;
    }
    return;
  }
  std::vector<const Tensor*> inputs;
  for (const TensorRef& tensor : needed) inputs.push_back(Known(tensor));
  std::vector<Tensor> outputs;
  if (!SmallOutputs(node, inputs) || !evaluator_.Run(*of.def, of.op->op_def, inputs, &outputs)) return;
  for (Tensor& output : outputs) made.outputs.emplace_back(std::move(output));
}

std::optional<Tensor> ShapeValues::SeenTensor(int node) const {
  const std::vector<int64_t>& numbers = seen_.at(node);
  const Outputs& outputs = Facts(node);
  const bool fits = outputs.size() == 1 && KnownElements(&outputs[0].shape()) == static_cast<int64_t>(numbers.size()) &&
                    outputs[0].shape().dim_size() <= 1;
  if (!fits) return std::nullopt;
  return Numbers(outputs[0].dtype(), numbers, /*scalar=*/outputs[0].shape().dim_size() == 0);
}

void ShapeValues::EvaluateShape(int node) {
  const ShapeNode& of = graph_[node];
  Values& made = values_[node];
  bool any = false;
  std::vector<std::optional<Tensor>> outputs;
  for (const TensorRef& input : of.inputs) {
    outputs.push_back(OfShape(*of.def, ShapeOf(input)));
    any = any || outputs.back().has_value();
    made.assumptions |= AssumptionsOf(input);
  }
  if (any) made.outputs = std::move(outputs);
}

// Are there few numbers in each output? The node's shape function decides, with all inputs known.
bool ShapeValues::SmallOutputs(int node, const std::vector<const Tensor*>& inputs) {
  const ShapeNode& of = graph_[node];
  const Outputs& outputs = Facts(node);
  const bool known = !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [](const Properties& output) {
    return KnownElements(&output.shape()) >= 0;  // Needs() has refused the large ones
  });
  if (known || OpEvaluator::NeverLarger(*of.def)) return true;
  if (!of.op->shape_inference_fn) return false;
  std::vector<tensorflow::PartialTensorShape> shapes;
  shapes.reserve(inputs.size());
  for (const Tensor* input : inputs) shapes.emplace_back(input->shape().dim_sizes());
  const std::vector<std::unique_ptr<std::vector<std::pair<tensorflow::PartialTensorShape, tensorflow::DataType>>>>
      handles(shapes.size());
  tensorflow::shape_inference::InferenceContext context(graph_.producer(), tensorflow::AttrSlice(*of.def),
                                                        of.op->op_def, shapes, inputs, {}, handles);
  if (!context.construction_status().ok() || !context.Run(of.op->shape_inference_fn).ok()) return false;
  for (int port = 0; port < context.num_outputs(); ++port) {
    TensorShapeProto shape;
    context.ShapeHandleToProto(context.output(port), &shape);
    const int64_t elements = KnownElements(&shape);
    if (elements < 0 || elements > kMostElements) return false;
  }
  return true;
}

int ShapeValues::BranchOf(int node, const TensorRef& predicate) const {
  std::vector<int> pending = {node};
  std::unordered_set<int> seen;
  for (size_t next = 0; next < pending.size() && next < kMostSteps; ++next) {
    for (const TensorRef& input : graph_[pending[next]].inputs) {
      const ShapeNode& from = graph_[input.node];
      if (from.def->op() == "Switch" && from.inputs.size() == 2 && from.inputs[1] == predicate) return input.port;
      if (seen.insert(input.node).second) pending.push_back(input.node);
    }
  }
  return -1;
}

std::vector<TensorRef> ShapeValues::HeldTensors(int node, int port) const {
  if (graph_[node].inputs.empty() || port >= static_cast<int>(Facts(node).size())) return {};
  std::vector<int> makers;
  std::vector<TensorRef> pending = {graph_[node].inputs[0]};
  TensorRef predicate = {-1, 0};  // of the branch that the node is in
  int outcome = -1;
  for (int steps = 0; !pending.empty(); ++steps) {
    if (steps == kMostSteps) return {};
    const TensorRef at = pending.back();
    pending.pop_back();
    const ShapeNode& of = graph_[at.node];
    if (of.def->op() == "OptionalNone") continue;
    if (of.def->op() == "OptionalFromValue") {
      if (std::find(makers.begin(), makers.end(), at.node) == makers.end()) makers.push_back(at.node);
    } else if (IsMerge(*of.def) && graph_.BackInput(at.node) < 0) {
      pending.insert(pending.end(), of.inputs.begin(), of.inputs.end());
    } else if (IsMerge(*of.def)) {
      const TensorRef outside = graph_.Invariant(at.node);
      if (outside.node < 0) return {};
      pending.push_back(outside);
    } else if (IsPassage(*of.def) && !of.inputs.empty()) {
      if (of.def->op() == "Switch" && of.inputs.size() == 2 && predicate.node < 0) {
        predicate = of.inputs[1];
        outcome = at.port;
      }
      pending.push_back(of.inputs[0]);
    } else {
      return {};
    }
  }
  // Both branches of a condition may put something of theirs into the same place. What is taken out is of the type and
  // shape that is said, and was put in with the same outcome.
  const Properties& wanted = inferred_[node]->at(port);
  std::vector<TensorRef> held;
  for (const int maker : makers) {
    if (port >= static_cast<int>(graph_[maker].inputs.size())) return {};
    const TensorRef tensor = graph_[maker].inputs[port];
    const Properties* properties = PropertiesOf(tensor);
    if (properties == nullptr || properties->dtype() != wanted.dtype()) continue;
    if (!MayBeOne(properties->shape(), wanted.shape())) continue;
    const int branch = makers.size() < 2 || predicate.node < 0 ? -1 : BranchOf(maker, predicate);
    if (branch < 0 || branch == outcome) held.push_back(tensor);
  }
  return held;
}

std::optional<int64_t> ShapeValues::ScalarOf(const std::string& node, int port) {
  const int at = graph_.Find(node);
  const Tensor* value = at < 0 ? nullptr : ValueOf({at, port});
  if (value == nullptr || value->NumElements() != 1 || (values_[at].assumptions & kSeenNumber) != 0) {
    return std::nullopt;
  }
  if (value->dtype() == tensorflow::DT_INT32) return value->unaligned_flat<int32_t>()(0);
  if (value->dtype() == tensorflow::DT_INT64) return value->unaligned_flat<int64_t>()(0);
  return std::nullopt;
}

}  // namespace lms
