#include "cc/core/base/max_flow.h"

#include <algorithm>

namespace lms {
namespace {

// Relative to the largest capacity: what is left below this is nothing.
constexpr double kNothing = 1e-12;

}  // namespace

int MaxFlow::AddEdge(int from, int to, double capacity) {
  const int arc = static_cast<int>(to_.size());
  to_.push_back(to);
  next_.push_back(first_[from]);
  first_[from] = arc;
  to_.push_back(from);
  next_.push_back(first_[to]);
  first_[to] = arc + 1;
  capacity_.push_back(capacity);
  return arc;
}

bool MaxFlow::FindLevels(int source, int sink) {
  level_.assign(first_.size(), -1);
  level_[source] = 0;
  std::vector<int> queue{source};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int arc = first_[queue[i]]; arc >= 0; arc = next_[arc]) {
      ++work_;
      if (left_[arc] <= 0 || level_[to_[arc]] >= 0) continue;
      level_[to_[arc]] = level_[queue[i]] + 1;
      queue.push_back(to_[arc]);
    }
  }
  return level_[sink] >= 0;
}

// One path of the level graph, with a stack of our own: paths can be as long as the graph.
double MaxFlow::Augment(int source, int sink) {
  std::vector<int> path;
  int node = source;
  while (node != sink) {
    int& arc = at_[node];
    ++work_;
    while (arc >= 0 && (left_[arc] <= 0 || level_[to_[arc]] != level_[node] + 1)) {
      arc = next_[arc];
      ++work_;
    }
    if (arc >= 0) {
      path.push_back(arc);
      node = to_[arc];
      continue;
    }
    if (path.empty()) return 0;
    level_[node] = -2;  // a dead end
    node = to_[path.back() ^ 1];
    path.pop_back();
  }
  double flow = kUnlimited;
  for (const int arc : path) flow = std::min(flow, left_[arc]);
  for (const int arc : path) {
    left_[arc] -= flow;
    if (left_[arc] < nothing_) left_[arc] = 0;
    left_[arc ^ 1] += flow;
  }
  return flow;
}

double MaxFlow::Run(int source, int sink) {
  double largest = 0;
  work_ = 0;
  for (const double c : capacity_) {
    if (c < kUnlimited) largest = std::max(largest, c);
  }
  nothing_ = kNothing * largest;
  left_.assign(to_.size(), 0);
  for (size_t e = 0; e < capacity_.size(); ++e) left_[2 * e] = capacity_[e] <= nothing_ ? 0 : capacity_[e];
  double total = 0;
  while (FindLevels(source, sink)) {
    at_ = first_;
    while (true) {
      if (work_ > most_work_) return total;
      const double flow = Augment(source, sink);
      if (flow <= 0) break;
      if (flow == kUnlimited) return kUnlimited;
      total += flow;
    }
  }
  return total;
}

}  // namespace lms
