#include "cc/tf/order_keeper.h"

#include <algorithm>
#include <utility>

#include "cc/core/liveness.h"

namespace lms {
namespace {

// A buffer of at least this share of the peak is large.
constexpr int64_t kLargeShare = 256;

}  // namespace

OrderKeeper::OrderKeeper(const MemGraph& graph, const Plan& plan) : graph_(graph), implied_in_(graph.ops.size(), 0) {
  const MemoryProfile profile = Simulate(graph, plan);
  large_bytes_ = std::max<int64_t>(1, (profile.peak_bytes - profile.resident_bytes) / kLargeShare);
  deps_.reserve(graph.ops.size());
  for (const MemOp& op : graph.ops) deps_.push_back(op.deps);
  FindReleases(plan);
}

bool OrderKeeper::Large(BufferId buffer) const {
  return !graph_.buffers[buffer].resident && graph_.buffers[buffer].bytes >= large_bytes_;
}

bool OrderKeeper::AllocatesLarge(OpId op) const {
  const MemOp& o = graph_.ops[op];
  return o.workspace_bytes >= large_bytes_ ||
         std::any_of(o.outputs.begin(), o.outputs.end(), [this](BufferId b) { return Large(b); });
}

void OrderKeeper::FindReleases(const Plan& plan) {
  releases_.resize(graph_.ops.size());
  sharers_.resize(graph_.ops.size());
  std::vector<bool> moved(graph_.ops.size(), false);
  for (const RecomputeStep& step : plan.steps) moved[step.op] = moved[step.op] || step.moves;
  // The ops that read the newest instance of each large buffer. Recomputations read too, but whoever needs their
  // results waits for them anyway.
  std::vector<std::vector<OpId>> readers(graph_.buffers.size());
  size_t next = 0;
  for (OpId i = 0; i < static_cast<OpId>(graph_.ops.size()); ++i) {
    for (; next < plan.steps.size() && plan.steps[next].before == i; ++next) {
      for (const BufferId b : plan.steps[next].provides) Release(b, &readers[b]);
    }
    if (moved[i]) continue;
    for (const BufferId b : graph_.ops[i].inputs) {
      if (Large(b)) readers[b].push_back(i);
    }
  }
  for (size_t b = 0; b < readers.size(); ++b) {
    if (!graph_.buffers[b].escapes) Release(static_cast<BufferId>(b), &readers[b]);
  }
}

void OrderKeeper::Release(BufferId buffer, std::vector<OpId>* readers) {
  if (readers->empty()) return;
  const OpId last = readers->back();
  releases_[last].insert(releases_[last].end(), readers->begin(), readers->end());
  const std::vector<BufferId>& forwardable = graph_.ops[last].forwardable;
  if (std::find(forwardable.begin(), forwardable.end(), buffer) != forwardable.end()) {
    sharers_[last].insert(sharers_[last].end(), readers->begin(), readers->end() - 1);
  }
  readers->clear();
}

std::vector<OpId> OrderKeeper::NotImplied(const std::vector<OpId>& known, const std::vector<OpId>& also) {
  std::vector<OpId> wanted = std::move(pending_);
  pending_.clear();
  for (const OpId op : also) {
    if (graph_.ops[op].anchor) wanted.push_back(op);
  }
  if (wanted.empty()) return {};
  std::sort(wanted.begin(), wanted.end());
  const OpId earliest = wanted.front();
  ++search_;
  std::vector<OpId> queue;
  const auto visit = [&](OpId op) {
    if (op < earliest || implied_in_[op] == search_) return;
    implied_in_[op] = search_;
    queue.push_back(op);
  };
  size_t next = 0;
  const auto follow = [&] {
    for (; next < queue.size(); ++next) {
      for (const OpId dep : deps_[queue[next]]) visit(dep);
    }
  };
  for (const OpId op : known) visit(op);
  follow();
  // Later ops imply earlier ones: take them first, so that what one of them implies is not named again.
  std::vector<OpId> waits;
  for (auto op = wanted.rbegin(); op != wanted.rend(); ++op) {
    if (implied_in_[*op] == search_) continue;
    waits.push_back(*op);
    visit(*op);
    follow();
  }
  std::reverse(waits.begin(), waits.end());
  return waits;
}

void OrderKeeper::AddDeps(OpId op, const std::vector<OpId>& waits) {
  deps_[op].insert(deps_[op].end(), waits.begin(), waits.end());
}

void OrderKeeper::Passed(OpId op) {
  for (const OpId reader : releases_[op]) {
    if (graph_.ops[reader].anchor) pending_.push_back(reader);
  }
}

}  // namespace lms
