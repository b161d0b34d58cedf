#include "cc/tf/stock/executor_model.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <queue>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>

#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/stock/layout_fusions.h"

namespace lms {
namespace {

bool ClosesLoop(const std::string& op_type) { return op_type == "NextIteration" || op_type == "RefNextIteration"; }

// Ops that oneDNN's layout pass replaces by nodes of its own, which are of the CPU.
bool Replaced(const tensorflow::NodeDef& node) {
  static const auto* const names = new std::unordered_set<std::string>{
      // from the program
      "AvgPool", "AvgPoolGrad", "BatchMatMul", "BatchMatMulV2", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput",
      "Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2", "DepthwiseConv2dNative",
      "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput", "Einsum", "FusedBatchNormGradV3",
      "FusedBatchNormV3", "MatMul", "MaxPool", "MaxPoolGrad", "Softmax",
      // fused before
      "_FusedBatchNormEx", "_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedMatMul", "_MklSwish"};
  return names->count(node.op()) != 0 && DeviceType(node.device()) == "CPU";
}

// Nodes as the executor numbers them. Grappler's topological sort takes them first come, first served. Where the layout
// pass has put nodes of its own at the end, they are then sorted again: of those that are ready, the first.
std::vector<int> Numbered(const tensorflow::GraphDef& graph, const GraphIndex& index, const std::vector<int>& fused,
                          bool onednn) {
  std::vector<int> waiting(index.size(), 0);
  std::vector<int> order;
  for (int i = 0; i < index.size(); ++i) {
    for (const TensorRef& input : index[i].inputs) waiting[i] += ClosesLoop(graph.node(input.node).op()) ? 0 : 1;
    waiting[i] += static_cast<int>(index[i].controls.size());
  }
  std::vector<int> inputs = waiting;
  for (int i = 0; i < index.size(); ++i) {
    if (waiting[i] == 0) order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    if (ClosesLoop(graph.node(order[next]).op())) continue;  // its readers did not wait for it
    for (const int reader : index[order[next]].readers) {
      if (--waiting[reader] == 0) order.push_back(reader);
    }
  }
  if (!onednn) return order;
  std::stable_partition(order.begin(), order.end(), [&graph](int node) { return !Replaced(graph.node(node)); });
  std::vector<int> place(index.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  std::vector<std::vector<int>> fused_here(index.size());
  for (int i = 0; i < index.size(); ++i) {
    if (fused[i] != i) fused_here[fused[i]].push_back(i);
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (const int node : order) {
    if (inputs[node] == 0) ready.push(place[node]);
  }
  const auto pass = [&](int node) {
    for (const int reader : index[node].readers) {
      if (--inputs[reader] == 0 && fused[reader] == reader) ready.push(place[reader]);
    }
  };
  std::vector<int> sorted;
  while (!ready.empty()) {
    const int node = order[ready.top()];
    ready.pop();
    sorted.push_back(node);
    sorted.insert(sorted.end(), fused_here[node].begin(), fused_here[node].end());
    if (ClosesLoop(graph.node(node).op())) continue;
    pass(node);
    for (const int other : fused_here[node]) pass(other);
  }
  return sorted;
}

}  // namespace

// One run: the queue at hand, and the pool.
class ExecutorModel::Execution {
 public:
  Execution(const std::vector<ExecutorNode>& nodes, uint32_t seed)
      : nodes_(nodes), random_(seed), waiting_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); ++i) waiting_[i] = nodes[i].waits_for;
  }

  std::vector<int> Run(std::vector<int> roots) {
    if (roots.size() > kOrderedEdges) Shuffle(&random_, &roots);
    Schedule(roots);
    DrainQueue();
    while (!pool_.empty() || !transfers_.empty()) {
      if (!transfers_.empty()) {
        // How long it takes is not known here: it has ended by the time that nothing is at hand.
        std::vector<int> ready;
        Fire(nodes_[transfers_.front()].data, &ready);
        Fire(nodes_[transfers_.front()].control, &ready);
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
      std::vector<int> ready;
      if (node.data.size() + node.control.size() <= kOrderedEdges) {
        Fire(node.data, &ready);
        Fire(node.control, &ready);
      } else {
        std::vector<int> data = node.data;
        std::vector<int> control = node.control;
        Shuffle(&random_, &data);
        Shuffle(&random_, &control);
        Fire(data, &ready);
        Fire(control, &ready);
      }
      Schedule(ready);
    }
  }

  void Fire(const std::vector<int>& readers, std::vector<int>* ready) {
    for (const int reader : readers) {
      if (--waiting_[reader] == 0) ready->push_back(reader);
    }
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
  std::mt19937 random_;
  std::vector<int> waiting_;
  std::deque<int> queue_;
  std::vector<int> pool_;
  std::deque<int> transfers_;  // that have begun
  std::vector<int> order_;
};

ExecutorModel::ExecutorModel(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn)
    : nodes_(index.size()) {
  const std::vector<int> fused = FusedInto(graph, index, onednn);
  const auto connect = [&](int from, int to) {
    nodes_[fused[from]].control.push_back(fused[to]);
    ++nodes_[fused[to]].waits_for;
  };
  // What leaves a loop runs when the loop has ended: after all that its iterations take in.
  const auto wait_for_loop = [&](int from, int to) {
    if (index[to].frame > 0) {
      if (!IsExit(graph.node(to))) return;  // within the iteration
      for (const int end : index.frame(index[to].frame).ends) {
        if (index[end].live) connect(end, to);
      }
      return;
    }
    const int cycle = index[from].cycle;
    if (cycle < 0 || cycle == index[to].cycle) return;
    for (const int end : index.CycleEnds(cycle)) {
      if (index[end].live) connect(end, to);
    }
  };
  const std::vector<int> order = Numbered(graph, index, fused, onednn);
  for (const int to : order) {
    if (!index[to].live) continue;
    for (const TensorRef& input : index[to].inputs) {
      if (fused[to] != to || ClosesLoop(graph.node(input.node).op())) continue;
      nodes_[fused[input.node]].data.push_back(to);
      ++nodes_[to].waits_for;
      wait_for_loop(input.node, to);
    }
    for (const int from : index[to].controls) {
      connect(from, to);
      wait_for_loop(from, to);
    }
    if (fused[to] != to) nodes_[fused[to]].fused.push_back(to);
    // Kernels on other devices cost the executor's thread nothing but the launch.
    nodes_[to].runs_inline = RunsInline(graph.node(to).op()) || DeviceType(graph.node(to).device()) != "CPU";
    const tensorflow::NodeDef& node = graph.node(to);
    if (node.op() != kSwapOutOp && node.op() != kSwapInOp) continue;
    nodes_[to].direction = node.op() == kSwapOutOp ? 0 : 1;
    const auto deadline = node.attr().find("deadline");
    if (deadline != node.attr().end()) nodes_[to].deadline = deadline->second.i();
  }
  for (const int node : order) {
    if (index[node].live && fused[node] == node && nodes_[node].waits_for == 0) roots_.push_back(node);
  }
}

std::vector<int> ExecutorModel::Run(uint32_t seed) const { return Execution(nodes_, seed).Run(roots_); }

std::vector<ExecutorEvent> ExecutorModel::RunOnThreads(uint32_t seed, int threads,
                                                       const std::vector<double>& microseconds, bool one_lane) const {
  return TimedExecution(nodes_, seed, std::max(1, threads), microseconds, one_lane).Run(roots_);
}

}  // namespace lms
