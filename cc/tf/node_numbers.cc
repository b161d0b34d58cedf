#include "cc/tf/node_numbers.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cc/tf/node_types.h"

namespace lms {
namespace {

// Ops that oneDNN's layout pass replaces by nodes of its own.
bool Replaced(const std::string& op_type) {
  static const auto* const names = new std::unordered_set<std::string>{"AvgPool",
                                                                       "AvgPoolGrad",
                                                                       "BatchMatMul",
                                                                       "BatchMatMulV2",
                                                                       "Conv2D",
                                                                       "Conv2DBackpropFilter",
                                                                       "Conv2DBackpropInput",
                                                                       "Conv3D",
                                                                       "Conv3DBackpropFilterV2",
                                                                       "Conv3DBackpropInputV2",
                                                                       "DepthwiseConv2dNative",
                                                                       "DepthwiseConv2dNativeBackpropFilter",
                                                                       "DepthwiseConv2dNativeBackpropInput",
                                                                       "Einsum",
                                                                       "FusedBatchNormGradV3",
                                                                       "FusedBatchNormV3",
                                                                       "MatMul",
                                                                       "MaxPool",
                                                                       "MaxPoolGrad",
                                                                       "Softmax",
                                                                       "_FusedBatchNormEx",
                                                                       "_FusedConv2D",
                                                                       "_FusedDepthwiseConv2dNative",
                                                                       "_FusedMatMul",
                                                                       "_MklSwish"};
  return names->count(op_type) != 0;
}

}  // namespace

bool ClosesLoop(const std::string& op_type) { return op_type == "NextIteration" || op_type == "RefNextIteration"; }

std::vector<int> DeviceNumbers(const tensorflow::GraphDef& graph) {
  std::unordered_map<std::string, int> known;
  std::vector<int> numbers;
  for (const auto& node : graph.node()) {
    numbers.push_back(known.emplace(node.device(), static_cast<int>(known.size())).first->second);
  }
  return numbers;
}

NodeNumbers::NodeNumbers(const tensorflow::GraphDef& graph, const GraphIndex& index, const std::vector<int>& fused,
                         bool onednn)
    : index_(index),
      fused_(fused),
      closes_loop_(index.size()),
      replaced_(index.size(), false),
      devices_(DeviceNumbers(graph)),
      inputs_(index.size()) {
  for (int i = 0; i < index.size(); ++i) closes_loop_[i] = ClosesLoop(graph.node(i).op());
  for (int i = 0; i < index.size(); ++i) {
    for (const TensorRef& input : index[i].inputs) inputs_[i] += closes_loop_[input.node] ? 0 : 1;
    inputs_[i] += static_cast<int>(index[i].controls.size());
    const std::string& op = graph.node(i).op();
    if (op == "_Arg" || op == "Placeholder" || op == "VarHandleOp") arguments_.push_back(i);
    replaced_[i] = onednn && Replaced(graph.node(i).op()) && DeviceType(graph.node(i).device()) == "CPU";
    any_replaced_ = any_replaced_ || replaced_[i];
  }
  const auto number = [&graph](int node) {
    const auto attr = graph.node(node).attr().find("index");
    return attr == graph.node(node).attr().end() ? 0 : attr->second.i();
  };
  std::stable_sort(arguments_.begin(), arguments_.end(), [&](int a, int b) { return number(a) < number(b); });
  SortFirstComeFirstServed();
  if (any_replaced_) AddEdges();
}

std::vector<int> NodeNumbers::Draw(std::mt19937* random) const {
  return ArgumentsFirst(Fixed() ? order_ : Replace(random));
}

void NodeNumbers::SortFirstComeFirstServed() {
  std::vector<int> waiting = inputs_;
  for (int i = 0; i < index_.size(); ++i) {
    if (waiting[i] == 0) order_.push_back(i);
  }
  for (size_t next = 0; next < order_.size(); ++next) {
    if (closes_loop_[order_[next]]) continue;  // its readers did not wait for it
    for (const int reader : index_[order_[next]].readers) {
      if (--waiting[reader] == 0) order_.push_back(reader);
    }
  }
}

void NodeNumbers::AddEdges() {
  readers_.resize(index_.size());
  roots_.resize(*std::max_element(devices_.begin(), devices_.end()) + 1);
  for (const int to : order_) {
    for (const TensorRef& input : index_[to].inputs) readers_[input.node].push_back({edges_.Next(devices_[to]), to});
    for (const int from : index_[to].controls) readers_[from].push_back({edges_.Next(devices_[to]), to});
  }
  for (const int to : order_) {
    if (!index_[to].inputs.empty() || !index_[to].controls.empty()) continue;
    roots_[devices_[to]].push_back({edges_.Next(devices_[to]), to});
  }
}

// Each node's place in the search, counted from its end.
std::vector<int> NodeNumbers::ReversePostOrder(const EdgeOrder& edges) const {
  std::vector<std::pair<int, bool>> stack;  // and has all behind it been visited?
  for (const std::vector<ReaderEdge>& of_device : roots_) {
    for (const int root : edges.SortRoots(of_device)) stack.emplace_back(root, false);
  }
  std::vector<int> place(index_.size(), 0);
  std::vector<bool> visited(index_.size(), false);
  int next = index_.size();
  while (!stack.empty()) {
    const auto [node, left] = stack.back();
    stack.pop_back();
    if (left) {
      place[node] = --next;
      continue;
    }
    if (visited[node]) continue;
    visited[node] = true;
    stack.emplace_back(node, true);
    for (const int reader : edges.Sort(readers_[node])) {
      if (!visited[reader]) stack.emplace_back(reader, false);
    }
  }
  return place;
}

std::vector<int> NodeNumbers::Replace(std::mt19937* random) const {
  std::vector<int> order = order_;
  const auto own = std::stable_partition(order.begin(), order.end(), [this](int node) { return !replaced_[node]; });
  if (roots_.size() == 1) {  // of several devices' graphs as one, a search would say nothing
    const std::vector<int> search = ReversePostOrder(EdgeOrder(edges_.most(), false, random));
    std::sort(own, order.end(), [&search](int a, int b) { return search[a] < search[b]; });
  }
  return SortAgain(order);
}

std::vector<int> NodeNumbers::SortAgain(const std::vector<int>& order) const {
  std::vector<int> place(index_.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  std::vector<std::vector<int>> fused_here(index_.size());
  for (int i = 0; i < index_.size(); ++i) {
    if (fused_[i] != i) fused_here[fused_[i]].push_back(i);
  }
  std::vector<int> waiting = inputs_;
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (const int node : order) {
    if (waiting[node] == 0) ready.push(place[node]);
  }
  const auto pass = [&](int node) {
    for (const int reader : index_[node].readers) {
      if (--waiting[reader] == 0 && fused_[reader] == reader) ready.push(place[reader]);
    }
  };
  std::vector<int> sorted;
  while (!ready.empty()) {
    const int node = order[ready.top()];
    ready.pop();
    sorted.push_back(node);
    sorted.insert(sorted.end(), fused_here[node].begin(), fused_here[node].end());
    if (closes_loop_[node]) continue;
    pass(node);
    for (const int other : fused_here[node]) pass(other);
  }
  return sorted;
}

std::vector<int> NodeNumbers::ArgumentsFirst(const std::vector<int>& order) const {
  std::vector<bool> argument(index_.size(), false);
  for (const int node : arguments_) argument[node] = true;
  std::vector<int> all = arguments_;
  std::copy_if(order.begin(), order.end(), std::back_inserter(all), [&](int node) { return !argument[node]; });
  return all;
}

}  // namespace lms
