#include "cc/tf/executor_model.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <queue>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>

#include "cc/tf/layout_fusions.h"
#include "cc/tf/loops.h"
#include "cc/tf/node_types.h"
#include "cc/tf/op_traits.h"
#include "cc/tf/swap_ops.h"

namespace lms {
namespace {

// Ways to number the nodes that are drawn, where there are several.
constexpr int kNumberings = 4;

bool ClosesLoop(const std::string& op_type) { return op_type == "NextIteration" || op_type == "RefNextIteration"; }

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

// Numbers of nodes, as the executor has them.
class Numbers {
 public:
  Numbers(const tensorflow::GraphDef& graph, const GraphIndex& index, const std::vector<int>& fused, bool onednn)
      : index_(index),
        fused_(fused),
        closes_loop_(index.size()),
        replaced_(index.size(), false),
        inputs_(index.size()) {
    for (int i = 0; i < index.size(); ++i) closes_loop_[i] = ClosesLoop(graph.node(i).op());
    for (int i = 0; i < index.size(); ++i) {
      for (const TensorRef& input : index[i].inputs) inputs_[i] += closes_loop_[input.node] ? 0 : 1;
      inputs_[i] += static_cast<int>(index[i].controls.size());
      if (graph.node(i).op() == "_Arg") arguments_.push_back(i);
      replaced_[i] = onednn && Replaced(graph.node(i).op());
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

  // Is there one order of them alone?
  bool Fixed() const { return !any_replaced_; }

  // Grappler's topological sort takes nodes first come, first served. Where oneDNN's layout pass has put nodes of its
  // own at the end, they are then sorted again: of those that are ready, the first. Arguments of functions come before
  // all.
  std::vector<int> Draw(std::mt19937* random) const { return ArgumentsFirst(Fixed() ? order_ : Replace(random)); }

 private:
  std::vector<int> ArgumentsFirst(const std::vector<int>& order) const {
    std::vector<bool> argument(index_.size(), false);
    for (const int node : arguments_) argument[node] = true;
    std::vector<int> all = arguments_;
    std::copy_if(order.begin(), order.end(), std::back_inserter(all), [&](int node) { return !argument[node]; });
    return all;
  }

  std::vector<int> Replace(std::mt19937* random) const {
    const std::vector<int> search = ReversePostOrder(EdgeOrder(edges_, random));
    std::vector<int> order = order_;
    const auto own = std::stable_partition(order.begin(), order.end(), [this](int node) { return !replaced_[node]; });
    std::sort(own, order.end(), [&search](int a, int b) { return search[a] < search[b]; });
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

  void SortFirstComeFirstServed() {
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

  void AddEdges() {
    readers_.resize(index_.size());
    for (const int to : order_) {
      for (const TensorRef& input : index_[to].inputs) readers_[input.node].push_back({edges_++, to});
      for (const int from : index_[to].controls) readers_[from].push_back({edges_++, to});
    }
    for (const int to : order_) {
      if (index_[to].inputs.empty() && index_[to].controls.empty()) roots_.push_back({edges_++, to});
    }
  }

  // The layout pass goes through the nodes in the order of a depth-first search, counted from its end: each node's
  // place.
  std::vector<int> ReversePostOrder(const EdgeOrder& edges) const {
    std::vector<std::pair<int, bool>> stack;  // and has all behind it been visited?
    for (const int root : edges.SortRoots(roots_)) stack.emplace_back(root, false);
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

  const GraphIndex& index_;
  const std::vector<int>& fused_;
  std::vector<bool> closes_loop_;
  std::vector<bool> replaced_;  // by nodes of the layout pass
  std::vector<int> inputs_;     // that a node waits for
  std::vector<int> arguments_;  // by their number
  bool any_replaced_ = false;
  std::vector<int> order_;  // as Grappler has sorted them
  std::vector<std::vector<ReaderEdge>> readers_;
  std::vector<ReaderEdge> roots_;
  int edges_ = kSinkEdges;
};

}  // namespace

// One run: the queue at hand, and the pool.
class ExecutorModel::Execution {
 public:
  Execution(const ExecutorNodes& nodes, std::mt19937 random)
      : nodes_(nodes.nodes), edges_(nodes.edges, &random), waiting_(nodes_.size()) {
    for (size_t i = 0; i < nodes_.size(); ++i) waiting_[i] = nodes_[i].waits_for;
    Schedule(edges_.SortRoots(nodes.roots));
  }

  std::vector<int> Run() {
    DrainQueue();
    while (!pool_.empty() || !transfers_.empty()) {
      if (!transfers_.empty()) {
        // How long it takes is not known here: it has ended by the time that nothing is at hand.
        const std::vector<int> ready = ReadyBehind(nodes_[transfers_.front()]);
        transfers_.pop_front();
        for (const int node : ready) pool_.insert(pool_.begin(), node);
        continue;
      }
      queue_.push_back(pool_.back());
      pool_.pop_back();
      DrainQueue();
    }
    return std::move(order_);
  }

 private:
  void DrainQueue() {
    while (!queue_.empty()) {
      const ExecutorNode& node = nodes_[queue_.front()];
      order_.push_back(queue_.front());
      order_.insert(order_.end(), node.fused.begin(), node.fused.end());
      const int begun = queue_.front();
      queue_.pop_front();
      if (node.direction >= 0) {
        transfers_.push_back(begun);
        continue;
      }
      Schedule(ReadyBehind(node));
    }
  }

  // What waits for nothing more now that the node has run.
  std::vector<int> ReadyBehind(const ExecutorNode& node) {
    edges_.Sort(node.data, node.control, &data_, &control_);
    std::vector<int> ready;
    for (const std::vector<int>* readers : {&data_, &control_}) {
      for (const int reader : *readers) {
        if (--waiting_[reader] == 0) ready.push_back(reader);
      }
    }
    return ready;
  }

  void Schedule(const std::vector<int>& ready) {
    int last = -1;  // of those that are not cheap
    for (const int node : ready) {
      if (nodes_[node].runs_inline) {
        queue_.push_back(node);
        continue;
      }
      if (last >= 0) pool_.push_back(last);
      last = node;
    }
    if (last >= 0 && queue_.empty()) {
      queue_.push_back(last);
    } else if (last >= 0) {
      pool_.push_back(last);
    }
  }

  const std::vector<ExecutorNode>& nodes_;
  const EdgeOrder edges_;
  std::vector<int> data_;  // readers of the node that has run
  std::vector<int> control_;
  std::vector<int> waiting_;
  std::deque<int> queue_;
  std::vector<int> pool_;
  std::deque<int> transfers_;  // that have begun
  std::vector<int> order_;
};

ExecutorModel::ExecutorModel(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn)
    : graph_(graph), index_(index), fused_(FusedInto(graph, index, onednn)) {
  const Numbers numbers(graph, index, fused_, onednn);
  std::mt19937 random(index.size());
  for (int i = 0; i < (numbers.Fixed() ? 1 : kNumberings); ++i) numbered_.push_back(Nodes(numbers.Draw(&random)));
}

ExecutorNodes ExecutorModel::Nodes(const std::vector<int>& order) const {
  ExecutorNodes all{std::vector<ExecutorNode>(index_.size()), {}, kSinkEdges};
  std::vector<ExecutorNode>& nodes = all.nodes;
  const auto connect = [&](int from, int to) {
    nodes[fused_[from]].control.push_back({all.edges++, fused_[to]});
    ++nodes[fused_[to]].waits_for;
  };
  // What leaves a loop runs when the loop has ended: after all that its iterations take in.
  const auto wait_for_loop = [&](int from, int to) {
    if (index_[to].frame > 0) {
      if (!IsExit(graph_.node(to))) return;  // within the iteration
      for (const int end : index_.frame(index_[to].frame).ends) {
        if (index_[end].live) connect(end, to);
      }
      return;
    }
    const int cycle = index_[from].cycle;
    if (cycle < 0 || cycle == index_[to].cycle) return;
    for (const int end : index_.CycleEnds(cycle)) {
      if (index_[end].live) connect(end, to);
    }
  };
  for (const int to : order) {
    if (!index_[to].live) continue;
    for (const TensorRef& input : index_[to].inputs) {
      if (fused_[to] != to || ClosesLoop(graph_.node(input.node).op())) continue;
      nodes[fused_[input.node]].data.push_back({all.edges++, to});
      ++nodes[to].waits_for;
      wait_for_loop(input.node, to);
    }
    for (const int from : index_[to].controls) {
      connect(from, to);
      wait_for_loop(from, to);
    }
    if (fused_[to] != to) nodes[fused_[to]].fused.push_back(to);
    // Kernels on other devices cost the executor's thread nothing but the launch.
    nodes[to].runs_inline = RunsInline(graph_.node(to).op()) || DeviceType(graph_.node(to).device()) != "CPU";
    const tensorflow::NodeDef& node = graph_.node(to);
    if (node.op() != kSwapOutOp && node.op() != kSwapInOp) continue;
    nodes[to].direction = node.op() == kSwapOutOp ? 0 : 1;
    const auto deadline = node.attr().find("deadline");
    if (deadline != node.attr().end()) nodes[to].deadline = deadline->second.i();
  }
  for (const int node : order) {
    if (!index_[node].live || fused_[node] != node) continue;
    if (nodes[node].waits_for == 0) all.roots.push_back({all.edges++, node});
    if (nodes[node].data.empty() && nodes[node].control.empty()) ++all.edges;  // to the sink
  }
  return all;
}

std::vector<int> ExecutorModel::Run(uint32_t seed) const {
  return Execution(numbered_[seed % numbered_.size()], std::mt19937(seed)).Run();
}

std::vector<ExecutorEvent> ExecutorModel::RunOnThreads(uint32_t seed, int threads,
                                                       const std::vector<double>& microseconds, bool one_lane) const {
  const ExecutorNodes& nodes = numbered_[seed % numbered_.size()];
  return TimedExecution(nodes, seed, std::max(1, threads), microseconds, one_lane).Run();
}

}  // namespace lms
