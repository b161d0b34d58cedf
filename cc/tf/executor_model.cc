#include "cc/tf/executor_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <queue>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>

#include "cc/tf/loops.h"
#include "cc/tf/op_traits.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace lms {
namespace {

// Outgoing edges that tensorflow::EdgeSet keeps in the order in which they were added.
constexpr size_t kOrderedEdges = 8;

bool ClosesLoop(const std::string& op_type) { return op_type == "NextIteration" || op_type == "RefNextIteration"; }

// Kernels on other devices cost the executor's thread nothing but the launch, and run inline.
bool OnCpu(const std::string& device) {
  tensorflow::DeviceNameUtils::ParsedName parsed;
  return !tensorflow::DeviceNameUtils::ParseFullName(device, &parsed) || !parsed.has_type || parsed.type == "CPU";
}

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

// Per node: the one that it is fused into, or itself. The layout pass fuses the gradient of a bias into the gradient of
// the filter that reads the same tensor.
std::vector<int> Fused(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn) {
  std::vector<int> into(index.size());
  std::iota(into.begin(), into.end(), 0);
  for (int i = 0; onednn && i < index.size(); ++i) {
    if (graph.node(i).op() != "BiasAddGrad" || index[i].inputs.size() != 1 || !index[i].live) continue;
    const TensorRef gradient = index[i].inputs[0];
    for (const int reader : index[gradient.node].readers) {
      const NodeIndex& filter = index[reader];
      if (graph.node(reader).op() != "Conv2DBackpropFilter" || !filter.live || filter.inputs.size() != 3) continue;
      if (filter.inputs[2] == gradient) into[i] = reader;
    }
  }
  return into;
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
  std::stable_partition(order.begin(), order.end(), [&graph](int node) { return !Replaced(graph.node(node).op()); });
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

void Shuffle(std::mt19937* random, std::vector<int>* list) {
  // Not std::shuffle, whose result differs between standard libraries.
  for (size_t i = list->size(); i > 1; --i) std::swap((*list)[i - 1], (*list)[(*random)() % i]);
}

}  // namespace

// One run: the queue at hand, and the pool.
class ExecutorModel::Execution {
 public:
  Execution(const std::vector<Node>& nodes, uint32_t seed) : nodes_(nodes), random_(seed), waiting_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); ++i) waiting_[i] = nodes[i].waits_for;
  }

  std::vector<int> Run(std::vector<int> roots) {
    if (roots.size() > kOrderedEdges) Shuffle(&random_, &roots);
    Schedule(roots);
    DrainQueue();
    while (!pool_.empty()) {
      queue_.push_back(pool_.back());
      pool_.pop_back();
      DrainQueue();
    }
    return std::move(order_);
  }

 private:
  void DrainQueue() {
    while (!queue_.empty()) {
      const Node& node = nodes_[queue_.front()];
      order_.push_back(queue_.front());
      order_.insert(order_.end(), node.fused.begin(), node.fused.end());
      queue_.pop_front();
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

  const std::vector<Node>& nodes_;
  std::mt19937 random_;
  std::vector<int> waiting_;
  std::deque<int> queue_;
  std::vector<int> pool_;
  std::vector<int> order_;
};

// A run on several threads, on a clock of its own.
class ExecutorModel::TimedExecution {
 public:
  TimedExecution(const std::vector<Node>& nodes, uint32_t seed, int threads, const std::vector<double>& microseconds)
      : nodes_(nodes), random_(seed), microseconds_(microseconds), waiting_(nodes.size()), workers_(threads) {
    for (size_t i = 0; i < nodes.size(); ++i) waiting_[i] = nodes[i].waits_for;
    if (workers_.size() == 1) return;
    for (double& duration : microseconds_) duration *= std::pow(kSpread, (random_() % 2001) / 1000.0 - 1);
  }

  std::vector<Event> Run(std::vector<int> roots) {
    if (roots.size() > kOrderedEdges) Shuffle(&random_, &roots);
    // Cheap ones run at once; the others are handed out as they come.
    for (const int node : roots) {
      if (nodes_[node].runs_inline) {
        workers_[0].queue.push_back(node);
      } else {
        workers_[random_() % workers_.size()].pool.push_back(node);
      }
    }
    while (true) {
      for (size_t w = 0; w < workers_.size(); ++w) Start(w);
      size_t next = workers_.size();
      for (size_t w = 0; w < workers_.size(); ++w) {
        if (workers_[w].node >= 0 && (next == workers_.size() || workers_[w].ends < workers_[next].ends)) next = w;
      }
      if (next == workers_.size()) return std::move(events_);
      Finish(next);
    }
  }

 private:
  struct Worker {
    std::deque<int> queue;  // at hand
    std::deque<int> pool;   // newest first
    int node = -1;          // runs
    double ends = 0;
  };

  void Start(size_t w) {
    Worker& worker = workers_[w];
    if (worker.node >= 0) return;
    if (!worker.queue.empty()) {
      worker.node = worker.queue.front();
      worker.queue.pop_front();
    } else if (!worker.pool.empty()) {
      worker.node = worker.pool.front();
      worker.pool.pop_front();
    } else {
      for (size_t other = 1; other < workers_.size() && worker.node < 0; ++other) {
        std::deque<int>& pool = workers_[(w + other) % workers_.size()].pool;
        if (pool.empty()) continue;
        worker.node = pool.back();
        pool.pop_back();
      }
    }
    if (worker.node < 0) return;
    worker.ends = now_ + Duration(worker.node);
    for (const int fused : nodes_[worker.node].fused) worker.ends += Duration(fused);
    Note(worker.node, false);
  }

  double Duration(int node) const {
    return nodes_[node].runs_inline ? kCheapUs : std::max(microseconds_[node], kLeastUs);
  }

  void Note(int node, bool ends) {
    events_.push_back({node, ends});
    for (const int fused : nodes_[node].fused) events_.push_back({fused, ends});
  }

  void Finish(size_t w) {
    Worker& worker = workers_[w];
    const int node = worker.node;
    worker.node = -1;
    now_ = worker.ends;
    Note(node, true);
    std::vector<int> ready;
    std::vector<int> data = nodes_[node].data;
    std::vector<int> control = nodes_[node].control;
    if (data.size() + control.size() > kOrderedEdges) {
      Shuffle(&random_, &data);
      Shuffle(&random_, &control);
    }
    for (const std::vector<int>* readers : {&data, &control}) {
      for (const int reader : *readers) {
        if (--waiting_[reader] == 0) ready.push_back(reader);
      }
    }
    int last = -1;  // of those that are not cheap
    for (const int next : ready) {
      if (nodes_[next].runs_inline) {
        worker.queue.push_back(next);
        continue;
      }
      if (last >= 0) worker.pool.push_front(last);
      last = next;
    }
    if (last < 0) return;
    if (worker.queue.empty()) {
      worker.queue.push_back(last);
    } else {
      worker.pool.push_front(last);
    }
  }

  // Microseconds that the executor itself takes for a node, and at least for one that is not cheap.
  static constexpr double kCheapUs = 0.3;
  static constexpr double kLeastUs = 3;
  // Kernels side by side take longer than alone, some a lot: by up to this factor, drawn for each.
  static constexpr double kSpread = 3;

  const std::vector<Node>& nodes_;
  std::mt19937 random_;
  std::vector<double> microseconds_;
  std::vector<int> waiting_;
  std::vector<Worker> workers_;
  double now_ = 0;
  std::vector<Event> events_;
};

ExecutorModel::ExecutorModel(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn)
    : nodes_(index.size()) {
  const std::vector<int> fused = Fused(graph, index, onednn);
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
    nodes_[to].runs_inline = RunsInline(graph.node(to).op()) || !OnCpu(graph.node(to).device());
  }
  for (const int node : order) {
    if (index[node].live && fused[node] == node && nodes_[node].waits_for == 0) roots_.push_back(node);
  }
}

std::vector<int> ExecutorModel::Run(uint32_t seed) const { return Execution(nodes_, seed).Run(roots_); }

std::vector<ExecutorModel::Event> ExecutorModel::RunOnThreads(uint32_t seed, int threads,
                                                              const std::vector<double>& microseconds) const {
  return TimedExecution(nodes_, seed, std::max(1, threads), microseconds).Run(roots_);
}

}  // namespace lms
