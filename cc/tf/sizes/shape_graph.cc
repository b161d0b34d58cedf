#include "cc/tf/sizes/shape_graph.h"

#include <unordered_set>
#include <utility>

#include "cc/tf/graph/loops.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

constexpr int kMostStepsBack = 64;  // from a NextIteration back to its Merge

}  // namespace

bool IsMerge(const tensorflow::NodeDef& node) { return node.op() == "Merge" || node.op() == "RefMerge"; }

bool IsPassage(const tensorflow::NodeDef& node) {
  static const auto* const ops = new std::unordered_set<std::string>{
      "Enter", "Exit", "Identity", "NextIteration", "RefEnter", "RefExit", "RefNextIteration", "RefSwitch", "Switch"};
  return ops->count(node.op()) != 0;
}

ShapeGraph::ShapeGraph(const tensorflow::GraphDef& graph) : producer_(graph.versions().producer()) {
  nodes_.resize(graph.node_size());
  by_name_.reserve(graph.node_size());
  std::unordered_map<std::string_view, const tensorflow::OpRegistrationData*> ops;
  for (int i = 0; i < size(); ++i) {
    const tensorflow::NodeDef& node = graph.node(i);
    nodes_[i].def = &node;
    by_name_.emplace(node.name(), i);
    const auto [found, added] = ops.emplace(node.op(), nullptr);
    if (added && !tensorflow::OpRegistry::Global()->LookUp(node.op(), &found->second).ok()) found->second = nullptr;
    nodes_[i].op = found->second;
  }
  for (ShapeNode& node : nodes_) {
    for (const std::string& input : node.def->input()) {
      const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
      const int from = id.index() < 0 ? -1 : Find(std::string_view(id.node().data(), id.node().size()));
      if (from < 0) break;  // control inputs come last
      node.inputs.push_back({from, id.index()});
    }
  }
}

int ShapeGraph::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

int ShapeGraph::BackInput(int merge) const {
  const std::vector<TensorRef>& inputs = nodes_[merge].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsNextIteration(*nodes_[inputs[i].node].def)) return static_cast<int>(i);
  }
  return -1;
}

TensorRef ShapeGraph::Invariant(int merge) const {
  const std::vector<TensorRef>& inputs = nodes_[merge].inputs;
  const int back = BackInput(merge);
  if (back < 0 || inputs.size() != 2) return {-1, 0};
  int from = inputs[back].node;
  for (int steps = 0; steps < kMostStepsBack && from != merge; ++steps) {
    if (!IsPassage(*nodes_[from].def) || IsEnter(*nodes_[from].def) || nodes_[from].inputs.empty()) return {-1, 0};
    from = nodes_[from].inputs[0].node;
  }
  return from == merge ? inputs[1 - back] : TensorRef{-1, 0};
}

std::vector<int> ShapeGraph::Order(const std::vector<std::pair<int, int>>& first) const {
  std::vector<std::vector<int>> readers(nodes_.size());
  std::vector<int> waits(nodes_.size(), 0);
  const auto add = [&](int before, int after) {
    readers[before].push_back(after);
    ++waits[after];
  };
  for (int i = 0; i < size(); ++i) {
    const bool merge = IsMerge(*nodes_[i].def);
    for (const TensorRef& input : nodes_[i].inputs) {
      if (!merge || !IsNextIteration(*nodes_[input.node].def)) add(input.node, i);
    }
  }
  for (const auto& [before, after] : first) add(before, after);
  std::vector<int> order;
  order.reserve(nodes_.size());
  std::vector<bool> placed(nodes_.size(), false);
  const auto place = [&](int node) {
    placed[node] = true;
    order.push_back(node);
  };
  for (int i = 0; i < size(); ++i) {
    if (waits[i] == 0) place(i);
  }
  size_t next = 0;
  int cyclic = 0;  // no node before this one is left
  while (order.size() < nodes_.size()) {
    for (; next < order.size(); ++next) {
      for (const int reader : readers[order[next]]) {
        if (--waits[reader] == 0 && !placed[reader]) place(reader);
      }
    }
    while (cyclic < size() && placed[cyclic]) ++cyclic;
    if (cyclic < size()) place(cyclic);
  }
  return order;
}

}  // namespace lms
