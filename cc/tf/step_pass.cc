#include "cc/tf/step_pass.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "cc/core/bytes.h"
#include "cc/core/graph_dump.h"
#include "cc/core/liveness.h"
#include "cc/core/lower_bound.h"
#include "cc/core/planner.h"
#include "cc/core/report_store.h"
#include "cc/tf/budget.h"
#include "cc/tf/failure.h"
#include "cc/tf/graph_index.h"
#include "cc/tf/import.h"
#include "cc/tf/node_names.h"
#include "cc/tf/op_traits.h"
#include "cc/tf/rewrite_recompute.h"
#include "cc/tf/strict.h"
#include "cc/tf/tensor_sizes.h"
#include "cc/tf/verify.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

// For dimensions that the graph leaves unknown, where the user has not said.
constexpr int64_t kAssumedDim = 32;
// Functions with less are left alone where the budget is relative to their own peak: nothing would be gained.
constexpr int64_t kLeastActivationBytes = 256 << 10;
// Plans are made again, for a lower limit, when the verifier finds the new graph above the budget.
constexpr int kMostAttempts = 4;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class StepPass {
 public:
  StepPass(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, Report* report)
      : options_(options),
        cluster_(cluster),
        item_(item),
        sizes_(item, options.unknown_dim > 0 ? options.unknown_dim : kAssumedDim),
        report_(*report) {}

  bool Run(tensorflow::GraphDef* output) {
    for (const auto& node : item_.graph.node()) {
      if (IsOwnName(node.name())) return Skip("already rewritten");
    }
    if (!Read()) return false;
    if (imported_.graph.ops.empty()) return Skip("no op of the graph runs");
    Measure();
    if (RelativeBudget() && report_.peak_before_bytes - report_.resident_bytes < kLeastActivationBytes) {
      return Skip("too small for a relative budget: its activations peak at " +
                  FormatBytes(report_.peak_before_bytes - report_.resident_bytes));
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
  void Enter(const char* stage) {
    report_.stage = stage;
    FailIfInjected(stage);
  }

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
    absl::Status status = index_.Build(item_);
    if (!status.ok()) return Fail(status);
    Enter("sizes");
    status = sizes_.Infer();
    if (status.ok()) status = sizes_.InferLists(index_);
    if (!status.ok()) return Fail(status);
    Enter("import");
    status = ImportGraph(item_, index_, sizes_, &imported_);
    if (!status.ok()) return Fail(status);
    report_.device = imported_.device;
    report_.nodes_before = report_.nodes_after = item_.graph.node_size();
    if (imported_.assumed_tensors > 0 && options_.unknown_dim == 0) {
      report_.warnings.push_back(std::to_string(imported_.assumed_tensors) + " tensors have unknown dimensions (" +
                                 imported_.assumed_example + " for one); each was taken to be " +
                                 std::to_string(kAssumedDim) + ": set unknown_dim, for example to the batch size");
    }
    NoteHiddenOps();
    for (const auto& node : item_.graph.node()) {
      if (node.attr().count("_XlaMustCompile") != 0 && node.attr().at("_XlaMustCompile").b()) {
        report_.warnings.push_back(node.name() + " is compiled by XLA (jit_compile=True): lms cannot see into it");
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

  void Measure() {
    Enter("liveness");
    const MemoryProfile profile = Simulate(imported_.graph, Plan());
    report_.resident_bytes = profile.resident_bytes;
    report_.peak_before_bytes = report_.peak_after_bytes = profile.peak_bytes;
    report_.timeline_before = profile.op_bytes;
    Enter("budget");
    const ResolvedBudget budget =
        ResolveBudget(options_.memory_budget, profile.resident_bytes, profile.peak_bytes, imported_.device, cluster_);
    report_.budget_bytes = budget.bytes;
    if (!budget.source.empty()) report_.budget += " (" + budget.source + ")";
  }

  void EstimateCosts() {
    if (costs_known_) return;
    sizes_.EstimateCosts(cluster_);
    ImportCosts(item_, sizes_, &imported_);
    costs_known_ = true;
  }

  // What goes wrong while graphs are written is no reason to leave a step as it is.
  template <typename Function>
  void Dump(const Function& write) {
    if (options_.dump_graphs.empty()) return;
    std::string problem;
    try {
      problem = write();
    } catch (const std::exception& e) {
      problem = e.what();
    }
    if (!problem.empty()) report_.warnings.push_back("dump_graphs: " + problem);
  }

  GraphDump DumpFile() const { return {options_.dump_graphs, report_.function, report_.sequence}; }

  void DumpGraph() {
    Dump([this] {
      report_.sequence = ReportStore::Global().NextSequence();  // which the files' names hold
      EstimateCosts();
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
        return report_.peak_before_bytes > Limit();
      default:
        return report_.peak_before_bytes > report_.budget_bytes;
    }
  }

  // A share of the graph's own peak, or the least: asked of every function that runs, not only of training steps.
  bool RelativeBudget() const {
    const Budget::Kind kind = options_.memory_budget.kind;
    return kind == Budget::Kind::kPercent || kind == Budget::Kind::kMin;
  }

  int64_t Limit() const { return PlanningLimit(report_.budget_bytes, report_.resident_bytes, options_.safety_margin); }

  // The first live node that may wait for another one in a way that no edge shows; "" when there is none. An order
  // enforced between the two could keep both waiting for ever.
  std::string HiddenWait() const {
    const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), item_.graph.library());
    for (int i = 0; i < index_.size(); ++i) {
      const tensorflow::NodeDef& node = item_.graph.node(i);
      const tensorflow::OpDef* op_def = nullptr;
      if (!index_[i].live || !library.LookUpOpDef(node.op(), &op_def).ok()) continue;
      if (MayWaitForOthers(node.op(), *op_def)) return node.name() + " (" + node.op() + ")";
    }
    return "";
  }

  bool PlanAndRewrite(tensorflow::GraphDef* output) {
    const std::string waits = HiddenWait();
    if (!waits.empty()) return Skip(waits + " may wait for another op of the step: lms changes no order around it");
    Enter("import");
    const absl::Status held = HoldIterations();
    if (!held.ok()) return Fail(held);
    Enter("costs");
    EstimateCosts();
    report_.step_time_us = imported_.graph.TotalCostUs();
    report_.kept = SummariseKept(imported_.graph);
    const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
    int64_t limit = Limit();
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      Enter("plan");
      const double start = Now();
      PlannerResult planned =
          least ? PlanForLeastPeak(imported_.graph, Planner()) : PlanForLimit(imported_.graph, limit, Planner());
      report_.planner_seconds += Now() - start;
      if (!planned.feasible) return Infeasible(planned, output);
      if (planned.plan.steps.empty() && imported_.holds.empty()) return NothingToGain();
      MemoryProfile profile;
      grappler::GrapplerItem rewritten = item_;
      if (!Rewrite(planned.plan, &rewritten, &profile)) return false;
      if (least) {
        if (profile.peak_bytes >= report_.peak_before_bytes) return NothingToGain();
        report_.budget_bytes = report_.min_budget_bytes = profile.peak_bytes;
      } else if (profile.peak_bytes > report_.budget_bytes) {
        // The executor's order will not be quite the plan's: aim lower by as much as this was above.
        limit -= std::max<int64_t>(profile.peak_bytes - report_.budget_bytes, limit / 200);
        least_verified_ = least_verified_ == 0 ? profile.peak_bytes : std::min(least_verified_, profile.peak_bytes);
        continue;
      }
      Accept(planned, profile, &rewritten, output);
      return true;
    }
    // Plans were found, but none held when the new graph was simulated afresh.
    PlannerResult none;
    none.peak_bytes = least_verified_;
    return Infeasible(none, output);
  }

  // What is planned is the graph with its loops' iterations kept apart, where that matters.
  absl::Status HoldIterations() {
    if (index_.frames() < 2 || !options_.schedule) return absl::OkStatus();
    const int region = imported_.region;
    const absl::Status status = ImportRegion(item_, index_, sizes_, region, /*hold=*/true, &imported_);
    if (!status.ok()) return status;
    costs_known_ = false;
    DumpGraph();
    return status;
  }

  PlannerOptions Planner() const {
    PlannerOptions planner = PlannerOptionsFor(options_.planner_seconds);
    planner.recompute = options_.recompute;
    planner.move = options_.schedule;
    return planner;
  }

  bool Rewrite(const Plan& plan, grappler::GrapplerItem* rewritten, MemoryProfile* profile) {
    Enter("rewrite");
    applied_ = RewriteResult();
    absl::Status status = RewriteForRecompute(imported_, index_, plan, options_.schedule, &rewritten->graph, &applied_);
    if (!status.ok()) return Fail(status);
    Enter("verify");
    status = VerifyRewrite(item_, *rewritten, sizes_, profile);
    return status.ok() || Fail(status);
  }

  void Accept(const PlannerResult& planned, const MemoryProfile& profile, grappler::GrapplerItem* rewritten,
              tensorflow::GraphDef* output) {
    report_.status = ReportStatus::kRewritten;
    report_.peak_after_bytes = profile.peak_bytes;
    report_.timeline_after = profile.op_bytes;
    report_.nodes_after = rewritten->graph.node_size();
    if (report_.step_time_us > 0) {
      report_.predicted_time_overhead = planned.cost_us / report_.step_time_us;
      report_.time_overhead_bound = planned.bound_us / report_.step_time_us;
    }
    if (planned.timed_out) {
      report_.warnings.push_back("planning was cut short after planner_seconds: another run may find another plan");
    }
    report_.decisions = DescribePlan(imported_.graph, planned.plan, applied_.step_triggers);
    const auto moves = std::count_if(planned.plan.steps.begin(), planned.plan.steps.end(),
                                     [](const RecomputeStep& step) { return step.moves; });
    report_.reason = std::to_string(planned.plan.steps.size() - moves) + " recomputations and " +
                     std::to_string(moves) + " moves lower the predicted peak from " +
                     FormatBytes(report_.peak_before_bytes) + " to " + FormatBytes(report_.peak_after_bytes) + Where() +
                     (imported_.holds.empty() ? "" : "; iterations of loops wait for the end of the one before");
    Dump([&] { return DumpFile().Write(imported_.graph, planned.plan); });
    output->Swap(&rewritten->graph);
  }

  // Where the copies are, when not in what runs in every step.
  std::string Where() const {
    const Region& region = index_.region(imported_.region);
    if (region.frame > 0) return ", in the body of the loop " + index_.frame(region.frame).name;
    return region.conditions.empty() ? "" : ", in a branch";
  }

  bool NothingToGain() {
    report_.status = ReportStatus::kFits;
    report_.budget_bytes = report_.min_budget_bytes = report_.peak_before_bytes;
    report_.reason = "no plan lowers the predicted peak of " + FormatBytes(report_.peak_before_bytes) + hidden_;
    return false;
  }

  bool Infeasible(const PlannerResult& planned, tensorflow::GraphDef* output) {
    int64_t peak = std::max(planned.peak_bytes, least_verified_);
    if (Limit() < LowerBoundBytes(imported_.graph)) {
      const double start = Now();
      peak = PlanForLeastPeak(imported_.graph, Planner()).peak_bytes;
      report_.planner_seconds += Now() - start;
    }
    report_.status = ReportStatus::kInfeasible;
    report_.min_budget_bytes = BudgetForLimit(peak, report_.resident_bytes, options_.safety_margin);
    if (options_.memory_budget.kind != Budget::Kind::kAuto) {
      // A step that fits needs no margin.
      report_.min_budget_bytes = std::min(report_.min_budget_bytes, report_.peak_before_bytes);
    }
    report_.reason = "the budget of " + FormatBytes(report_.budget_bytes) + " cannot be met";
    if (report_.budget_bytes <= report_.resident_bytes) {
      report_.reason += ": weights, inputs and constants alone take " + FormatBytes(report_.resident_bytes);
    }
    report_.reason += "; the least feasible budget found is " + FormatBytes(report_.min_budget_bytes) + " (" +
                      std::to_string(report_.min_budget_bytes) + " bytes)";
    if (!options_.strict) return false;
    *output = item_.graph;
    FailStep(index_, imported_.device, "lms (strict): " + report_.reason, output);
    return true;
  }

  const Options& options_;
  grappler::Cluster* cluster_;
  const grappler::GrapplerItem& item_;
  TensorSizes sizes_;
  Report& report_;
  GraphIndex index_;
  ImportedGraph imported_;
  RewriteResult applied_;
  bool costs_known_ = false;
  int64_t least_verified_ = 0;  // peak of the best rewritten graph that was still over the budget; 0: there was none
  std::string hidden_;          // words on what no figure includes
};

}  // namespace

bool RunStepPass(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item,
                 tensorflow::GraphDef* output, Report* report) {
  return StepPass(options, cluster, item, report).Run(output);
}

}  // namespace lms
