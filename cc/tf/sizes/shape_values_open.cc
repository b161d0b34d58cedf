// The part of ShapeValues that deals with sizes which no graph says: what earlier steps have shown of them, what is
// assumed of the others, and what rests on that.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/sizes/call_bodies.h"
#include "cc/tf/sizes/known_shapes.h"
#include "cc/tf/sizes/shape_values.h"

namespace lms {

AssumptionSet ShapeValues::InputAssumptions(int node) const {
  AssumptionSet all = 0;
  const auto add = [&](const TensorRef& tensor) {
    all |= rests_on_[tensor.node];
    if (Known(tensor) != nullptr) all |= values_[tensor.node].assumptions;
  };
  for (const TensorRef& input : graph_[node].inputs) add(input);
  if (const auto links = links_of_.find(node); links != links_of_.end()) {
    for (const size_t l : links->second) {
      for (const TensorRef& source : links_[l].sources) {
        if (const TensorRef tensor = InputOf(source); tensor.node >= 0) add(tensor);
      }
    }
  }
  if (graph_[node].def->op() == "OptionalGetValue") {
    for (const TensorRef& held : HeldTensors(node, 0)) add(held);
  }
  return all;
}

namespace {

// What people call a dimension.
std::string DimName(const std::string& node, size_t port, int dim) {
  return node + (port == 0 ? "" : "[" + std::to_string(port) + "]") + ":" + std::to_string(dim);
}

}  // namespace

void ShapeValues::Recall(int node) {
  for (const auto& [port, shape] : recorded_.at(node)) {
    if (port >= static_cast<int>(Facts(node).size()) || !HasSize(Facts(node)[port].dtype())) continue;
    const Shape before = Facts(node)[port].shape();
    if (!Learn(node, port, shape)) continue;
    arises_.insert(node);
    for (int d = 0; d < shape.dim_size(); ++d) {
      if (!before.unknown_rank() && before.dim(d).size() >= 0) continue;
      recalled_.push_back(DimName(graph_[node].def->name(), port, d) + " = " + std::to_string(shape.dim(d).size()) +
                          " (earlier steps)");
    }
  }
}

// Though all that it reads has a rank?
bool ShapeValues::LeavesOpen(int node) const {
  const auto ranked = [this](const TensorRef& input) {
    const Properties* properties = PropertiesOf(input);
    return properties == nullptr || !HasSize(properties->dtype()) || !properties->shape().unknown_rank();
  };
  const std::vector<TensorRef>& inputs = graph_[node].inputs;
  return std::all_of(inputs.begin(), inputs.end(), ranked);
}

void ShapeValues::Assume(int node) {
  rests_on_[node] = InputAssumptions(node);
  if (CallBodies::IsCall(*graph_[node].def)) return;
  // A size that was computed from what the first call was given arises here, not where it is handed on.
  const std::vector<TensorRef>& inputs = graph_[node].inputs;
  const auto handed_on = [this](const TensorRef& input) { return (rests_on_[input.node] & kSeenNumber) != 0; };
  if ((rests_on_[node] & kSeenNumber) != 0 && std::none_of(inputs.begin(), inputs.end(), handed_on)) {
    arises_.insert(node);
  }
  if (!IsOpen(node)) return;
  if (LeavesOpen(node)) arises_.insert(node);
  std::vector<std::string> names;
  for (size_t port = 0; port < Facts(node).size(); ++port) {
    const Shape shape = Facts(node)[port].shape();
    if (shape.unknown_rank() || !HasSize(Facts(node)[port].dtype())) continue;
    Shape assumed = shape;
    for (int d = 0; d < shape.dim_size(); ++d) {
      if (shape.dim(d).size() >= 0) continue;
      assumed.mutable_dim(d)->set_size(assumed_dim_);
      names.push_back(DimName(graph_[node].def->name(), port, d));
    }
    Learn(node, static_cast<int>(port), assumed);
  }
  // Where it already rests on an assumption there is none of its own to be named, unless the data decides as well.
  const bool own = (rests_on_[node] & ~kSeenNumber) == 0 || OpEvaluator::NeverLarger(*graph_[node].def);
  if (names.empty() || !own) return;
  const auto label = labels_.find(graph_[node].def->name());
  const size_t bit = labels_of_.size() < kSeenNumberBit ? labels_of_.size() : kMostAssumptions - 1;
  if (labels_of_.size() < kSeenNumberBit) {
    labels_of_.push_back(label == labels_.end() ? names : label->second);
  }
  rests_on_[node] |= AssumptionSet{1} << bit;
}

std::vector<ShapeValues::OpenNode> ShapeValues::OpenNodes() const {
  std::vector<OpenNode> nodes;
  for (const int node : arises_) {
    OpenNode open;
    open.name = graph_[node].def->name();
    open.recorded = recorded_.count(node) != 0;
    open.told = rests_on_[node] == kSeenNumber;
    open.results = static_cast<int>(Facts(node).size());
    for (const Properties& output : Facts(node)) {
      if (!HasSize(output.dtype()) || open.elements < 0) continue;
      open.elements = IsKnown(output.shape()) ? std::max(open.elements, ElementsOf(output.shape())) : -1;
    }
    nodes.push_back(std::move(open));
  }
  return nodes;
}

std::vector<std::string> ShapeValues::RecordedLines() const { return recalled_; }

std::vector<std::string> ShapeValues::SeenLines() const {
  std::vector<std::string> lines;
  if (std::none_of(rests_on_.begin(), rests_on_.end(), [](AssumptionSet set) { return (set & kSeenNumber) != 0; })) {
    return lines;
  }
  for (const auto& [node, numbers] : seen_) {
    if (Known({node, 0}) == nullptr) continue;
    std::string text;
    for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
    lines.push_back(graph_[node].def->name() + " = [" + text + "] (first call)");
  }
  return lines;
}

AssumptionSet ShapeValues::AssumptionsOf(const std::string& node, int port) const {
  const int at = graph_.Find(node);
  return at < 0 ? 0 : AssumptionsOf(TensorRef{at, port}) & ~kSeenNumber;
}

AssumptionSet ShapeValues::AssumptionsOf(const TensorRef& tensor) const {
  const auto open = open_.find(tensor.node);
  const bool assumed =
      open != open_.end() && tensor.port < static_cast<int>(open->second.size()) && open->second[tensor.port];
  return assumed ? rests_on_[tensor.node] : 0;
}

}  // namespace lms
