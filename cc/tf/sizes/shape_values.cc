#include "cc/tf/sizes/shape_values.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cc/tf/graph/node_types.h"
#include "cc/tf/sizes/call_bodies.h"
#include "cc/tf/sizes/kernel_outputs.h"
#include "cc/tf/sizes/known_shapes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

using tensorflow::TensorShapeProto;

constexpr int kWorkPerNode = 50;  // in the steps of a Pace
constexpr int kAllDims = -1;      // denied

// The dimensions on which two shapes do not differ; nothing where they have other ranks.
TensorShapeProto Common(const TensorShapeProto& a, const TensorShapeProto& b) {
  TensorShapeProto common = a;
  if (a.unknown_rank() || b.unknown_rank() || a.dim_size() != b.dim_size()) {
    common.Clear();
    common.set_unknown_rank(true);
    return common;
  }
  for (int d = 0; d < a.dim_size(); ++d) {
    if (a.dim(d).size() != b.dim(d).size()) common.mutable_dim(d)->set_size(-1);
  }
  return common;
}

// In each dimension the largest of them, where all are known; of unknown rank where their ranks differ.
TensorShapeProto Largest(const std::vector<const TensorShapeProto*>& shapes) {
  TensorShapeProto unknown;
  unknown.set_unknown_rank(true);
  if (shapes.empty() || shapes[0] == nullptr) return unknown;
  TensorShapeProto largest = *shapes[0];
  for (const TensorShapeProto* shape : shapes) {
    if (shape == nullptr || shape->unknown_rank() || shape->dim_size() != largest.dim_size()) return unknown;
    for (int d = 0; d < shape->dim_size(); ++d) {
      auto* dim = largest.mutable_dim(d);
      const bool known = dim->size() >= 0 && shape->dim(d).size() >= 0;
      dim->set_size(known ? std::max(dim->size(), shape->dim(d).size()) : -1);
    }
  }
  return largest;
}

}  // namespace

ShapeValues::ShapeValues(const tensorflow::GraphDef& graph, const tensorflow::grappler::GraphProperties& properties,
                         int64_t assumed_dim, const Labels& labels, const RecordedShapes& recorded,
                         const SeenNumbers& seen)
    : graph_(graph), assumed_dim_(assumed_dim), labels_(labels) {
  for (const auto& node : graph.node()) {
    inferred_.push_back(&properties.GetOutputProperties(node.name()));
    inferred_inputs_.push_back(&properties.GetInputProperties(node.name()));
  }
  for (const auto& [tensor, sizes] : recorded) {
    const tensorflow::TensorId id = tensorflow::ParseTensorName(tensor);
    const int node = graph_.Find(id.node());
    if (node < 0 || id.index() < 0) continue;
    Shape shape;
    for (const int64_t size : sizes) shape.add_dim()->set_size(size);
    recorded_[node].emplace_back(id.index(), shape);
  }
  for (const auto& [name, numbers] : seen) {
    if (const int node = graph_.Find(name); node >= 0) seen_[node] = numbers;
  }
  Reset();
}

void ShapeValues::Reset() {
  refined_.assign(graph_.size(), {});
  values_.assign(graph_.size(), {});
  rests_on_.assign(graph_.size(), 0);
  assuming_ = false;
  granted_.clear();
  open_.clear();
  labels_of_.clear();
  inputs_.clear();
  arises_.clear();
  recalled_.clear();
}

bool ShapeValues::Refine(std::vector<ListLink> links, const Deadline& deadline) {
  if (links == links_) return false;
  links_ = std::move(links);
  links_of_.clear();
  for (size_t i = 0; i < links_.size(); ++i) links_of_[links_[i].node].push_back(i);
  Refine(deadline);
  return true;
}

void ShapeValues::Refine(const Deadline& deadline) {
  Pace pace(deadline);
  denied_.clear();
  Reset();
  bool open = false;
  for (int i = 0; i < graph_.size() && !open; ++i) open = IsOpen(i);
  if (!open) return;
  std::vector<std::pair<int, int>> first;
  for (const ListLink& link : links_) {
    for (const TensorRef& source : link.sources) {
      if (const TensorRef tensor = InputOf(source); tensor.node >= 0) first.emplace_back(tensor.node, link.node);
    }
  }
  order_ = graph_.Order(first);
  for (int round = 0; round < kMostRounds; ++round) {
    Reset();
    granting_ = round + 1 < kMostRounds;
    Pass(&pace);
    if (!Contradicted()) break;
  }
  for (int i = 0; i < graph_.size(); ++i) {
    if (!IsOpen(i)) continue;
    std::vector<bool>& ports = open_[i];
    for (const Properties& output : Facts(i)) ports.push_back(!IsKnown(output.shape()));
  }
  if (!open_.empty()) {
    assuming_ = true;
    for (Values& values : values_) {
      const bool all = !values.outputs.empty() && std::all_of(values.outputs.begin(), values.outputs.end(),
                                                              [](const auto& value) { return value.has_value(); });
      if (!all) values.state = Values::State::kNew;
    }
    Pass(&pace);
  }
  RefineInputs();
}

const ShapeValues::Properties* ShapeValues::PropertiesOf(const TensorRef& tensor) const {
  const Outputs& outputs = Facts(tensor.node);
  return tensor.port < static_cast<int>(outputs.size()) ? &outputs[tensor.port] : nullptr;
}

const TensorShapeProto* ShapeValues::ShapeOf(const TensorRef& tensor) const {
  const Properties* properties = PropertiesOf(tensor);
  return properties == nullptr ? nullptr : &properties->shape();
}

bool ShapeValues::IsOpen(int node) const {
  const Outputs& outputs = Facts(node);
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const Properties& output) { return HasSize(output.dtype()) && !IsKnown(output.shape()); });
}

// True where something of the shape was not known.
bool ShapeValues::Learn(int node, int port, const Shape& shape) {
  if (shape.unknown_rank() || port >= static_cast<int>(Facts(node).size())) return false;
  const Shape& known = Facts(node)[port].shape();
  if (!known.unknown_rank() && known.dim_size() != shape.dim_size()) return false;
  bool more = known.unknown_rank();
  for (int d = 0; d < shape.dim_size() && !more; ++d) more = known.dim(d).size() < 0 && shape.dim(d).size() >= 0;
  if (!more) return false;
  if (refined_[node].empty()) refined_[node] = *inferred_[node];
  Shape* learned = refined_[node][port].mutable_shape();
  if (learned->unknown_rank()) {
    *learned = shape;
    return true;
  }
  for (int d = 0; d < shape.dim_size(); ++d) {
    if (learned->dim(d).size() < 0 && shape.dim(d).size() >= 0) learned->mutable_dim(d)->set_size(shape.dim(d).size());
  }
  return true;
}

void ShapeValues::Pass(Pace* pace) {
  for (const int node : order_) {
    pace->Step(kWorkPerNode);
    if (IsOpen(node)) Visit(node);
    if (IsOpen(node) && recorded_.count(node) != 0) Recall(node);
    if (assuming_ && open_.count(node) != 0) Assume(node);
  }
}

void ShapeValues::Visit(int node) {
  const tensorflow::NodeDef& def = *graph_[node].def;
  if (IsMerge(def)) return VisitMerge(node);
  if (CallBodies::IsCall(def)) return;  // who reads it reads its body's results
  if (links_of_.count(node) != 0) VisitLinked(node);
  if (def.op() == "OptionalGetValue") return VisitHeld(node);
  if (IsPassage(def)) {
    const Shape* shape = graph_[node].inputs.empty() ? nullptr : ShapeOf(graph_[node].inputs[0]);
    for (size_t port = 0; shape != nullptr && port < Facts(node).size(); ++port) {
      Learn(node, static_cast<int>(port), *shape);
    }
    return;
  }
  Infer(node);
  if (KernelDecides(def) >= 0) return VisitDecidedByKernel(node);
  if (def.op() == "CollectiveGatherV2") return VisitGathered(node);
  if (!IsOpen(node) || !OpEvaluator::NeverLarger(def)) return;
  for (int port = 0; port < static_cast<int>(Facts(node).size()); ++port) {
    const Tensor* value = ValueOf({node, port});
    if (value == nullptr) return;
    Shape shape;
    value->shape().AsProto(&shape);
    Learn(node, port, shape);
  }
}

void ShapeValues::VisitDecidedByKernel(int node) {
  const tensorflow::NodeDef& def = *graph_[node].def;
  const Shape* const input = graph_[node].inputs.empty() ? nullptr : ShapeOf(graph_[node].inputs[0]);
  if (DeviceType(def.device()) != "CPU" || input == nullptr) return;
  const std::optional<Shape> shape = ShapeByKernel(def, *input, CpuKernels::Here(/*threads=*/1));
  if (shape) Learn(node, KernelDecides(def), *shape);
}

// Each device of the group gives as many rows.
void ShapeValues::VisitGathered(int node) {
  const std::vector<TensorRef>& inputs = graph_[node].inputs;
  const Shape* const input = inputs.size() < 2 ? nullptr : ShapeOf(inputs[0]);
  const Tensor* const devices = inputs.size() < 2 ? nullptr : ValueOf(inputs[1]);
  if (input == nullptr || input->dim_size() == 0 || input->dim(0).size() < 0) return;
  if (devices == nullptr || devices->dtype() != tensorflow::DT_INT32 || devices->NumElements() != 1) return;
  Shape shape = *input;
  shape.mutable_dim(0)->set_size(input->dim(0).size() * devices->flat<int32_t>()(0));
  Learn(node, 0, shape);
}

void ShapeValues::VisitMerge(int node) {
  const int back = graph_.BackInput(node);
  if (back >= 0) return VisitLoopVariable(node, back);
  // Of branches: one of them runs, so there is no more than the largest.
  std::vector<const Shape*> shapes;
  for (const TensorRef& input : graph_[node].inputs) shapes.push_back(ShapeOf(input));
  if (!shapes.empty()) Learn(node, 0, Largest(shapes));
}

void ShapeValues::VisitLoopVariable(int merge, int back) {
  if (graph_[merge].inputs.size() != 2) return;
  const Shape* before = ShapeOf(graph_[merge].inputs[1 - back]);
  if (before == nullptr || before->unknown_rank() || Facts(merge).empty()) return;
  if (graph_.Invariant(merge).node >= 0) {
    Learn(merge, 0, *before);
    return;
  }
  if (!granting_) return;
  Shape shape = *before;
  if (const auto denied = denied_.find(merge); denied != denied_.end()) {
    for (const int d : denied->second) {
      if (d == kAllDims || d >= shape.dim_size()) return;
      shape.mutable_dim(d)->set_size(-1);
    }
  }
  const Shape known = Facts(merge)[0].shape();
  if (!Learn(merge, 0, shape) || assuming_) return;
  for (int d = 0; d < shape.dim_size(); ++d) {
    const bool new_dim = known.unknown_rank() || known.dim(d).size() < 0;
    if (new_dim && shape.dim(d).size() >= 0) granted_[merge].push_back(d);
  }
}

bool ShapeValues::Contradicted() {
  bool contradicted = false;
  for (const auto& [merge, dims] : granted_) {
    const Shape& taken = Facts(merge)[0].shape();
    const Shape* next = ShapeOf(graph_[merge].inputs[graph_.BackInput(merge)]);
    if (next == nullptr || next->unknown_rank() || next->dim_size() != taken.dim_size()) {
      denied_[merge] = {kAllDims};
      contradicted = true;
      continue;
    }
    for (const int d : dims) {
      if (next->dim(d).size() == taken.dim(d).size()) continue;
      denied_[merge].push_back(d);
      contradicted = true;
    }
  }
  return contradicted;
}

void ShapeValues::VisitLinked(int node) {
  for (const size_t l : links_of_.at(node)) {
    const ListLink& link = links_[l];
    Shape shape;
    bool first = true;
    for (const TensorRef& source : link.sources) {
      const TensorRef tensor = InputOf(source);
      const Shape* of_source = tensor.node < 0 ? nullptr : ShapeOf(tensor);
      if (of_source == nullptr || of_source->unknown_rank()) continue;
      shape = first ? *of_source : Common(shape, *of_source);
      first = false;
    }
    if (first || shape.unknown_rank()) continue;
    if (link.kind == ListLink::Kind::kRow) {
      if (shape.dim_size() == 0) continue;
      shape.mutable_dim()->DeleteSubrange(0, 1);
    } else if (link.kind == ListLink::Kind::kStack) {
      Shape stacked;
      stacked.add_dim()->set_size(link.count);
      for (const auto& dim : shape.dim()) stacked.add_dim()->set_size(dim.size());
      shape = stacked;
    }
    Learn(node, link.port, shape);
  }
}

void ShapeValues::VisitHeld(int node) {
  for (int port = 0; port < static_cast<int>(Facts(node).size()); ++port) {
    std::vector<const Shape*> shapes;
    for (const TensorRef& held : HeldTensors(node, port)) shapes.push_back(ShapeOf(held));
    if (!shapes.empty()) Learn(node, port, Largest(shapes));
  }
}

namespace {

// The shape as a context knows it; of unknown rank where it is no shape.
tensorflow::PartialTensorShape Partial(const TensorShapeProto* shape) {
  tensorflow::PartialTensorShape partial;
  if (shape == nullptr || shape->unknown_rank()) return partial;
  std::vector<int64_t> dims;
  for (const auto& dim : shape->dim()) dims.push_back(std::max<int64_t>(dim.size(), -1));
  if (!tensorflow::PartialTensorShape::MakePartialShape(dims.data(), static_cast<int>(dims.size()), &partial).ok()) {
    return {};
  }
  return partial;
}

using HandleShapes = std::vector<std::pair<tensorflow::PartialTensorShape, tensorflow::DataType>>;

}  // namespace

bool ShapeValues::Infer(int node) {
  const ShapeNode& of = graph_[node];
  if (of.op == nullptr || !of.op->shape_inference_fn) return false;
  std::vector<tensorflow::PartialTensorShape> shapes;
  std::vector<const Tensor*> tensors;
  for (const TensorRef& input : of.inputs) {
    shapes.push_back(Partial(ShapeOf(input)));
    tensors.push_back(Known(input));
  }
  const std::vector<std::unique_ptr<HandleShapes>> handles(shapes.size());
  tensorflow::shape_inference::InferenceContext context(graph_.producer(), tensorflow::AttrSlice(*of.def),
                                                        of.op->op_def, shapes, tensors, {}, handles);
  if (!context.construction_status().ok()) return false;
  std::vector<bool> asked(tensors.size(), false);
  for (bool more = true; more;) {
    if (!context.Run(of.op->shape_inference_fn).ok()) return false;
    more = false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int at = static_cast<int>(i);
      const bool wanted = context.requested_input_tensor(at) || context.requested_input_tensor_as_partial_shape(at);
      if (!wanted || asked[i] || tensors[i] != nullptr) continue;
      asked[i] = true;
      tensors[i] = ValueOf(of.inputs[i]);
      more = more || tensors[i] != nullptr;
    }
    if (more) context.set_input_tensors(tensors);
  }
  bool learned = false;
  for (int port = 0; port < context.num_outputs(); ++port) {
    Shape shape;
    context.ShapeHandleToProto(context.output(port), &shape);
    learned = Learn(node, port, shape) || learned;
  }
  return learned;
}

void ShapeValues::RefineInputs() {
  for (int i = 0; i < graph_.size(); ++i) {
    const std::vector<TensorRef>& from = graph_[i].inputs;
    const Outputs& known = *inferred_inputs_[i];
    const auto better = [&](size_t input) {
      return !refined_[from[input].node].empty() || (!known[input].has_value() && Known(from[input]) != nullptr);
    };
    Outputs* refined = nullptr;
    for (size_t input = 0; input < std::min(from.size(), known.size()); ++input) {
      if (!better(input)) continue;
      if (refined == nullptr) refined = &inputs_.emplace(i, known).first->second;
      Properties& properties = (*refined)[input];
      if (const Shape* shape = ShapeOf(from[input]); shape != nullptr) *properties.mutable_shape() = *shape;
      const Tensor* value = Known(from[input]);
      if (value != nullptr && !properties.has_value()) value->AsProtoField(properties.mutable_value());
    }
  }
}

namespace {

template <typename T>
const std::vector<T>& None() {
  static const auto* const none = new std::vector<T>();
  return *none;
}

}  // namespace

const ShapeValues::Outputs& ShapeValues::OutputsOf(const std::string& node) const {
  const int at = graph_.Find(node);
  return at < 0 ? None<Properties>() : Facts(at);
}

const ShapeValues::Outputs& ShapeValues::InputsOf(const std::string& node) const {
  const int at = graph_.Find(node);
  if (at < 0) return None<Properties>();
  const auto refined = inputs_.find(at);
  return refined == inputs_.end() ? *inferred_inputs_[at] : refined->second;
}

TensorRef ShapeValues::InputOf(const TensorRef& source) const {
  const std::vector<TensorRef>& inputs = graph_[source.node].inputs;
  return source.port < static_cast<int>(inputs.size()) ? inputs[source.port] : TensorRef{-1, 0};
}

}  // namespace lms
