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
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/import/hints.h"
#include "cc/tf/loops/check_loops.h"
#include "cc/tf/loops/check_segments.h"
#include "cc/tf/loops/kept_lists.h"
#include "cc/tf/loops/recompute_in_loops.h"
#include "cc/tf/loops/recompute_segments.h"
#include "cc/tf/loops/segments.h"
#include "cc/tf/loops/share_rows.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/device_pass.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/stock/node_wait.h"
#include "tensorflow/core/framework/function.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

// Choices that are planned, at most: from the first that may be enough to the one that saves most.
constexpr int kMostTried = 4;
// Where the step's own plan meets the budget, the share of time that it adds from which another way is looked for, and
// the share of the activations that lists have to hold for it to be one.
constexpr double kMuchTime = 0.02;
constexpr double kMuchMemory = 0.1;
// Of the bytes that lists can hold less: from which share on a way is tried before those that save more.
constexpr double kNearlyAll = 0.9;
// Of the least peak: a lower one by less is not worth the ops that run again.
constexpr double kLittleMemory = 0.01;

bool HasLists(const tensorflow::GraphDef& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [](const auto& node) { return node.op() == "TensorListPopBack" || node.op() == kListOfRowsOp; });
}

// The step, where lists are chosen from.
struct LoopStep {
  GraphIndex index;
  std::vector<ListCut> cuts;
  std::vector<LoopSegments> segments;
  int64_t rows_bytes = 0;  // that lists of rows need not take (share_rows.h)
  double total_us = 0;     // of all ops, in all iterations
};

// A way to do without lists: the cut's, and what is left of them a segment at a time. Each has lists of rows share what
// they are made of; one does nothing else.
struct LoopWay {
  const ListCut* cut = nullptr;
  bool segments = false;
  int64_t bytes = 0;  // that lists hold less; of both together those of one of them
  double cost_us = 0;
};

absl::Status Types(const tensorflow::GraphDef& graph, const GraphIndex& index, std::vector<NodeTypes>* types) {
  const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), graph.library());
  return ReadNodeTypes(graph, index, library, types);
}

absl::Status ReadLoopStep(const DeviceContext& context, const std::string& device, LoopStep* step) {
  absl::Status status = step->index.Build(context.item, context.deadline());
  if (!status.ok()) return status;
  std::vector<NodeTypes> types;
  status = Types(context.item.graph, step->index, &types);
  if (!status.ok()) return status;
  const TensorSizes& sizes = context.facts.sizes;
  step->cuts = FindListCuts(context.item, step->index, sizes, types, device, context.deadline());
  step->segments = FindLoopSegments(context.item.graph, step->index, sizes, types, device, context.deadline());
  tensorflow::GraphDef shared = context.item.graph;
  step->rows_bytes = ShareRows(step->index, sizes, types, device, &shared);
  if (step->cuts.empty() && step->segments.empty()) return status;
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

// The step with one of the ways gone.
class Variant {
 public:
  Variant(const DeviceContext& context, const LoopStep& step, const std::string& device)
      : context_(context),
        step_(step),
        device_(device),
        item_(context.item.WithGraph(tensorflow::GraphDef(context.item.graph))) {}

  const grappler::GrapplerItem& item() const { return item_; }
  double cost_us() const { return cost_us_; }

  absl::Status Apply(const LoopWay& way, const std::vector<NodeWait>& waits) {
    absl::Status status;
    if (way.cut != nullptr) status = ApplyCut(*way.cut, waits);
    if (status.ok() && way.segments) status = ApplySegments(waits);
    return status.ok() ? ApplyRows() : status;
  }

  // One decision for each op whose result a list held and that now runs again in the gradient of its loop; times and
  // bytes are those of all iterations.
  void Describe(Report* report) const {
    if (rows_bytes_ > 0) {
      report->reason +=
          "; lists of " + FormatBytes(rows_bytes_) + " are the rows of what they are made of, in its memory";
    }
    if (how_.empty()) return;
    for (const Decision& decision : decisions_) report->decisions.push_back(decision);
    const auto loops = static_cast<int64_t>(loops_.size());
    const std::string bodies = loops == 1 ? "a loop's body" : "the bodies of " + Counted(loops, "loop");
    report->reason += "; " + Counted(lists_, "tensor") + " of " + bodies + (lists_ == 1 ? " is" : " are") +
                      " computed again in " + (loops == 1 ? "its gradient" : "their gradients") + ", " + how_;
  }

 private:
  absl::Status ApplyCut(const ListCut& cut, const std::vector<NodeWait>& waits) {
    const tensorflow::GraphDef came = item_.graph;
    absl::Status status = RecomputeInLoops(cut, step_.index, &item_.graph);
    if (!status.ok()) return status;
    std::set<int> regions;
    for (const LoopCut& loop : cut.loops) {
      Note(loop.loop, step_.index, &regions);
      Decide(loop.loop.chains, loop.dropped, loop.runs_again, step_.index, loop.trips);
    }
    how_ = "in each iteration";
    cost_us_ += cut.cost_us;
    HoldSums(waits, regions, step_.index);
    GraphIndex changed;
    status = Indexed(&changed);
    return status.ok() ? CheckLoops(came, step_.index, item_.graph, changed, context_.deadline()) : status;
  }

  absl::Status ApplySegments(const std::vector<NodeWait>& waits) {
    const tensorflow::GraphDef came = item_.graph;
    GraphIndex index;
    absl::Status status = Indexed(&index);
    if (!status.ok()) return status;
    std::vector<NodeTypes> types;
    status = Types(came, index, &types);
    if (!status.ok()) return status;
    const std::vector<LoopSegments> all =
        FindLoopSegments(came, index, context_.facts.sizes, types, device_, context_.deadline());
    if (all.empty()) return absl::NotFoundError("no loop holds less by segments");
    status = RecomputeSegments(all, index, &item_.graph);
    if (!status.ok()) return status;
    std::set<int> regions;
    int64_t shortest = all.front().length;
    int64_t longest = shortest;
    for (const LoopSegments& segments : all) {
      Note(segments.loop, index, &regions);
      shortest = std::min(shortest, segments.length);
      longest = std::max(longest, segments.length);
      Decide(segments.loop.chains, std::vector<bool>(segments.loop.chains.size(), true), segments.runs_again, index,
             segments.trips);
      cost_us_ += segments.cost_us;
    }
    how_ = (shortest < longest ? std::to_string(shortest) + " to " : "") + Counted(longest, "iteration") + " at a time";
    HoldSums(waits, regions, index);
    GraphIndex changed;
    status = Indexed(&changed);
    return status.ok() ? CheckSegments(came, index, item_.graph, changed, context_.deadline()) : status;
  }

  absl::Status ApplyRows() {
    GraphIndex index;
    absl::Status status = Indexed(&index);
    if (!status.ok()) return status;
    std::vector<NodeTypes> types;
    status = Types(item_.graph, index, &types);
    if (!status.ok()) return status;
    rows_bytes_ = ShareRows(index, context_.facts.sizes, types, device_, &item_.graph);
    return CheckGraph(item_.graph);
  }

  absl::Status Indexed(GraphIndex* index) const {
    const absl::Status status = CheckGraph(item_.graph);
    return status.ok() ? index->Build(item_, context_.deadline()) : status;
  }

  // `index`, of which the loop's numbers are, knows the nodes of the graph as it came by the same numbers.
  void Note(const GradientLoop& loop, const GraphIndex& index, std::set<int>* regions) {
    loops_.insert(index.frame(loop.forward).loop_cond);
    regions->insert({loop.forward_region, loop.backward_region});
  }

  // The sums of the bodies keep the order that they have as the step came.
  void HoldSums(const std::vector<NodeWait>& waits, const std::set<int>& regions, const GraphIndex& index) {
    for (const NodeWait& wait : waits) {
      if (regions.count(index[wait.node].region) == 0) continue;
      tensorflow::NodeDef* const node = item_.graph.mutable_node(wait.node);
      // Pushes and pops that are gone hold nothing.
      if (node->op() == "NoOp" || item_.graph.node(wait.waits_for).op() == "NoOp") continue;
      const std::string control = "^" + item_.graph.node(wait.waits_for).name();
      if (std::find(node->input().begin(), node->input().end(), control) == node->input().end()) {
        node->add_input(control);
      }
    }
  }

  void Decide(const std::vector<ListChain>& chains, const std::vector<bool>& dropped,
              const std::vector<bool>& runs_again, const GraphIndex& index, int64_t trips) {
    const auto times = static_cast<double>(std::max<int64_t>(1, trips));
    std::set<int> said;
    for (size_t c = 0; c < chains.size(); ++c) {
      if (!dropped[c]) continue;
      ++lists_;
      const TensorRef pushed = index[chains[c].push].inputs[1];
      if (!runs_again[pushed.node] || !said.insert(pushed.node).second) continue;
      Decision decision;
      decision.kind = "recompute";
      decision.op = item_.graph.node(pushed.node).name();
      decision.op_type = item_.graph.node(pushed.node).op();
      const NodeFigures& figures = context_.facts.sizes.Of(decision.op);
      for (const TensorSize& output : figures.outputs) {
        decision.tensor_bytes += static_cast<int64_t>(static_cast<double>(output.bytes) * times);
      }
      decision.cost_us = figures.cost_us * times;
      if (figures.profiled) decision.priced_by = "profile";
      decision.before = item_.graph.node(chains[c].pop).name();
      decisions_.push_back(std::move(decision));
    }
  }

  const DeviceContext& context_;
  const LoopStep& step_;
  const std::string& device_;
  grappler::GrapplerItem item_;
  std::vector<Decision> decisions_;
  std::set<int> loops_;  // by their LoopCond
  int64_t lists_ = 0;
  int64_t rows_bytes_ = 0;
  std::string how_;
  double cost_us_ = 0;
};

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

  bool Least() const { return BudgetOf(context_.options, report_.device).kind == Budget::Kind::kMin; }
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
    const absl::Status status = ReadLoopStep(context_, report_.device, &step);
    if (!status.ok()) return false;
    const bool met = report_.status == ReportStatus::kRewritten && !Least() && !Short(report_);
    const std::vector<LoopWay> ways = WaysOf(step);
    if (ways.empty()) return false;
    const auto most = std::max_element(ways.begin(), ways.end(),
                                       [](const LoopWay& a, const LoopWay& b) { return a.bytes < b.bytes; });
    if (static_cast<double>(most->bytes) < (met ? kMuchMemory : kLittleMemory) * Activations()) return false;
    bool better = false;
    for (const LoopWay& way : ToTry(ways, step)) {
      if (Try(way, step)) {
        better = true;
        if (!Least() && !Short(report_)) break;
      }
    }
    return better;
  }

  // From the one that takes the least time; last, both together.
  static std::vector<LoopWay> WaysOf(const LoopStep& step) {
    std::vector<LoopWay> ways;
    const int64_t rows = step.rows_bytes;
    if (rows > 0) ways.push_back({nullptr, false, rows, 0});
    for (const ListCut& cut : step.cuts) ways.push_back({&cut, false, rows + cut.bytes, cut.cost_us});
    if (step.segments.empty()) return ways;
    LoopWay segments{nullptr, true, rows, 0};
    for (const LoopSegments& loop : step.segments) {
      segments.bytes += loop.bytes;
      segments.cost_us += loop.cost_us;
    }
    const auto later = [](double cost, const LoopWay& way) { return cost < way.cost_us; };
    ways.insert(std::upper_bound(ways.begin(), ways.end(), segments.cost_us, later), segments);
    if (step.cuts.empty()) return ways;
    const ListCut& most = step.cuts.back();
    ways.push_back({&most, true, std::max(rows + most.bytes, segments.bytes), most.cost_us + segments.cost_us});
    return ways;
  }

  // What the lists are short of if nothing else helps; and then what saves more and more.
  std::vector<LoopWay> ToTry(const std::vector<LoopWay>& ways, const LoopStep& step) const {
    // Each of the kinds at its least.
    std::vector<LoopWay> least;
    const auto is_least = [&](const LoopWay& way) {
      return ways.size() == 1 || way.segments || (way.cut != nullptr && way.cut == &step.cuts.back());
    };
    std::copy_if(ways.begin(), ways.end(), std::back_inserter(least), is_least);
    if (Least()) return least;
    std::vector<LoopWay> chosen;
    // Iterations that no longer run ahead hold less, too, which is in nobody's bytes.
    const auto most = static_cast<int64_t>(kNearlyAll * static_cast<double>(ways.back().bytes));
    const int64_t need = std::min(most, report_.peak_before_bytes - report_.budget_bytes);
    size_t first = 0;
    while (first + 1 < ways.size() && ways[first].bytes < need) ++first;
    for (size_t i = first; i < ways.size() && static_cast<int>(chosen.size()) + 1 < kMostTried; ++i) {
      chosen.push_back(ways[i]);
    }
    // What holds at the least must hold as a budget, too.
    for (const LoopWay& way : least) {
      const bool is_there = std::any_of(chosen.begin(), chosen.end(), [&way](const LoopWay& other) {
        return other.cut == way.cut && other.segments == way.segments;
      });
      if (!is_there) chosen.push_back(way);
    }
    return chosen;
  }

  // Is the plan for the variant better than what there is? Then it takes its place.
  bool Try(const LoopWay& way, const LoopStep& step) {
    Variant variant(context_, step, report_.device);
    const absl::Status applied = variant.Apply(way, came_.imported.bit_waits);
    if (!applied.ok()) {
      if (!absl::IsNotFound(applied)) {
        report_.warnings.push_back("a way to compute lists of loops again was given up: " +
                                   std::string(applied.message()));
      }
      return false;
    }
    Options options = context_.options;
    options.strict = false;
    options.memory_budget = BudgetOf(context_.options, report_.device);
    options.device_budgets.clear();
    // A share is one of what the step takes as it came.
    if (options.memory_budget.kind == Budget::Kind::kPercent) {
      options.memory_budget.kind = Budget::Kind::kBytes;
      options.memory_budget.bytes = report_.budget_bytes;
    }
    Report report = blank_;
    report.nodes_before = report_.nodes_before;
    StageWatch stages(context_.deadline(), &report);
    PlanAccount account(&context_.facts.work, &report);
    DeviceContext context = With(options, variant.item(), stages, account);
    context.as_it_came = &came_;
    // Nor does it follow the plan for what it is a variant of.
    std::vector<Model>& models = context_.facts.models;
    std::vector<Model> other(std::make_move_iterator(models.begin() + models_), std::make_move_iterator(models.end()));
    models.erase(models.begin() + models_, models.end());
    tensorflow::GraphDef graph;
    const bool changed = RunDevicePass(context, &graph, &report);
    const bool planned = changed && report.status == ReportStatus::kRewritten;
    if (planned) CountAllIterations(variant.cost_us(), step, &report);
    if (planned && Better(report)) {
      variant.Describe(&report);
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
  void CountAllIterations(double cost_us, const LoopStep& step, Report* report) const {
    const double again = step.total_us > 0 ? cost_us / step.total_us : 0;
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
  if (!HasLists(context.item.graph)) return RunDevicePass(context, output, report);
  return LoopPass(context, output, report).Run();
}

}  // namespace lms
