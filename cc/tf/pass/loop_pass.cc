#include "cc/tf/pass/loop_pass.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/base/bytes.h"
#include "cc/core/base/words.h"
#include "cc/tf/graph/graph_check.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/import/hints.h"
#include "cc/tf/loops/check_loops.h"
#include "cc/tf/loops/kept_lists.h"
#include "cc/tf/loops/recompute_in_loops.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/device_pass.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/stock/sum_holders.h"
#include "tensorflow/core/framework/function.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

// Choices that are planned, at most: from the first that may be enough to the one that saves most.
constexpr int kMostTried = 3;
// Where the step's own plan meets the budget, the share of time that it adds from which another way is looked for, and
// the share of the activations that lists have to hold for it to be one.
constexpr double kMuchTime = 0.02;
constexpr double kMuchMemory = 0.1;
// Of the least peak: a lower one by less is not worth the ops that run again.
constexpr double kLittleMemory = 0.01;

bool PopsLists(const tensorflow::GraphDef& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [](const auto& node) { return node.op() == "TensorListPopBack"; });
}

// The step, where lists are chosen from.
struct LoopStep {
  GraphIndex index;
  std::vector<ListCut> cuts;
  double total_us = 0;  // of all ops, in all iterations
};

absl::Status FindCuts(const DeviceContext& context, const std::string& device, LoopStep* step) {
  absl::Status status = step->index.Build(context.item, context.deadline());
  if (!status.ok()) return status;
  const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), context.item.graph.library());
  std::vector<NodeTypes> types;
  status = ReadNodeTypes(context.item.graph, step->index, library, &types);
  if (!status.ok()) return status;
  const TensorSizes& sizes = context.facts.sizes;
  step->cuts = FindListCuts(context.item, step->index, sizes, types, device, context.deadline());
  if (step->cuts.empty()) return status;
  const Loops loops(context.item.graph, step->index);
  const TensorLists lists(context.item.graph, step->index, sizes, loops);
  for (int i = 0; i < step->index.size(); ++i) {
    if (!step->index[i].live) continue;
    const int64_t trips = step->index[i].frame > 0 ? lists.Trips(step->index[i].frame) : 1;
    step->total_us +=
        sizes.Of(context.item.graph.node(i).name()).cost_us * static_cast<double>(std::max<int64_t>(1, trips));
  }
  return status;
}

// The sums of the two bodies keep the order that they have as the step came.
void HoldSums(const std::vector<SumWait>& waits, const ListCut& cut, const GraphIndex& index,
              tensorflow::GraphDef* graph) {
  std::set<int> regions;
  for (const LoopCut& loop : cut.loops) regions.insert({loop.loop.forward_region, loop.loop.backward_region});
  for (const SumWait& wait : waits) {
    if (regions.count(index[wait.node].region) == 0) continue;
    tensorflow::NodeDef* const node = graph->mutable_node(wait.node);
    // Pushes and pops that are gone hold nothing.
    if (node->op() == "NoOp" || graph->node(wait.waits_for).op() == "NoOp") continue;
    const std::string control = "^" + graph->node(wait.waits_for).name();
    if (std::find(node->input().begin(), node->input().end(), control) == node->input().end()) node->add_input(control);
  }
}

absl::Status Apply(const DeviceContext& context, const ListCut& cut, const GraphIndex& index,
                   const std::vector<SumWait>& waits, grappler::GrapplerItem* variant) {
  absl::Status status = RecomputeInLoops(cut, index, &variant->graph);
  if (!status.ok()) return status;
  HoldSums(waits, cut, index, &variant->graph);
  status = CheckGraph(variant->graph);
  if (!status.ok()) return status;
  GraphIndex changed;
  status = changed.Build(*variant, context.deadline());
  if (!status.ok()) return status;
  return CheckLoops(context.item.graph, index, variant->graph, changed, context.deadline());
}

// One decision for each op that runs again in the gradient of its loop; times and bytes are those of all iterations.
void Describe(const DeviceContext& context, const ListCut& cut, const GraphIndex& index, Report* report) {
  const tensorflow::GraphDef& graph = context.item.graph;
  int64_t lists = 0;
  for (const LoopCut& loop : cut.loops) {
    lists += std::count(loop.dropped.begin(), loop.dropped.end(), true);
    const auto trips = static_cast<double>(std::max<int64_t>(1, loop.trips));
    std::set<int> said;
    for (size_t c = 0; c < loop.loop.chains.size(); ++c) {
      const TensorRef pushed = index[loop.loop.chains[c].push].inputs[1];
      if (!loop.dropped[c] || !loop.runs_again[pushed.node] || !said.insert(pushed.node).second) continue;
      Decision decision;
      decision.kind = "recompute";
      decision.op = graph.node(pushed.node).name();
      decision.op_type = graph.node(pushed.node).op();
      const NodeFigures& figures = context.facts.sizes.Of(decision.op);
      for (const TensorSize& output : figures.outputs) {
        decision.tensor_bytes += static_cast<int64_t>(static_cast<double>(output.bytes) * trips);
      }
      decision.cost_us = figures.cost_us * trips;
      if (figures.profiled) decision.priced_by = "profile";
      decision.before = graph.node(loop.loop.chains[c].pop).name();
      report->decisions.push_back(std::move(decision));
    }
  }
  const auto loops = static_cast<int64_t>(cut.loops.size());
  const std::string bodies = loops == 1 ? "a loop's body" : "the bodies of " + Counted(loops, "loop");
  report->reason += "; " + Counted(lists, "tensor") + " of " + bodies + (lists == 1 ? " is" : " are") +
                    " computed again in " + (loops == 1 ? "its gradient" : "their gradients") + ", in each iteration";
}

bool Short(const Report& report) {
  return report.status == ReportStatus::kRewritten && report.peak_after_bytes > report.budget_bytes;
}

class LoopPass {
 public:
  LoopPass(const DeviceContext& context, tensorflow::GraphDef* output, Report* report)
      : context_(context),
        output_(*output),
        report_(*report),
        blank_(*report),
        models_(static_cast<std::ptrdiff_t>(context.facts.models.size())) {}

  bool Run() {
    Options plain = context_.options;
    plain.strict = false;  // before all has been tried
    DeviceContext first = With(plain, context_.item, context_.stages, context_.account);
    first.note_as_it_came = &came_;
    tensorflow::GraphDef graph;
    const bool changed = RunDevicePass(first, &graph, &report_);
    const bool better = Wanted() && TryCutsIfPossible();
    if (better || !context_.options.strict || report_.status != ReportStatus::kInfeasible) {
      if (changed && !better) output_.Swap(&graph);
      return changed || better;
    }
    // To fail is the last thing.
    std::vector<std::pair<std::string, double>> seconds = std::move(report_.stage_seconds);
    report_ = blank_;
    report_.stage_seconds = std::move(seconds);
    return RunDevicePass(context_, &output_, &report_);
  }

 private:
  DeviceContext With(const Options& options, const grappler::GrapplerItem& item, StageWatch& stages,
                     PlanAccount& account) const {
    return {options, context_.cluster, item, context_.threads, context_.device, context_.facts, stages, account};
  }

  bool Least() const { return context_.options.memory_budget.kind == Budget::Kind::kMin; }
  double Activations() const { return static_cast<double>(report_.peak_before_bytes - report_.resident_bytes); }

  // Is the step to be looked at again, after its own plan?
  bool Wanted() const {
    if (!context_.options.recompute || came_.imported.graph.ops.empty()) return false;
    // Who says what becomes of tensors says it of those in lists, too.
    if (HintMarks(context_.item.graph, context_.options.hints).any()) return false;
    switch (report_.status) {
      case ReportStatus::kInfeasible:
        return true;
      case ReportStatus::kFits:
        return Least();
      case ReportStatus::kRewritten:
        return Least() || Short(report_) || report_.predicted_time_overhead > kMuchTime;
      default:
        return false;
    }
  }

  // What goes wrong with variants is no reason to do without the step's own plan.
  bool TryCutsIfPossible() {
    std::string problem;
    try {
      return TryCuts();
    } catch (const std::exception& e) {
      problem = e.what();
    }
    report_.warnings.push_back("no lists of loops are computed again: " + problem);
    return false;
  }

  bool TryCuts() {
    LoopStep step;
    context_.Enter("loops");
    const absl::Status status = FindCuts(context_, report_.device, &step);
    if (!status.ok() || step.cuts.empty()) return false;
    const bool met = report_.status == ReportStatus::kRewritten && !Least() && !Short(report_);
    const ListCut& most = step.cuts.back();
    if (static_cast<double>(most.bytes) < (met ? kMuchMemory : kLittleMemory) * Activations()) return false;
    bool better = false;
    for (const ListCut* cut : ToTry(step.cuts)) {
      if (Try(*cut, step)) {
        better = true;
        if (!Least() && !Short(report_)) break;
      }
    }
    return better;
  }

  // What the lists are short of if nothing else helps; and then what saves more and more.
  std::vector<const ListCut*> ToTry(const std::vector<ListCut>& cuts) const {
    if (Least()) return {&cuts.back()};
    const int64_t need = report_.peak_before_bytes - report_.budget_bytes;
    size_t first = 0;
    while (first + 1 < cuts.size() && cuts[first].bytes < need) ++first;
    std::vector<const ListCut*> chosen;
    for (size_t i = first; i < cuts.size() && static_cast<int>(chosen.size()) + 1 < kMostTried; ++i) {
      chosen.push_back(&cuts[i]);
    }
    if (chosen.back() != &cuts.back()) chosen.push_back(&cuts.back());
    return chosen;
  }

  // Is the plan for the variant better than what there is? Then it takes its place.
  bool Try(const ListCut& cut, const LoopStep& step) {
    grappler::GrapplerItem variant = context_.item.WithGraph(tensorflow::GraphDef(context_.item.graph));
    const absl::Status applied = Apply(context_, cut, step.index, came_.imported.sum_waits, &variant);
    if (!applied.ok()) {
      report_.warnings.push_back("a way to compute lists of loops again was given up: " +
                                 std::string(applied.message()));
      return false;
    }
    Options options = context_.options;
    options.strict = false;
    // A share is one of what the step takes as it came.
    if (options.memory_budget.kind == Budget::Kind::kPercent) {
      options.memory_budget.kind = Budget::Kind::kBytes;
      options.memory_budget.bytes = report_.budget_bytes;
    }
    Report report = blank_;
    report.nodes_before = report_.nodes_before;
    StageWatch stages(context_.deadline(), &report);
    PlanAccount account(&context_.facts.work, &report);
    DeviceContext context = With(options, variant, stages, account);
    context.as_it_came = &came_;
    // Nor does it follow the plan for what it is a variant of.
    std::vector<Model>& models = context_.facts.models;
    std::vector<Model> other(std::make_move_iterator(models.begin() + models_), std::make_move_iterator(models.end()));
    models.erase(models.begin() + models_, models.end());
    tensorflow::GraphDef graph;
    const bool changed = RunDevicePass(context, &graph, &report);
    const bool planned = changed && report.status == ReportStatus::kRewritten;
    if (planned) CountAllIterations(cut, step, &report);
    if (planned && Better(report)) {
      Describe(context_, cut, step.index, &report);
      report.budget = report_.budget;
      AddWork(&report);
      report_ = std::move(report);
      output_.Swap(&graph);
      return true;
    }
    models.erase(models.begin() + models_, models.end());
    std::move(other.begin(), other.end(), std::back_inserter(models));
    if (!planned) NoteLeast(std::move(report));
    return false;
  }

  // The plan for the variant says what it adds to one iteration of each loop.
  void CountAllIterations(const ListCut& cut, const LoopStep& step, Report* report) const {
    const double again = step.total_us > 0 ? cut.cost_us / step.total_us : 0;
    report->step_time_us = report_.step_time_us;
    report->predicted_time_overhead = (1 + report->predicted_time_overhead) * (1 + again) - 1;
    report->time_overhead_bound = 0;  // it is that of the variant
  }

  // A variant that cannot meet the budget either may tell of a lower one that it could.
  void NoteLeast(Report report) {
    const bool both = report.status == ReportStatus::kInfeasible && report_.status == ReportStatus::kInfeasible;
    if (!both || report.min_budget_bytes >= report_.min_budget_bytes) return;
    report.budget = report_.budget;
    AddWork(&report);
    report_ = std::move(report);
  }

  // Of what was tried before.
  void AddWork(Report* report) const {
    report->planner_work += report_.planner_work;
    report->planner_seconds += report_.planner_seconds;
    for (const auto& [stage, seconds] : report_.stage_seconds) {
      auto& all = report->stage_seconds;
      const auto same =
          std::find_if(all.begin(), all.end(), [&name = stage](const auto& one) { return one.first == name; });
      if (same == all.end()) {
        all.emplace_back(stage, seconds);
      } else {
        same->second += seconds;
      }
    }
  }

  bool Better(const Report& other) const {
    if (Least()) {
      const auto now = static_cast<double>(report_.peak_after_bytes - report_.resident_bytes);
      return static_cast<double>(other.peak_after_bytes - other.resident_bytes) < now * (1 - kLittleMemory);
    }
    if (report_.status != ReportStatus::kRewritten) return true;
    if (Short(report_) || Short(other)) return other.peak_after_bytes < report_.peak_after_bytes;
    return other.predicted_time_overhead < report_.predicted_time_overhead;
  }

  const DeviceContext& context_;
  tensorflow::GraphDef& output_;
  Report& report_;
  const Report blank_;
  const std::ptrdiff_t models_;  // of devices planned before this one
  StepAsItCame came_;
};

}  // namespace

bool RunLoopPass(const DeviceContext& context, tensorflow::GraphDef* output, Report* report) {
  if (!PopsLists(context.item.graph)) return RunDevicePass(context, output, report);
  return LoopPass(context, output, report).Run();
}

}  // namespace lms
