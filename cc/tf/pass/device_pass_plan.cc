#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/graph/twins.h"
#include "cc/core/options/swap_filters.h"
#include "cc/core/simulate/lower_bound.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/pass/device_pass.h"
#include "cc/tf/report/step_report.h"
#include "cc/tf/verify/verify.h"

namespace lms {
namespace {

// Plans are made again, for a lower limit, when the verifier finds the new graph above the budget.
constexpr int kMostAttempts = 5;
// Of the work that is left: for a plan under a limit, and for one with the least peak.
constexpr double kShareOfPlan = 0.4;
constexpr double kShareOfLeast = 0.75;
constexpr int64_t kLeastShare = 40;  // of the work for a step, that is there for any plan: one of so many parts

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

bool DevicePass::PlanAndRewrite(tensorflow::GraphDef* output) {
  const std::string too_large = WhyTooLarge(item_, GraphWork::kPlan, bounds_);
  if (!too_large.empty()) throw TooMuch(too_large);
  const std::string waits = UnknownWait(item_, index_);
  if (!waits.empty())
    return Skip(waits + " may wait for another op of the step: lms changes no order around it" + hidden_);
  Enter("import");
  const absl::Status held = ImportAgain();
  if (!held.ok()) return Fail(held);
  report_.step_time_us = imported_.graph.TotalCostUs();
  ChooseWhereToSwap();
  GiveHints();
  if (!OverBudget() && !Hinted()) return Fits();
  report_.kept = SummariseKept(imported_.graph, swap_.link.usable());
  if (FollowModel(output)) return true;
  const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
  int64_t limit = OverBudget() ? Limit() : std::max(Limit(), Allowed());
  // A single op needs more: there is nothing to look for.
  if (!least && limit < LowerBoundBytes(imported_.graph)) return Infeasible(PlannerResult(), output);
  std::optional<Strategy> chosen;  // for the limit at hand
  const int most_attempts = MostRewrites(item_, options_.planner_seconds, kMostAttempts);
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    Enter("plan");
    if (!chosen) {
      const double start = Now();
      chosen = least ? ChooseForLeastPeak(imported_.graph, Ways(attempt))
                     : ChooseForLimit(imported_.graph, limit, Ways(attempt));
      report_.planner_seconds += Now() - start;
      Count(chosen->planned.work);
    }
    const Strategy strategy = *std::exchange(chosen, std::nullopt);
    const PlannerResult& planned = strategy.planned;
    if (!planned.feasible) return Infeasible(planned, output);
    // Where no hint can be carried out, all is as without any. (A move, too, may carry one out.)
    const bool hinted = Hinted() && !planned.plan.empty();
    if (!OverBudget() && !hinted) return Fits();
    // Ops side by side may take more than one after the other: then the order at hand is what is enforced.
    const bool as_it_is = planned.plan.empty() && strategy.order.empty();
    if (as_it_is && !options_.schedule && !least) {
      limit = planned.peak_bytes - std::max<int64_t>(report_.peak_before_bytes - planned.peak_bytes, limit / 200);
      continue;
    }
    if (as_it_is && imported_.holds.empty() && planned.peak_bytes >= report_.peak_before_bytes) {
      return NothingToGain();
    }
    const bool ordered = as_it_is || !strategy.order.empty();
    // Where edges for the limit alone have not been enough, the order is held all along.
    order_limit_ = !ordered ? 0 : least || attempt > 0 ? planned.peak_bytes : limit;
    in_order_ = ordered;
    if (ordered) ordered_ = as_it_is ? imported_ : InOrder(imported_, strategy.order);
    MemoryProfile profile;
    tensorflow::grappler::GrapplerItem rewritten = item_;
    if (!Rewrite(planned.plan, &rewritten, &profile)) {
      if (!KeepUntimed() && !Restrain(planned.plan)) return false;
      --attempt;
      continue;
    }
    if (least) {
      // Iterations that are kept apart are a gain of their own.
      const bool apart = !imported_.holds.empty() && worst_bytes_ > report_.peak_before_bytes &&
                         profile.peak_bytes <= report_.peak_before_bytes;
      if (!apart && profile.peak_bytes >= report_.peak_before_bytes) {
        if (order_limit_ > 0 && (options_.recompute || swap_.link.usable())) continue;  // without the order next time
        if (!hinted) return NothingToGain();
      }
      // The budget to ask for in bytes to get as low: a plan for it is held against the limit in the planner's eyes
      // and in the verifier's, and has the margin that every budget has.
      report_.budget_bytes = LeastBudget(std::max(planned.peak_bytes, profile.peak_bytes));
      report_.min_budget_bytes = report_.budget_bytes;
    } else if (profile.peak_bytes > Allowed()) {
      // The executor's order will not be quite the plan's: aim lower by as much as this was above, once the order is
      // held all along.
      const bool loose = order_limit_ == limit;
      if (loose) chosen = strategy;
      if (!loose) limit -= std::max<int64_t>(profile.peak_bytes - Allowed(), limit / 200);
      least_verified_ = least_verified_ == 0 ? profile.peak_bytes : std::min(least_verified_, profile.peak_bytes);
      continue;
    }
    Accept(planned, profile, &rewritten, output);
    return true;
  }
  // Plans were found, but none held when the new graph was simulated afresh. Where the least was asked for, that is
  // what the step takes as it is: no budget has been missed.
  if (least) return NothingToGain();
  PlannerResult none;
  none.peak_bytes = least_verified_;
  return Infeasible(none, output);
}

bool DevicePass::FollowModel(tensorflow::GraphDef* output) {
  if (device_.empty() || !facts_.model) return false;
  Enter("plan");
  const Model& model = *facts_.model;
  std::vector<OpId> twins = PairOps(model.imported.graph, model.part, imported_.graph, PartOnDevice(imported_));
  const auto order = OrderLikeTwins(twins, imported_.graph);
  if (!order) return false;
  ordered_ = InOrder(imported_, *order);
  in_order_ = true;
  for (OpId& twin : twins) {
    if (twin != kNone) twin = ordered_.op_of_node[imported_.node_of_op[twin]];
  }
  const auto plan = PlanLikeTwins(model.imported.graph, model.planned.plan, twins, ordered_.graph);
  if (!plan) return false;
  PlannerResult planned = model.planned;
  planned.plan = *plan;
  planned.work = 0;
  order_limit_ = model.order_limit == 0 ? 0 : model.order_limit + report_.resident_bytes;
  MemoryProfile profile;
  tensorflow::grappler::GrapplerItem rewritten = item_;
  const Report before = report_;
  if (!Rewrite(planned.plan, &rewritten, &profile)) {
    report_ = before;
    return false;
  }
  const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
  // Who asks for the least has each device planned by itself where that may be lower.
  const int64_t least_peak = report_.resident_bytes + model.peak + model.peak / 100;
  const bool met =
      least ? profile.peak_bytes < std::min(report_.peak_before_bytes, least_peak) : profile.peak_bytes <= Allowed();
  if (!met) return false;
  if (least) report_.budget_bytes = report_.min_budget_bytes = profile.peak_bytes;
  Accept(planned, profile, &rewritten, output);
  report_.reason += "; the same plan as for " + model.imported.device;
  return true;
}

std::vector<bool> DevicePass::PartOnDevice(const ImportedGraph& imported) const {
  std::vector<bool> part;
  for (const int node : imported.node_of_op) part.push_back(item_.graph.node(node).device() == imported.device);
  return part;
}

void DevicePass::ChooseWhereToSwap() {
  if (!options_.swap) return;
  Enter("swap");
  FailIfInjected("link");
  swap_ = ChooseSwap(options_, imported_.device, cluster_);
  NoteSwap(swap_, &report_);
  target_.tier = swap_.tier;
  target_.directory = swap_.directory;
  target_.limit_bytes = swap_.tier == "disk" ? options_.swap_disk_limit : options_.swap_host_limit;
  for (const std::string& warning : FilterSwappable(options_, &imported_.graph)) report_.warnings.push_back(warning);
}

PlannerOptions DevicePass::Planner() const {
  PlannerOptions planner;
  // A plan for the least peak is hardly ever made again, and each step of the search for it counts.
  const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
  const double work = (least ? kShareOfLeast : kShareOfPlan) * static_cast<double>(facts_.work.left());
  planner.work = std::max(static_cast<int64_t>(work), WorkForStep(options_.planner_seconds) / kLeastShare);
  planner.recompute = options_.recompute && restraint_.Allows(Change::kRecomputations);
  planner.move = options_.schedule && restraint_.Allows(Change::kMoves);
  if (restraint_.Allows(Change::kSwaps)) planner.link = swap_.link;
  planner.swap_rules = swap_.rules;
  return planner;
}

void DevicePass::Count(int64_t work) {
  facts_.work.Add(work);
  report_.planner_work += work;
}

StrategyOptions DevicePass::Ways(int attempt) const {
  StrategyOptions ways;
  ways.planner = Planner();
  const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
  const bool order_alone = !ways.planner.recompute && !ways.planner.link.usable();
  // What fits is changed as the hints ask for, and no further.
  const bool hints_alone = Hinted() && !OverBudget();
  ways.order = options_.schedule && restraint_.MayOrder() && !hints_alone && (order_alone || attempt < (least ? 1 : 3));
  ways.order_alone = !Hinted() && (order_alone || attempt < (least ? 1 : 2));
  return ways;
}

bool DevicePass::ApplyAndVerify(const Plan& plan, tensorflow::grappler::GrapplerItem* rewritten,
                                MemoryProfile* profile) {
  Enter("rewrite");
  applied_ = RewriteResult();
  RewriteOptions ways;
  // What takes the place of a swapped tensor must wait until it is out, whatever else is enforced.
  ways.enforce_order = (options_.schedule && restraint_.Allows(Change::kEdges)) || !plan.swap_outs.empty();
  ways.order_limit_bytes = order_limit_;
  ways.deadline = stages_.deadline();
  ways.order_bytes = bounds_.bytes / 4;
  ways.serialize_bytes = options_.serialize_bytes;
  ways.swap = target_;
  absl::Status status = RewriteGraph(Planned(), index_, plan, ways, &rewritten->graph, &applied_);
  if (!status.ok()) return Fail(status);
  Enter("verify");
  const std::string device = imported_.other_devices.empty() ? "" : imported_.device;
  status = VerifyRewrite(item_, index_, *rewritten, sizes_, threads_, swap_.link, profile, stages_.deadline(), device,
                         &verified_);
  return status.ok() || Fail(status);
}

bool DevicePass::KeepUntimed() {
  if (applied_.untimed.empty() || ++untimed_plans_ > kMostAttempts) return false;
  for (const OpId planned : applied_.untimed) {
    MemOp& op = imported_.graph.ops[imported_.op_of_node[Planned().node_of_op[planned]]];
    op.recomputable = false;
    op.keep_reason = "nothing in its loop or branch tells when it is to run again";
    for (const BufferId b : op.outputs) {
      MemBuffer& buffer = imported_.graph.buffers[b];
      if (buffer.evictable) buffer.keep_reason = op.keep_reason;
      buffer.evictable = false;
    }
  }
  return true;
}

}  // namespace lms
