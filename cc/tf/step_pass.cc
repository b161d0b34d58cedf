#include "cc/tf/step_pass.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/bytes.h"
#include "cc/core/graph_dump.h"
#include "cc/core/liveness.h"
#include "cc/core/lower_bound.h"
#include "cc/core/planner.h"
#include "cc/core/report_store.h"
#include "cc/core/swap_filters.h"
#include "cc/core/swap_limits.h"
#include "cc/core/transfers.h"
#include "cc/core/twins.h"
#include "cc/tf/budget.h"
#include "cc/tf/dimensions.h"
#include "cc/tf/execution.h"
#include "cc/tf/failure.h"
#include "cc/tf/graph_bounds.h"
#include "cc/tf/graph_index.h"
#include "cc/tf/hidden_wait.h"
#include "cc/tf/import.h"
#include "cc/tf/node_names.h"
#include "cc/tf/profile_choice.h"
#include "cc/tf/rewrite.h"
#include "cc/tf/step_report.h"
#include "cc/tf/strategy.h"
#include "cc/tf/strict.h"
#include "cc/tf/swap_choice.h"
#include "cc/tf/tensor_sizes.h"
#include "cc/tf/verify.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

// Functions with less are left alone where the budget is relative to their own peak: nothing would be gained.
constexpr int64_t kLeastActivationBytes = 256 << 10;
// Plans are made again, for a lower limit, when the verifier finds the new graph above the budget.
constexpr int kMostAttempts = 5;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A plan that was accepted, for devices that hold the same part of a model to follow.
struct Model {
  ImportedGraph imported;  // in the order that was planned
  std::vector<bool> part;  // per op: on the device
  PlannerResult planned;
  int64_t order_limit = 0;  // above what is resident; 0: no order
  int64_t peak = 0;         // above what is resident
};

// What the passes for the devices of one step share: sizes and costs are those of the graph as it came.
struct StepFacts {
  StepFacts(const grappler::GrapplerItem& item, const Options& options)
      : dimensions(item, options), sizes(&dimensions) {}

  Dimensions dimensions;
  TensorSizes sizes;
  bool inferred = false;
  std::optional<Model> model;  // of the first device
};

class StepPass {
 public:
  // Plans `device`, or where that is "" the one that holds most.
  StepPass(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, int threads,
           const std::string& device, StepFacts* facts, StageWatch* stages, Report* report)
      : options_(options),
        cluster_(cluster),
        item_(item),
        threads_(threads),
        device_(device),
        facts_(*facts),
        stages_(*stages),
        bounds_(options.planner_seconds),
        sizes_(facts->sizes),
        report_(*report) {}

  bool Run(tensorflow::GraphDef* output) {
    if (device_.empty()) {
      for (const auto& node : item_.graph.node()) {
        if (IsOwnName(node.name())) return Skip("already rewritten");
      }
    }
    if (!Read()) return false;
    if (imported_.graph.ops.empty()) return Skip("no op of the graph runs");
    Measure();
    if (RelativeBudget() && report_.peak_before_bytes - report_.resident_bytes < kLeastActivationBytes) {
      return Skip("too small for a relative budget: its activations peak at " +
                  FormatBytes(report_.peak_before_bytes - report_.resident_bytes) + hidden_);
    }
    DumpGraph();
    if (!OverBudget()) {
      report_.status = ReportStatus::kFits;
      report_.reason = "the predicted peak of " + FormatBytes(report_.peak_before_bytes) + " is within the budget of " +
                       FormatBytes(report_.budget_bytes) + hidden_;
      return false;
    }
    return PlanAndRewrite(output);
  }

 private:
  void Enter(const char* stage) { stages_.Enter(stage); }

  bool Skip(const std::string& reason) {
    report_.status = ReportStatus::kSkipped;
    report_.reason = reason;
    return false;
  }

  bool Fail(const absl::Status& status) {
    report_.status = ReportStatus::kFailed;
    report_.reason = report_.stage + ": " + std::string(status.message());
    return false;
  }

  bool Read() {
    Enter("index");
    absl::Status status = index_.Build(item_, stages_.deadline());
    if (!status.ok()) return Fail(status);
    Enter("sizes");
    const Dimensions& dimensions = facts_.dimensions;
    report_.sizes = dimensions.lines();
    if (!dimensions.problems().empty()) return Fail(absl::InvalidArgumentError(dimensions.problems().front()));
    if (!dimensions.warning().empty()) report_.warnings.push_back(dimensions.warning());
    if (!facts_.inferred) {
      status = sizes_.Infer(stages_.deadline());
      if (status.ok()) status = sizes_.InferLists(index_);
      if (!status.ok()) return Fail(status);
      facts_.inferred = true;
    }
    Enter("import");
    status = ImportGraph(item_, index_, sizes_, &imported_, stages_.deadline(), device_);
    if (!status.ok()) return Fail(status);
    report_.device = imported_.device;
    report_.other_devices = imported_.other_devices;
    report_.nodes_before = report_.nodes_after = item_.graph.node_size();
    if (imported_.assumed_tensors > 0 && options_.unknown_dim.everywhere == 0) {
      report_.warnings.push_back(std::to_string(imported_.assumed_tensors) +
                                 " tensors have dimensions that only the run decides (" + imported_.assumed_example +
                                 " for one); each was taken to be " + std::to_string(kAssumedDim) +
                                 ": set unknown_dim to another number");
    }
    NoteHiddenOps();
    NoteUnseenCalls();
    for (const auto& node : item_.graph.node()) {
      if (node.attr().count("_XlaMustCompile") != 0 && node.attr().at("_XlaMustCompile").b()) {
        report_.warnings.push_back(node.name() +
                                   " is compiled by XLA (jit_compile=True): lms rewrites nothing in it, "
                                   "and knows little of what it takes while it runs");
        break;
      }
    }
    return true;
  }

  // What the prediction does not cover is said wherever it is used.
  void NoteHiddenOps() {
    if (imported_.hidden_ops == 0) return;
    hidden_ = ", not counting what " + std::to_string(imported_.hidden_ops) + " ops in loops hold";
    report_.warnings.push_back(
        std::to_string(imported_.hidden_ops) + " ops run inside loops that hold tensor lists of unknown size (" +
        imported_.hidden_example + " for one): what they hold is not predicted, and nothing of it is recomputed");
  }

  void NoteUnseenCalls() {
    const std::string calls = UnseenCalls(item_, index_);
    if (calls.empty()) return;
    hidden_ += ", not counting " + calls;
    report_.warnings.push_back("of " + calls +
                               ", lms sees nothing: what is held there is neither predicted nor lowered");
  }

  void Measure() {
    Enter("costs");
    EstimateCosts();
    Enter("liveness");
    const MemoryProfile profile = PredictMemory(item_.graph, index_, imported_, threads_, stages_.deadline());
    report_.resident_bytes = profile.resident_bytes;
    report_.peak_before_bytes = report_.peak_after_bytes = profile.peak_bytes;
    report_.timeline_before = profile.Timeline();
    worst_bytes_ = PeakAtWorst(item_.graph, index_, imported_, threads_, profile, stages_.deadline());
    Enter("budget");
    const ResolvedBudget budget =
        ResolveBudget(options_.memory_budget, profile.resident_bytes, profile.peak_bytes, imported_.device, cluster_);
    report_.budget_bytes = budget.bytes;
    if (!budget.source.empty()) report_.budget += " (" + budget.source + ")";
  }

  void EstimateCosts() {
    FailIfInjected("profile");
    const ChosenProfile chosen =
        ChooseProfile(options_.profile, PlaceOf(imported_.device, cluster_, options_.intra_op_threads));
    if (!chosen.problem.empty()) report_.warnings.push_back(chosen.problem + ": times are estimates");
    if (chosen.profile == nullptr) {
      sizes_.EstimateCosts(cluster_);
    } else {
      const ProfilePrices prices(*chosen.profile);
      sizes_.EstimateCosts(cluster_, &prices);
      report_.profile = chosen.path;
    }
    ImportCosts(item_, sizes_, swap_.link, &imported_);
    NoteProfiledShare();
  }

  void NoteProfiledShare() {
    double profiled_us = 0;
    for (const MemOp& op : imported_.graph.ops) profiled_us += sizes_.Of(op.name).profiled ? op.cost_us : 0;
    const double total_us = imported_.graph.TotalCostUs();
    report_.profiled_share = total_us > 0 ? profiled_us / total_us : 0;
  }

  // What goes wrong while graphs are written is no reason to leave a step as it is.
  template <typename Function>
  void Dump(const Function& write) {
    if (options_.dump_graphs.empty()) return;
    std::string problem;
    try {
      FailIfInjected("dump");
      problem = write();
    } catch (const std::exception& e) {
      problem = e.what();
    } catch (...) {
      problem = "unknown exception";
    }
    if (!problem.empty()) report_.warnings.push_back("dump_graphs: " + problem);
  }

  GraphDump DumpFile() const { return {options_.dump_graphs, report_.function, report_.sequence}; }

  void DumpGraph() {
    Dump([this] {
      report_.sequence = ReportStore::Global().NextSequence();  // which the files' names hold
      return DumpFile().Write(imported_.graph);
    });
  }

  // With an automatic budget the margin counts too: what is left on a device is never exact. An explicit budget that
  // the prediction meets is met.
  bool OverBudget() const {
    switch (options_.memory_budget.kind) {
      case Budget::Kind::kMin:
        return true;
      case Budget::Kind::kAuto:
        return worst_bytes_ > Limit();
      default:
        return worst_bytes_ > Allowed();
    }
  }

  // A share of the graph's own peak, or the least: asked of every function that runs, not only of training steps.
  bool RelativeBudget() const {
    const Budget::Kind kind = options_.memory_budget.kind;
    return kind == Budget::Kind::kPercent || kind == Budget::Kind::kMin;
  }

  int64_t Limit() const { return PlanningLimit(Allowed(), report_.resident_bytes, options_.safety_margin); }

  // What a prediction may be for the step to keep the budget: the budget, less what steps have been seen to take more.
  int64_t Allowed() const {
    const int64_t activations = report_.budget_bytes - report_.resident_bytes;
    if (options_.observed_excess <= 1 || activations <= 0) return report_.budget_bytes;
    return report_.resident_bytes + static_cast<int64_t>(static_cast<double>(activations) / options_.observed_excess);
  }

  bool PlanAndRewrite(tensorflow::GraphDef* output) {
    const std::string too_large = WhyTooLarge(item_, GraphWork::kPlan, bounds_);
    if (!too_large.empty()) throw TooMuch(too_large);
    const std::string waits = UnknownWait(item_, index_);
    if (!waits.empty())
      return Skip(waits + " may wait for another op of the step: lms changes no order around it" + hidden_);
    Enter("import");
    const absl::Status held = HoldIterations();
    if (!held.ok()) return Fail(held);
    report_.step_time_us = imported_.graph.TotalCostUs();
    ChooseWhereToSwap();
    report_.kept = SummariseKept(imported_.graph, swap_.link.usable());
    if (FollowModel(output)) return true;
    const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
    int64_t limit = Limit();
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      Enter("plan");
      const double start = Now();
      const Strategy strategy = least ? ChooseForLeastPeak(imported_.graph, Ways(attempt))
                                      : ChooseForLimit(imported_.graph, limit, Ways(attempt));
      const PlannerResult& planned = strategy.planned;
      report_.planner_seconds += Now() - start;
      if (!planned.feasible) return Infeasible(planned, output);
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
      grappler::GrapplerItem rewritten = item_;
      if (!Rewrite(planned.plan, &rewritten, &profile)) {
        if (!KeepUntimed()) return false;
        --attempt;
        continue;
      }
      if (least) {
        // Iterations that are kept apart are a gain of their own.
        const bool apart = !imported_.holds.empty() && worst_bytes_ > report_.peak_before_bytes &&
                           profile.peak_bytes <= report_.peak_before_bytes;
        if (!apart && profile.peak_bytes >= report_.peak_before_bytes) {
          if (order_limit_ > 0 && (options_.recompute || swap_.link.usable())) continue;  // without the order next time
          return NothingToGain();
        }
        // The budget to ask for in bytes to get as low: a plan for it is held against the limit in the planner's eyes
        // and in the verifier's, and has the margin that every budget has.
        report_.budget_bytes = LeastBudget(std::max(planned.peak_bytes, profile.peak_bytes));
        report_.min_budget_bytes = report_.budget_bytes;
      } else if (profile.peak_bytes > Allowed()) {
        // The executor's order will not be quite the plan's: aim lower by as much as this was above, once the order is
        // held all along.
        const bool loose = order_limit_ == limit;
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

  // Replicas of a model get one plan. False where this device's part is not that of the first device, or the plan does
  // not do for it: then it is planned by itself.
  bool FollowModel(tensorflow::GraphDef* output) {
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
    grappler::GrapplerItem rewritten = item_;
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

  std::vector<bool> PartOnDevice(const ImportedGraph& imported) const {
    std::vector<bool> part;
    for (const int node : imported.node_of_op) part.push_back(item_.graph.node(node).device() == imported.device);
    return part;
  }

  // Asked only now, as a link that nobody has measured yet is measured here.
  void ChooseWhereToSwap() {
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

  // What is planned is the graph with its loops' iterations kept apart, where that matters.
  absl::Status HoldIterations() {
    if (index_.frames() < 2 || !options_.schedule) return absl::OkStatus();
    const int region = imported_.region;
    const absl::Status status =
        ImportRegion(item_, index_, sizes_, region, /*hold=*/true, &imported_, stages_.deadline(), device_);
    if (!status.ok()) return status;
    ImportCosts(item_, sizes_, swap_.link, &imported_);
    DumpGraph();
    return status;
  }

  PlannerOptions Planner() const {
    PlannerOptions planner = PlannerOptionsFor(options_.planner_seconds);
    planner.deadline = stages_.deadline();
    planner.recompute = options_.recompute;
    planner.move = options_.schedule;
    planner.link = swap_.link;
    planner.swap_rules = swap_.rules;
    return planner;
  }

  // An order that did not hold in the verifier's eyes is given another chance beside recomputation, and then given up.
  StrategyOptions Ways(int attempt) const {
    StrategyOptions ways;
    ways.planner = Planner();
    const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
    const bool order_alone = !options_.recompute && !swap_.link.usable();
    ways.order = options_.schedule && (order_alone || attempt < (least ? 1 : 3));
    ways.order_alone = order_alone || attempt < (least ? 1 : 2);
    return ways;
  }

  // The graph in the order that is being enforced.
  const ImportedGraph& Planned() const { return in_order_ ? ordered_ : imported_; }

  bool Rewrite(const Plan& plan, grappler::GrapplerItem* rewritten, MemoryProfile* profile) {
    Enter("rewrite");
    applied_ = RewriteResult();
    RewriteOptions ways;
    // What takes the place of a swapped tensor must wait until it is out, whatever else is enforced.
    ways.enforce_order = options_.schedule || !plan.swap_outs.empty();
    ways.order_limit_bytes = order_limit_;
    ways.deadline = stages_.deadline();
    ways.order_bytes = bounds_.bytes / 4;
    ways.serialize_bytes = options_.serialize_bytes;
    ways.swap = target_;
    absl::Status status = RewriteGraph(Planned(), index_, plan, ways, &rewritten->graph, &applied_);
    if (!status.ok()) return Fail(status);
    Enter("verify");
    const std::string device = imported_.other_devices.empty() ? "" : imported_.device;
    status = VerifyRewrite(item_, *rewritten, sizes_, threads_, swap_.link, profile, stages_.deadline(), device);
    return status.ok() || Fail(status);
  }

  // What could not be placed in the order stays where it is in the next plan. False: nothing, or too often.
  bool KeepUntimed() {
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

  void Accept(const PlannerResult& planned, const MemoryProfile& profile, grappler::GrapplerItem* rewritten,
              tensorflow::GraphDef* output) {
    report_.status = ReportStatus::kRewritten;
    report_.peak_after_bytes = profile.peak_bytes;
    report_.timeline_after = profile.Timeline();
    report_.nodes_after = rewritten->graph.node_size();
    if (planned.timed_out) {
      report_.warnings.push_back("planning was cut short after planner_seconds: another run may find another plan");
    }
    FailIfInjected("describe");
    DescribeApplied({Planned(), planned, applied_, swap_.link, order_limit_ > 0}, index_, sizes_, &report_);
    Dump([&] {
      const std::string problem = in_order_ ? DumpFile().Write(Planned().graph) : "";
      return problem.empty() ? DumpFile().Write(Planned().graph, planned.plan) : problem;
    });
    if (device_.empty() && !imported_.other_devices.empty()) {
      const int64_t limit = order_limit_ == 0 ? 0 : order_limit_ - report_.resident_bytes;
      facts_.model =
          Model{Planned(), PartOnDevice(Planned()), planned, limit, profile.peak_bytes - report_.resident_bytes};
    }
    output->Swap(&rewritten->graph);
  }

  // Words on results that make up most of the peak: they are held to the end of the function, whatever is planned.
  std::string Returned() const {
    int64_t returned = 0;
    for (const MemBuffer& buffer : imported_.graph.buffers) {
      if (buffer.escapes && !buffer.resident) returned += buffer.bytes;
    }
    if (returned < kLeastActivationBytes || returned < (report_.peak_before_bytes - report_.resident_bytes) / 2)
      return "";
    return "; " + FormatBytes(returned) +
           " of it are results that the function returns, which cannot be dropped: where they are activations for a "
           "backward pass that runs outside of it, put forward and backward pass into one tf.function";
  }

  bool NothingToGain() {
    report_.status = ReportStatus::kFits;
    report_.budget_bytes = report_.min_budget_bytes = report_.peak_before_bytes;
    report_.reason =
        "no plan lowers the predicted peak of " + FormatBytes(report_.peak_before_bytes) + hidden_ + Returned();
    return false;
  }

  // What would have to be asked for to get down to `peak`.
  int64_t LeastBudget(int64_t peak) const {
    const int64_t budget = BudgetForLimit(peak, report_.resident_bytes, options_.safety_margin);
    // A step that fits needs no margin.
    const bool automatic = options_.memory_budget.kind == Budget::Kind::kAuto;
    return automatic ? budget : std::min(budget, report_.peak_before_bytes);
  }

  bool Infeasible(const PlannerResult& planned, tensorflow::GraphDef* output) {
    int64_t peak = std::max(planned.peak_bytes, least_verified_);
    if (Limit() < LowerBoundBytes(imported_.graph)) {
      FailIfInjected("least");
      const double start = Now();
      peak = ChooseForLeastPeak(imported_.graph, Ways(0)).planned.peak_bytes;
      report_.planner_seconds += Now() - start;
    }
    report_.status = ReportStatus::kInfeasible;
    report_.min_budget_bytes = LeastBudget(peak);
    report_.reason = "the budget of " + FormatBytes(report_.budget_bytes) + " cannot be met";
    if (report_.budget_bytes <= report_.resident_bytes) {
      report_.reason += ": weights, inputs and constants alone take " + FormatBytes(report_.resident_bytes);
    }
    NoteWhatLimitsSwapping();
    report_.reason += Returned();
    report_.reason += "; the least feasible budget found is " + FormatBytes(report_.min_budget_bytes) + " (" +
                      std::to_string(report_.min_budget_bytes) + " bytes)";
    if (!options_.strict) return false;
    FailIfInjected("strict");
    *output = item_.graph;
    FailStep(index_, imported_.device, "lms (strict): " + report_.reason, output);
    return true;
  }

  // Would there be a plan if the tier took more? Then the setting that stands in its way is named.
  void NoteWhatLimitsSwapping() {
    if (!swap_.link.usable() || swap_.limits.empty() || report_.budget_bytes <= report_.resident_bytes) return;
    StrategyOptions ways = Ways(0);
    ways.planner.link.capacity_bytes = SwapLink().capacity_bytes;
    ways.order = false;
    const double start = Now();
    const PlannerResult planned = ChooseForLimit(imported_.graph, Limit(), ways).planned;
    report_.planner_seconds += Now() - start;
    if (!planned.feasible) return;
    const Transfers transfers = SimulateTransfers(imported_.graph, planned.plan, swap_.link);
    const std::string warning = SwapLimitWarning(transfers.peak_stored_bytes, swap_.limits);
    if (!warning.empty()) report_.warnings.push_back(warning);
  }

  const Options& options_;
  grappler::Cluster* cluster_;
  const grappler::GrapplerItem& item_;
  const int threads_;  // inter-op
  const std::string device_;
  StepFacts& facts_;
  StageWatch& stages_;
  const GraphBounds bounds_;
  TensorSizes& sizes_;
  Report& report_;
  GraphIndex index_;
  ImportedGraph imported_;
  bool in_order_ = false;
  ImportedGraph ordered_;    // then: the same in another order
  int64_t order_limit_ = 0;  // of bytes up to which the order need not be enforced; 0: it is the executor's own
  ChosenSwap swap_;          // where tensors may go, and over which link
  SwapTarget target_;
  RewriteResult applied_;
  int untimed_plans_ = 0;       // that could not be applied, as nothing told when to run an op again
  int64_t least_verified_ = 0;  // peak of the best rewritten graph that was still over the budget; 0: there was none
  int64_t worst_bytes_ = 0;     // what the step may take as it came, its peak or more
  std::string hidden_;          // words on what no figure includes
};

// The step on one device. False: the graph is to stay as it is.
bool PlanDevice(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, int threads,
                const std::string& device, StepFacts* facts, tensorflow::GraphDef* output, StageWatch* stages,
                Report* report) {
  const Report blank = *report;
  // Where no plan makes up for all that steps have been seen to take more, one that makes up for a part is better than
  // the graph as it came.
  const double excess = options.observed_excess - 1;
  for (const double share : {1.0, 0.5, 0.0}) {
    Options tried = options;
    tried.observed_excess = 1 + excess * share;
    const bool last = excess <= 0 || share <= 0;
    tried.strict = options.strict && last;
    std::vector<std::pair<std::string, double>> seconds = std::move(report->stage_seconds);
    *report = blank;
    report->stage_seconds = std::move(seconds);
    const bool changed = StepPass(tried, cluster, item, threads, device, facts, stages, report).Run(output);
    if (report->status == ReportStatus::kInfeasible && !last) continue;
    if (!options.planned_again.empty()) report->reason += "; planned again: " + options.planned_again;
    return changed;
  }
  return false;
}

// Are there plans for other devices to be made, after what became of the first?
bool GoOn(const Report& first, bool changed) {
  // A step that fails on purpose (strict) has failed for all.
  if (changed) return first.status == ReportStatus::kRewritten;
  return first.status == ReportStatus::kFits || first.status == ReportStatus::kInfeasible;
}

}  // namespace

bool RunStepPass(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, int threads,
                 tensorflow::GraphDef* output, StageWatch* stages, std::deque<Report>* reports) {
  const Report blank = reports->back();
  StepFacts facts(item, options);
  bool changed = PlanDevice(options, cluster, item, threads, "", &facts, output, stages, &reports->back());
  if (!GoOn(reports->back(), changed)) return changed;
  // Each in the graph that the ones before have left. What goes wrong here leaves their work as it is.
  const std::vector<std::string> others = reports->back().other_devices;
  for (const std::string& device : others) {
    grappler::GrapplerItem next = item;
    if (changed) next.graph = *output;
    Report& report = reports->emplace_back(blank);
    report.device = device;
    tensorflow::GraphDef more;
    bool changed_more = false;
    try {
      StageWatch own(stages->deadline(), &report);
      changed_more = PlanDevice(options, cluster, next, threads, device, &facts, &more, &own, &report);
    } catch (const TooMuch& e) {
      NoteTooMuch(e, &report);
    } catch (const std::exception& e) {
      report.status = ReportStatus::kFailed;
      report.reason = report.stage + ": " + e.what();
    }
    if (!changed_more) continue;
    output->Swap(&more);
    changed = true;
    if (report.status != ReportStatus::kRewritten) break;
  }
  return changed;
}

}  // namespace lms
