// One run of the executor's model (executor_model.h) on several threads and the link, on a clock of its own.
//
// One object per run. O(n (log n + threads)) for n nodes.

#ifndef LMS_CC_CORE_SIMULATE_TIMED_EXECUTION_H_
#define LMS_CC_CORE_SIMULATE_TIMED_EXECUTION_H_

#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "cc/core/simulate/edge_order.h"

namespace lms {

// A node as the executor sees it.
struct ExecutorNode {
  std::vector<ReaderEdge> data;     // to readers of its tensors, once per input
  std::vector<ReaderEdge> control;  // to nodes that only wait for it
  std::vector<int> fused;           // nodes that run as a part of it
  int waits_for = 0;                // edges that must have fired
  bool runs_inline = false;
  // Of what goes on elsewhere, once it has been handed over: a swap out or in, over the link, or kAmongDevices, what is
  // exchanged with other devices. -1 for other nodes.
  static constexpr int kAmongDevices = 2;
  int direction = -1;
  int64_t deadline = 0;  // of a swap
};

struct ExecutorEvent {
  int node;
  bool ends;
};

// All nodes, and the number of edges between them.
struct ExecutorNodes {
  std::vector<ExecutorNode> nodes;
  std::vector<ReaderEdge> roots;  // from the source to nodes that wait for nothing
  int edges = 0;
  EdgeDraws draws = EdgeDraws::kAny;
};

class TimedExecution {
 public:
  // `nodes` and `dead` outlive this. `draw`: of the order of edges (edge_order.h) and of how long kernels take. `dead`,
  // per node: is it in a branch that is not taken? Empty: none is. They pass at once, and who takes the result of one
  // branch or the other, as a Merge does, does not wait for theirs.
  TimedExecution(const ExecutorNodes& nodes, uint32_t draw, int threads, const std::vector<double>& microseconds,
                 bool one_lane, const std::vector<bool>& dead);

  // Once.
  std::vector<ExecutorEvent> Run();

 private:
  struct Worker {
    std::deque<int> queue;  // at hand
    std::deque<int> pool;   // newest first
    int node = -1;          // runs
    double ends = 0;
  };
  // Of the link, or to other devices.
  struct Lane {
    std::set<std::tuple<int64_t, int, int>> waiting;  // (deadline, number in the order of their begin, node)
    int node = -1;
    double ends = 0;
  };

  bool Dead(int node) const { return !dead_.empty() && dead_[node]; }
  bool RunsInline(int node) const { return nodes_[node].runs_inline || Dead(node); }
  double Duration(int node) const;
  size_t LaneOf(int direction) const;
  void Note(int node, bool ends);
  void Hand(int node);
  void Start(size_t w);
  void Finish(size_t w);
  void StartTransfer(Lane* lane);
  void FinishTransfer(Lane* lane);

  const std::vector<ExecutorNode>& nodes_;
  std::mt19937 random_;
  EdgeOrder edges_;
  std::vector<int> roots_;
  std::vector<double> microseconds_;
  const std::vector<bool>& dead_;
  std::vector<int> waiting_;
  std::vector<Worker> workers_;
  std::vector<Lane> lanes_;  // of the link one, or out and in; the last one to other devices
  int transfers_ = 0;        // begun
  double now_ = 0;
  std::vector<ExecutorEvent> events_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_TIMED_EXECUTION_H_
