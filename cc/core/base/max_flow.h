// Maximum flow, and the minimum cut that it proves, on a directed graph with real capacities.
//
// Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970. O(V^2 E) at
// worst, near linear on the shallow graphs that it is used for here.

#ifndef LMS_CC_CORE_BASE_MAX_FLOW_H_
#define LMS_CC_CORE_BASE_MAX_FLOW_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace lms {

class MaxFlow {
 public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  // `most_work`: arcs that a run may look at.
  explicit MaxFlow(int nodes, int64_t most_work = std::numeric_limits<int64_t>::max())
      : first_(nodes, -1), most_work_(most_work) {}

  // Returns the edge's id.
  int AddEdge(int from, int to, double capacity);
  // Only between two runs; takes all flow back.
  void SetCapacity(int edge, double capacity) { capacity_[edge / 2] = capacity; }

  // The value of a maximum flow; infinite if no cut is finite. Where the run has been cut short it is that of the flow
  // so far: no more than the maximum.
  double Run(int source, int sink);
  // After Run(): is the node on the source's side of the minimum cut?
  bool OnSourceSide(int node) const { return level_[node] >= 0; }
  // Has the last run come to its end? Otherwise there is no minimum cut.
  bool complete() const { return work_ <= most_work_; }
  // Arcs looked at by the last Run(): what it took, on any machine.
  int64_t work() const { return work_; }

 private:
  bool FindLevels(int source, int sink);
  double Augment(int source, int sink);

  std::vector<int> first_;        // per node: its first arc
  std::vector<int> next_;         // per arc: the node's next arc
  std::vector<int> to_;           // per arc; arc ^ 1 is its reverse
  std::vector<double> left_;      // per arc: residual capacity
  std::vector<double> capacity_;  // per edge
  double nothing_ = 0;            // what is left below this is rounding
  int64_t work_ = 0;
  int64_t most_work_;
  std::vector<int> level_;
  std::vector<int> at_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_MAX_FLOW_H_
