#include "cc/tf/executor_model.h"

#include <algorithm>
#include <deque>
#include <random>
#include <utility>

#include "cc/tf/layout_fusions.h"
#include "cc/tf/loops.h"
#include "cc/tf/node_numbers.h"
#include "cc/tf/node_types.h"
#include "cc/tf/op_traits.h"
#include "cc/tf/swap_ops.h"

namespace lms {
namespace {

// Ways to number the nodes that are drawn, where there are several: as many as predictions draw orders.
constexpr int kNumberings = 8;

}  // namespace

// One run: the queue at hand, and the pool.
class ExecutorModel::Execution {
 public:
  Execution(const ExecutorNodes& nodes, std::mt19937 random)
      : nodes_(nodes.nodes), edges_(nodes.Drawn(&random)), waiting_(nodes_.size()) {
    for (size_t i = 0; i < nodes_.size(); ++i) waiting_[i] = nodes_[i].waits_for;
    Schedule(nodes.Roots(edges_));
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
    : index_(index),
      fused_(FusedInto(graph, index, onednn)),
      devices_(DeviceNumbers(graph)),
      alone_(index.size()),
      closes_loop_(index.size()) {
  for (int i = 0; i < index.size(); ++i) {
    const tensorflow::NodeDef& node = graph.node(i);
    closes_loop_[i] = ClosesLoop(node.op());
    // Kernels on other devices cost the executor's thread nothing but the launch.
    alone_[i].runs_inline = RunsInline(node.op()) || DeviceType(node.device()) != "CPU";
    if (node.op() != kSwapOutOp && node.op() != kSwapInOp) continue;
    alone_[i].direction = node.op() == kSwapOutOp ? 0 : 1;
    const auto deadline = node.attr().find("deadline");
    if (deadline != node.attr().end()) alone_[i].deadline = deadline->second.i();
  }
  const NodeNumbers numbers(graph, index, fused_, onednn);
  std::mt19937 random(index.size());
  for (int i = 0; i < (numbers.Fixed() ? 1 : kNumberings); ++i) {
    numbered_.push_back(Connected(graph, numbers.Draw(&random)));
  }
}

ExecutorNodes ExecutorModel::Connected(const tensorflow::GraphDef& graph, const std::vector<int>& order) const {
  ExecutorNodes all{alone_, {}, 0};
  EdgeNumbers edges;
  std::vector<ExecutorNode>& nodes = all.nodes;
  const auto connect = [&](int from, int to) {
    nodes[fused_[from]].control.push_back({edges.Next(devices_[to]), fused_[to]});
    ++nodes[fused_[to]].waits_for;
  };
  // What leaves a loop runs when the loop has ended: after all that its iterations take in.
  const auto wait_for_loop = [&](int from, int to) {
    if (index_[to].frame > 0) {
      if (!IsExit(graph.node(to))) return;  // within the iteration
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
      if (fused_[to] != to || closes_loop_[input.node]) continue;
      nodes[fused_[input.node]].data.push_back({edges.Next(devices_[to]), to});
      ++nodes[to].waits_for;
      wait_for_loop(input.node, to);
    }
    for (const int from : index_[to].controls) {
      connect(from, to);
      wait_for_loop(from, to);
    }
    if (fused_[to] != to) nodes[fused_[to]].fused.push_back(to);
  }
  for (const int node : order) {
    if (!index_[node].live || fused_[node] != node) continue;
    const int device = devices_[node];
    if (device >= static_cast<int>(all.roots.size())) all.roots.resize(device + 1);
    if (nodes[node].waits_for == 0) all.roots[device].push_back({edges.Next(device), node});
    if (nodes[node].data.empty() && nodes[node].control.empty()) edges.Next(device);  // to the sink
  }
  all.edges = edges.most();
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
