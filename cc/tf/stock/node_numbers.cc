#include "cc/tf/stock/node_numbers.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <unordered_set>
#include <utility>

#include "cc/tf/graph/node_types.h"
#include "cc/tf/sizes/cpu_kernels.h"
#include "cc/tf/stock/layout_search.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {
namespace {

// Has oneDNN kernels for it? (IsMklOp in TensorFlow's mkl_graph_util.h)
bool HasKernels(tensorflow::DataType type) { return type == tensorflow::DT_FLOAT || CpuKernels::Here(1).OneDnn(type); }

// Its transpositions are also of types that oneDNN has nothing else for.
bool IsTransposition(const std::string& op_type) { return op_type == "Transpose" || op_type == "ConjugateTranspose"; }
bool HasTranspositions(tensorflow::DataType type) {
  return type == tensorflow::DT_DOUBLE || type == tensorflow::DT_COMPLEX64 || type == tensorflow::DT_COMPLEX128;
}

// Ops that oneDNN's layout pass replaces by nodes of its own, which are of the CPU.
bool Replaced(const tensorflow::NodeDef& node) {
  static const auto* const names = new std::unordered_set<std::string>{
      // from the program
      "AvgPool", "AvgPool3D", "AvgPool3DGrad", "AvgPoolGrad", "BatchMatMul", "BatchMatMulV2", "ConjugateTranspose",
      "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "Conv3D", "Conv3DBackpropFilterV2",
      "Conv3DBackpropInputV2", "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropFilter",
      "DepthwiseConv2dNativeBackpropInput", "Einsum", "FusedBatchNormGradV3", "FusedBatchNormV3", "MatMul", "MaxPool",
      "MaxPool3D", "MaxPool3DGrad", "MaxPoolGrad", "Softmax", "Transpose",
      // fused before
      "_FusedBatchNormEx", "_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedMatMul", "_MklSwish"};
  if (names->count(node.op()) == 0 || DeviceType(node.device()) != "CPU") return false;
  const auto type = node.attr().find("T");
  return type == node.attr().end() || HasKernels(type->second.type()) ||
         (IsTransposition(node.op()) && HasTranspositions(type->second.type()));
}

// What is an argument in a call is a placeholder or a variable's handle where a function is planned before any call.
bool IsArgument(const std::string& op_type) {
  return op_type == "_Arg" || op_type == "Placeholder" || op_type == "VarHandleOp";
}

}  // namespace

bool ClosesLoop(const std::string& op_type) { return op_type == "NextIteration" || op_type == "RefNextIteration"; }

NodeNumbers::NodeNumbers(const tensorflow::GraphDef& graph, const GraphIndex& index, const std::vector<int>& fused,
                         bool onednn, EdgeDraws draws)
    : index_(index),
      fused_(fused),
      draws_(draws),
      closes_loop_(index.size()),
      replaced_(index.size(), false),
      inputs_(index.size()),
      parts_(index.size()) {
  for (int i = 0; i < index.size(); ++i) closes_loop_[i] = ClosesLoop(graph.node(i).op());
  for (int i = 0; i < index.size(); ++i) {
    for (const TensorRef& input : index[i].inputs) inputs_[i] += closes_loop_[input.node] ? 0 : 1;
    inputs_[i] += static_cast<int>(index[i].controls.size());
    if (IsArgument(graph.node(i).op())) arguments_.push_back(i);
    replaced_[i] = onednn && Replaced(graph.node(i));
    any_replaced_ = any_replaced_ || replaced_[i];
    if (fused[i] == i) continue;
    parts_[fused[i]].push_back(i);
    any_fused_ = true;
  }
  const auto number = [&graph](int node) {
    const auto attr = graph.node(node).attr().find("index");
    return attr == graph.node(node).attr().end() ? 0 : attr->second.i();
  };
  std::stable_sort(arguments_.begin(), arguments_.end(), [&](int a, int b) { return number(a) < number(b); });
  SortFirstComeFirstServed();
  if (!Fixed()) AddEdges();
}

std::vector<int> NodeNumbers::Draw(uint32_t draw) const {
  if (!any_replaced_) return ArgumentsFirst(order_);
  std::vector<int> order = order_;
  const auto own = std::stable_partition(order.begin(), order.end(), [this](int node) { return !replaced_[node]; });
  if (!Fixed()) {
    const std::vector<int> search = Search(draw);
    std::sort(own, order.end(), [&search](int a, int b) { return search[a] < search[b]; });
  }
  return ArgumentsFirst(SortAgain(order));
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
  for (const int to : order_) {
    for (const TensorRef& input : index_[to].inputs) readers_[input.node].push_back({edges_++, to});
    for (const int from : index_[to].controls) readers_[from].push_back({edges_++, to});
  }
  for (const int to : order_) {
    if (index_[to].inputs.empty() && index_[to].controls.empty()) roots_.push_back({edges_++, to});
    if (readers_[to].empty()) ++edges_;  // to the sink
  }
}

// Each node's place in the search by which the layout pass puts its nodes at the end.
std::vector<int> NodeNumbers::Search(uint32_t draw) const {
  LayoutSearch search(index_, readers_, roots_, edges_, draws_, draw);
  if (any_fused_) {
    std::vector<bool> merged(index_.size(), false);
    for (const int node : search.ReversePostOrder()) {
      const int into = fused_[node];
      if (merged[into]) continue;
      merged[into] = true;
      for (const int part : parts_[into]) search.Merge(part, into);
    }
  }
  std::vector<int> place(index_.size(), 0);
  int next = 0;
  for (const int node : search.ReversePostOrder()) place[node] = next++;
  return place;
}

std::vector<int> NodeNumbers::SortAgain(const std::vector<int>& order) const {
  std::vector<int> place(index_.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
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
    sorted.insert(sorted.end(), parts_[node].begin(), parts_[node].end());
    if (closes_loop_[node]) continue;
    pass(node);
    for (const int part : parts_[node]) pass(part);
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
