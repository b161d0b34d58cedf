#include "cc/tf/stock/executor_model.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "cc/tf/graph/collectives.h"
#include "cc/tf/graph/handed_copies.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/stock/layout_fusions.h"

namespace lms {
namespace {

// What TensorFlow runs on a device is a graph of its own.
bool OneDevice(const tensorflow::GraphDef& graph) {
  const auto& nodes = graph.node();
  return std::all_of(nodes.begin(), nodes.end(),
                     [&nodes](const tensorflow::NodeDef& node) { return node.device() == nodes[0].device(); });
}

}  // namespace

// One run: the queue at hand, and the pool.
class ExecutorModel::Execution {
 public:
  Execution(const ExecutorNodes& nodes, uint32_t draw)
      : nodes_(nodes.nodes), edges_(nodes.edges, nodes.draws, draw), waiting_(nodes_.size()) {
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
    std::vector<int> ready;
    edges_.Visit(node.data, node.control, [&](int reader) {
      if (--waiting_[reader] == 0) ready.push_back(reader);
    });
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
  EdgeOrder edges_;
  std::vector<int> waiting_;
  std::deque<int> queue_;
  std::vector<int> pool_;
  std::deque<int> transfers_;  // that have begun
  std::vector<int> order_;
};

ExecutorModel::ExecutorModel(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn, EdgeDraws draws,
                             Iteration iteration, const std::vector<int>& arrivals)
    : graph_(graph),
      index_(index),
      draws_(OneDevice(graph) ? draws : EdgeDraws::kAny),
      iteration_(iteration),
      fused_(FusedInto(graph, index, onednn)),
      alone_(index.size()),
      numbers_(graph, index, fused_, onednn, draws_) {
  for (int i = 0; i < index.size(); ++i) {
    const tensorflow::NodeDef& node = graph.node(i);
    // Kernels on other devices cost the executor's thread nothing but the launch.
    alone_[i].runs_inline = RunsInline(node.op()) || DeviceType(node.device()) != "CPU";
    if (IsCollective(node.op())) alone_[i].direction = ExecutorNode::kAmongDevices;
    if (!IsSwap(node.op()) || IsHandedOver(graph, index, i)) continue;
    alone_[i].direction = node.op() == kSwapOutOp ? 0 : 1;
    const auto deadline = node.attr().find("deadline");
    if (deadline != node.attr().end()) alone_[i].deadline = deadline->second.i();
  }
  for (const int node : arrivals) alone_[node].direction = 1;
  if (numbers_.Fixed()) fixed_ = Connected(numbers_.Draw(0));
}

ExecutorNodes ExecutorModel::Connected(const std::vector<int>& order) const {
  ExecutorNodes all{alone_, {}, kSinkEdges, draws_};
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
    if (iteration_ == Iteration::kFirst || index_[to].frame <= 0 || !IsEnter(graph_.node(to))) continue;
    const int cond = index_.frame(index_[to].frame).loop_cond;
    if (cond >= 0 && index_[cond].live) connect(to, cond);
  }
  for (const int node : order) {
    if (!index_[node].live || fused_[node] != node) continue;
    if (nodes[node].waits_for == 0) all.roots.push_back({all.edges++, node});
    if (nodes[node].data.empty() && nodes[node].control.empty()) ++all.edges;  // to the sink
  }
  return all;
}

std::vector<int> ExecutorModel::Run(uint32_t draw) const {
  if (fixed_) return Execution(*fixed_, draw).Run();
  return Execution(Connected(numbers_.Draw(draw)), draw).Run();
}

std::vector<ExecutorEvent> ExecutorModel::RunOnThreads(uint32_t draw, int threads,
                                                       const std::vector<double>& microseconds, bool one_lane,
                                                       const std::vector<bool>& dead) const {
  const auto run = [&](const ExecutorNodes& nodes) {
    return TimedExecution(nodes, draw, std::max(1, threads), microseconds, one_lane, dead).Run();
  };
  return fixed_ ? run(*fixed_) : run(Connected(numbers_.Draw(draw)));
}

}  // namespace lms
