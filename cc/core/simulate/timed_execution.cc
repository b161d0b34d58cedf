#include "cc/core/simulate/timed_execution.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace lms {
namespace {

// Microseconds that the executor itself takes for a node, and at least for one that is not cheap.
constexpr double kCheapUs = 0.3;
constexpr double kLeastUs = 3;
// Kernels side by side take longer than alone, some a lot: by up to this factor, drawn for each.
constexpr double kSpread = 3;

}  // namespace

TimedExecution::TimedExecution(const ExecutorNodes& nodes, uint32_t draw, int threads,
                               const std::vector<double>& microseconds, bool one_lane, const std::vector<bool>& dead)
    : nodes_(nodes.nodes),
      random_(draw),
      edges_(nodes.edges, nodes.draws, draw),
      roots_(edges_.SortRoots(nodes.roots)),
      microseconds_(microseconds),
      dead_(dead),
      waiting_(nodes_.size()),
      workers_(threads),
      lanes_(one_lane ? 2 : 3) {
  for (size_t i = 0; i < nodes_.size(); ++i) waiting_[i] += nodes_[i].waits_for;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!Dead(static_cast<int>(i))) continue;
    for (const ReaderEdge& edge : nodes_[i].data) waiting_[edge.reader] -= !Dead(edge.reader);
  }
  if (workers_.size() == 1) return;
  for (double& duration : microseconds_) duration *= std::pow(kSpread, (random_() % 2001) / 1000.0 - 1);
}

std::vector<ExecutorEvent> TimedExecution::Run() {
  // Cheap ones run at once; the others are handed out as they come.
  for (const int node : roots_) {
    if (RunsInline(node)) {
      workers_[0].queue.push_back(node);
    } else {
      Hand(node);
    }
  }
  while (true) {
    for (size_t w = 0; w < workers_.size(); ++w) Start(w);
    for (Lane& lane : lanes_) StartTransfer(&lane);
    size_t next = workers_.size();
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (workers_[w].node >= 0 && (next == workers_.size() || workers_[w].ends < workers_[next].ends)) next = w;
    }
    Lane* transfer = nullptr;
    for (Lane& lane : lanes_) {
      if (lane.node >= 0 && (transfer == nullptr || lane.ends < transfer->ends)) transfer = &lane;
    }
    if (next == workers_.size() && transfer == nullptr) return std::move(events_);
    if (transfer != nullptr && (next == workers_.size() || transfer->ends < workers_[next].ends)) {
      FinishTransfer(transfer);
    } else {
      Finish(next);
    }
  }
}

// To some worker's pool, from outside.
void TimedExecution::Hand(int node) { workers_[random_() % workers_.size()].pool.push_back(node); }

void TimedExecution::Start(size_t w) {
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

double TimedExecution::Duration(int node) const {
  return RunsInline(node) || nodes_[node].direction >= 0 ? kCheapUs : std::max(microseconds_[node], kLeastUs);
}

void TimedExecution::Note(int node, bool ends) {
  events_.push_back({node, ends});
  for (const int fused : nodes_[node].fused) events_.push_back({fused, ends});
}

void TimedExecution::Finish(size_t w) {
  Worker& worker = workers_[w];
  const int node = worker.node;
  worker.node = -1;
  now_ = worker.ends;
  if (nodes_[node].direction >= 0 && !Dead(node)) {  // it has been handed over
    Lane& lane = lanes_[LaneOf(nodes_[node].direction)];
    lane.waiting.insert({nodes_[node].deadline, transfers_++, node});
    return;
  }
  Note(node, true);
  std::vector<ReaderEdge> dead_data;
  if (Dead(node)) {
    const std::vector<ReaderEdge>& all = nodes_[node].data;
    std::copy_if(all.begin(), all.end(), std::back_inserter(dead_data), [&](auto edge) { return Dead(edge.reader); });
  }
  int last = -1;  // of those that are ready, not cheap and not in the pool
  edges_.Visit(Dead(node) ? dead_data : nodes_[node].data, nodes_[node].control, [&](int next) {
    if (--waiting_[next] != 0) return;
    if (RunsInline(next)) {
      worker.queue.push_back(next);
      return;
    }
    if (last >= 0) worker.pool.push_front(last);
    last = next;
  });
  if (last < 0) return;
  if (worker.queue.empty()) {
    worker.queue.push_back(last);
  } else {
    worker.pool.push_front(last);
  }
}

size_t TimedExecution::LaneOf(int direction) const {
  if (direction == ExecutorNode::kAmongDevices) return lanes_.size() - 1;
  return lanes_.size() == 2 ? 0 : direction;
}

void TimedExecution::StartTransfer(Lane* lane) {
  if (lane->node >= 0 || lane->waiting.empty()) return;
  lane->node = std::get<2>(*lane->waiting.begin());
  lane->waiting.erase(lane->waiting.begin());
  lane->ends = now_ + std::max(microseconds_[lane->node], kLeastUs);
}

void TimedExecution::FinishTransfer(Lane* lane) {
  const int node = lane->node;
  lane->node = -1;
  now_ = lane->ends;
  Note(node, true);
  edges_.Visit(nodes_[node].data, nodes_[node].control, [this](int reader) {
    if (--waiting_[reader] == 0) Hand(reader);
  });
}

}  // namespace lms
