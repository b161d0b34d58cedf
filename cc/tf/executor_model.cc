#include "cc/tf/executor_model.h"

#include <deque>
#include <random>
#include <string>
#include <utility>

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

// Nodes in the order of Grappler's topological sort, which numbers them for the executor: first come, first served.
std::vector<int> Numbered(const tensorflow::GraphDef& graph, const GraphIndex& index) {
  std::vector<int> waiting(index.size(), 0);
  std::vector<int> order;
  for (int i = 0; i < index.size(); ++i) {
    for (const TensorRef& input : index[i].inputs) waiting[i] += ClosesLoop(graph.node(input.node).op()) ? 0 : 1;
    waiting[i] += static_cast<int>(index[i].controls.size());
    if (waiting[i] == 0) order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    if (ClosesLoop(graph.node(order[next]).op())) continue;  // its readers did not wait for it
    for (const int reader : index[order[next]].readers) {
      if (--waiting[reader] == 0) order.push_back(reader);
    }
  }
  return order;
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

ExecutorModel::ExecutorModel(const tensorflow::GraphDef& graph, const GraphIndex& index) : nodes_(index.size()) {
  Connect(graph, index);
}

void ExecutorModel::Connect(const tensorflow::GraphDef& graph, const GraphIndex& index) {
  const auto connect = [this](int from, int to) {
    nodes_[from].control.push_back(to);
    ++nodes_[to].waits_for;
  };
  // What leaves a loop runs when the loop has ended: after all that its iterations take in.
  const auto wait_for_loop = [&](int from, int to) {
    const int cycle = index[from].cycle;
    if (cycle < 0 || cycle == index[to].cycle) return;
    for (const int end : index.CycleEnds(cycle)) {
      if (index[end].live) connect(end, to);
    }
  };
  for (const int to : Numbered(graph, index)) {
    if (!index[to].live) continue;
    for (const TensorRef& input : index[to].inputs) {
      if (ClosesLoop(graph.node(input.node).op())) continue;
      nodes_[input.node].data.push_back(to);
      ++nodes_[to].waits_for;
      wait_for_loop(input.node, to);
    }
    for (const int from : index[to].controls) {
      connect(from, to);
      wait_for_loop(from, to);
    }
    nodes_[to].runs_inline = RunsInline(graph.node(to).op()) || !OnCpu(graph.node(to).device());
    if (nodes_[to].waits_for == 0) roots_.push_back(to);
  }
}

std::vector<int> ExecutorModel::Run(uint32_t seed) const { return Execution(nodes_, seed).Run(roots_); }

}  // namespace lms
