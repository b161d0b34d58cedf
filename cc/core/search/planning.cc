#include "cc/core/search/planning.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "cc/core/search/hinted_plan.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/transfers.h"

namespace lms {
namespace {

constexpr size_t kKept = 3;  // that local search starts from
// Of a microsecond of the link, in microseconds of computing, one start after the other.
constexpr double kLinkPrices[] = {0.1, 0, 0.5};
constexpr int kFewStages = 8;
constexpr int kMostStages = 128;
constexpr int kFewUnits = 256;
constexpr int kMostUnits = 1024;
constexpr double kChainShare = 0.2;  // of the work, for each solution of the chain
// Of the limit: what the chain is solved for. There are starts for two and a half times the limit (plan_starts).
constexpr double kChainRange = 2.6;
constexpr double kCoarse = 1.5;  // a chain that is solved for so many times as much is solved anew
// Steps of work, for each op and buffer.
constexpr int64_t kSimulationWork = 4;
constexpr int64_t kFirstStartWork = 200;
// Of all work: a first start that has not met the limit by then hardly ever will, and others may.
constexpr double kFirstShare = 0.25;

// As many stages as can be solved for a part of the work, and then as many amounts of memory.
struct ChainSize {
  int stages = kMostStages;
  int units = kFewUnits;
};

ChainSize ChainSizeFor(int64_t work) {
  const auto most = static_cast<int64_t>(kChainShare * static_cast<double>(work));
  ChainSize size;
  while (size.stages > kFewStages && CheckpointChain::MostWork(size.stages, size.units) > most) --size.stages;
  while (size.units < kMostUnits && CheckpointChain::MostWork(size.stages, 2 * size.units) <= most) size.units *= 2;
  return size;
}

}  // namespace

PlannerResult Evaluate(const MemGraph& graph, Plan plan, int64_t limit_bytes, const SwapLink& link) {
  PlannerResult result;
  result.peak_bytes = Simulate(graph, plan).peak_bytes;
  result.feasible = result.peak_bytes <= limit_bytes;
  result.cost_us = plan.CostUs(graph);
  if (!plan.swap_outs.empty()) {
    const Transfers transfers = SimulateTransfers(graph, plan, link);
    result.stall_us = transfers.stall_us;
    result.transfer_us = transfers.transfer_us;
    result.cost_us += transfers.stall_us + transfers.compute_us;
  }
  result.plan = std::move(plan);
  return result;
}

bool BetterPlan(const PlannerResult& a, const PlannerResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  if (!a.feasible) return a.peak_bytes < b.peak_bytes;
  const auto size = [](const Plan& plan) { return plan.steps.size() + plan.swap_outs.size() + plan.swap_ins.size(); };
  return std::make_tuple(a.cost_us, size(a.plan)) < std::make_tuple(b.cost_us, size(b.plan));
}

void KeepBest(PlannerResult result, std::vector<PlannerResult>* best) {
  for (const PlannerResult& other : *best) {
    if (other.cost_us == result.cost_us && other.peak_bytes == result.peak_bytes) return;
  }
  const auto at = std::find_if(best->begin(), best->end(),
                               [&result](const PlannerResult& other) { return BetterPlan(result, other); });
  best->insert(at, std::move(result));
  if (best->size() > kKept) best->pop_back();
}

Planning::Planning(const MemGraph& graph, const PlannerOptions& options)
    : graph_(graph),
      options_(options),
      resident_(graph.ResidentBytes()),
      sweep_(static_cast<int64_t>(graph.ops.size() + graph.buffers.size())),
      until_(options.work) {
  if (!HasEvictionHints(graph)) return;
  hinted_ = Fresh().ToPlan();
  hinted_us_ = Evaluate(hinted_, std::numeric_limits<int64_t>::max()).cost_us;
}

bool Planning::LateForFirst(int64_t more) const {
  const auto share = static_cast<int64_t>(kFirstShare * static_cast<double>(options_.work));
  return work_ + more >= std::max(std::min(until_, share), work_ + kFirstStartWork * sweep_);
}

PlanState Planning::Fresh() const {
  PlanState state(graph_, options_.move, options_.link);
  ApplyHints(&state);
  return state;
}

PlannerResult Planning::Evaluate(Plan plan, int64_t limit_bytes) {
  CountSweep(kSimulationWork);
  return lms::Evaluate(graph_, std::move(plan), limit_bytes, options_.link);
}

EvictionRule Planning::Allowed(EvictionRule rule, int start) const {
  rule.recompute = options_.recompute;
  if (options_.link.usable()) rule.link_price = kLinkPrices[start % std::size(kLinkPrices)];
  return rule;
}

CheckpointChain* Planning::Chain(int64_t limit_bytes) {
  // The chain decides for itself what is saved, hints or no hints.
  if (!options_.recompute || !hinted_.empty()) return nullptr;
  if (chain_ == nullptr) {
    chain_ = std::make_unique<CheckpointChain>(graph_, ChainSizeFor(options_.work).stages);
    unplanned_peak_ = Simulate(graph_, Plan()).peak_bytes - resident_;
    CountSweep(kSimulationWork);
    Count(chain_->work());
  }
  if (!chain_->usable()) return nullptr;
  const int64_t limit = std::max(limit_bytes - resident_, chain_->LeastBytes());
  const int64_t most = std::min(unplanned_peak_, static_cast<int64_t>(kChainRange * static_cast<double>(limit)));
  if (chain_->most_bytes() < most || static_cast<double>(chain_->most_bytes()) > kCoarse * static_cast<double>(most)) {
    const int64_t before = chain_->work();
    chain_->Solve(most, ChainSizeFor(options_.work).units);
    Count(chain_->work() - before);
  }
  return chain_->LeastLevel() < chain_->levels() ? chain_.get() : nullptr;
}

}  // namespace lms
