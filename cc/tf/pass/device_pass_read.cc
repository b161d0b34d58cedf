#include <atomic>
#include <exception>
#include <string>
#include <vector>

#include "cc/core/base/bytes.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/base/words.h"
#include "cc/core/graph/node_names.h"
#include "cc/core/report/report_store.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/import/assumed_sizes.h"
#include "cc/tf/import/region_choice.h"
#include "cc/tf/pass/device_pass.h"
#include "cc/tf/pass/profile_choice.h"
#include "cc/tf/predict/execution.h"

namespace lms {
namespace {

constexpr size_t kMostRecordedLines = 8;
constexpr char kRecorded[] = "; the step records what they are, and its next call is planned with that";

std::atomic<int64_t> least_activation_bytes{kLeastActivationBytes};

}  // namespace

DevicePass::DevicePass(const Options& options, tensorflow::grappler::Cluster* cluster,
                       const tensorflow::grappler::GrapplerItem& item, int threads, const std::string& device,
                       StepFacts* facts, StageWatch* stages, Report* report)
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

bool DevicePass::Run(tensorflow::GraphDef* output) {
  const bool changed = RunStages(output);
  if (report_.status == ReportStatus::kFailed) report_.assumption.clear();
  if (!report_.assumption.empty()) report_.reason = "if " + report_.assumption + ": " + report_.reason;
  if (report_.status != ReportStatus::kSkipped && report_.status != ReportStatus::kFailed) {
    Detail([this] { FinishDetails(); });
  }
  return changed;
}

bool DevicePass::RunStages(tensorflow::GraphDef* output) {
  if (device_.empty()) {
    for (const auto& node : item_.graph.node()) {
      if (IsOwnName(node.name())) return Skip("already rewritten");
    }
  }
  if (!Read()) return false;
  if (imported_.graph.ops.empty()) return Skip("no op of the graph runs");
  Measure();
  if (RelativeBudget() && !marks_.any() &&
      report_.peak_before_bytes - report_.resident_bytes < LeastActivationBytes()) {
    return Skip("too small for a relative budget: its activations peak at " +
                FormatBytes(report_.peak_before_bytes - report_.resident_bytes) + hidden_);
  }
  DumpGraph();
  if (!OverBudget() && !marks_.any()) {
    return Fits();
  }
  return PlanAndRewrite(output);
}

bool DevicePass::Fits() {
  report_.status = ReportStatus::kFits;
  report_.reason = "the predicted peak of " + FormatBytes(report_.peak_before_bytes) + " is within the budget of " +
                   FormatBytes(report_.budget_bytes) + hidden_;
  NoteHints(0);
  return false;
}

bool DevicePass::Skip(const std::string& reason) {
  report_.status = ReportStatus::kSkipped;
  report_.reason = reason;
  return false;
}

bool DevicePass::Fail(const absl::Status& status) {
  report_.status = ReportStatus::kFailed;
  report_.reason = report_.stage + ": " + std::string(status.message());
  return false;
}

bool DevicePass::Read() {
  Enter("index");
  absl::Status status = index_.Build(item_, stages_.deadline());
  if (!status.ok()) return Fail(status);
  Enter("sizes");
  const Dimensions& dimensions = facts_.dimensions;
  report_.sizes = dimensions.lines();
  if (!dimensions.problems().empty()) return Fail(absl::InvalidArgumentError(dimensions.problems().front()));
  if (!facts_.inferred) {
    const auto watch = [this](bool evaluating) { Enter(evaluating ? "shapes" : "sizes"); };
    status = sizes_.Infer(stages_.deadline(), watch);
    if (status.ok()) status = sizes_.InferLists(index_, stages_.deadline(), watch);
    if (!status.ok()) return Fail(status);
    facts_.inferred = true;
  }
  NoteRecorded();
  Enter("import");
  status = ImportGraph(item_, index_, sizes_, &imported_, stages_.deadline(), device_);
  if (!status.ok()) return Fail(status);
  marks_ = HintMarks(item_.graph, options_.hints);
  report_.device = imported_.device;
  report_.other_devices = imported_.other_devices;
  report_.nodes_before = report_.nodes_after = item_.graph.node_size();
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

void DevicePass::NoteAssumptions() {
  const int64_t activations = report_.peak_before_bytes - report_.resident_bytes;
  report_.open_sizes = OpenSizes(sizes_.OpenNodes(), imported_, activations);
  if (const std::string unranked = UnrankedWarning(imported_); !unranked.empty()) {
    const bool recorded = !options_.record_sizes || !sizes_.RecordedLines().empty();
    report_.warnings.push_back(unranked + (recorded ? "" : kRecorded));
  }
  if (options_.unknown_dim.everywhere != 0) return;
  // What matters little now, and is recorded, is told when it turns out to matter.
  if (options_.record_sizes && report_.assumption.empty()) return;
  const Dimensions& dimensions = facts_.dimensions;
  const std::string warning =
      AssumptionWarning(imported_, sizes_.assumptions(), dimensions.rest(), dimensions.strange());
  if (warning.empty()) return;
  report_.warnings.insert(report_.warnings.begin(), warning + (options_.record_sizes ? kRecorded : ""));
}

void DevicePass::NoteRecorded() {
  std::vector<std::string> lines = sizes_.RecordedLines();
  const size_t more = lines.size() > kMostRecordedLines ? lines.size() - kMostRecordedLines : 0;
  lines.resize(lines.size() - more);
  if (more > 0) lines.push_back(std::to_string(more) + " more (earlier steps)");
  report_.sizes.insert(report_.sizes.end(), lines.begin(), lines.end());
}

void DevicePass::NoteHiddenOps() {
  if (imported_.hidden_ops == 0) return;
  const std::string ops = Counted(imported_.hidden_ops, "op");
  const bool one = imported_.hidden_ops == 1;
  hidden_ = ", not counting what " + ops + " in loops " + (one ? "holds" : "hold");
  report_.warnings.push_back(ops + (one ? " runs" : " run") + " inside loops that hold tensor lists of unknown size (" +
                             imported_.hidden_example +
                             " for one): what is held there is not predicted, and nothing of it is recomputed");
}

void DevicePass::NoteUnseenCalls() {
  const std::string calls = UnseenCalls(item_, index_);
  if (calls.empty()) return;
  hidden_ += ", not counting " + calls;
  report_.warnings.push_back("of " + calls + ", lms sees nothing: what is held there is neither predicted nor lowered");
}

void DevicePass::Measure() {
  Enter("costs");
  EstimateCosts();
  Enter("liveness");
  RunRecord record;
  const MemoryProfile profile = PredictMemory(item_.graph, index_, imported_, threads_, stages_.deadline(), &record);
  report_.resident_bytes = profile.resident_bytes;
  report_.peak_before_bytes = report_.peak_after_bytes = profile.peak_bytes;
  report_.timeline_before = profile.Timeline();
  if (options_.unknown_dim.everywhere == 0) {
    report_.assumption = AssumptionAtPeak(imported_, profile, record, sizes_.assumptions(), facts_.dimensions.rest());
  }
  NoteAssumptions();
  Detail([&] { details_.Before(imported_, profile, record); });
  worst_bytes_ = PeakAtWorst(item_.graph, index_, imported_, threads_, profile, stages_.deadline());
  Enter("budget");
  const ResolvedBudget budget =
      ResolveBudget(options_.memory_budget, profile.resident_bytes, profile.peak_bytes, imported_.device, cluster_);
  report_.budget_bytes = budget.bytes;
  if (!budget.source.empty()) report_.budget += " (" + budget.source + ")";
}

absl::Status DevicePass::ImportAgain() {
  const bool least = options_.memory_budget.kind == Budget::Kind::kMin;
  const std::vector<int> regions = RegionsAbove(item_.graph, index_, imported_, least ? 0 : Limit());
  const bool hold = index_.frames() > 1 && options_.schedule;
  if (!hold && regions.size() == imported_.regions.size()) return absl::OkStatus();
  const absl::Status status =
      ImportRegions(item_, index_, sizes_, regions, hold, &imported_, stages_.deadline(), device_);
  if (!status.ok()) return status;
  ImportCosts(item_, sizes_, swap_.link, &imported_);
  DumpGraph();
  return status;
}

void DevicePass::EstimateCosts() {
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

void DevicePass::NoteProfiledShare() {
  double profiled_us = 0;
  for (const MemOp& op : imported_.graph.ops) profiled_us += sizes_.Of(op.name).profiled ? op.cost_us : 0;
  const double total_us = imported_.graph.TotalCostUs();
  report_.profiled_share = total_us > 0 ? profiled_us / total_us : 0;
}

void DevicePass::Dump(const std::function<std::string()>& write) {
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

void DevicePass::DumpGraph() {
  Dump([this] {
    report_.sequence = ReportStore::Global().NextSequence();  // which the files' names hold
    return DumpFile().Write(imported_.graph);
  });
}

bool DevicePass::OverBudget() const {
  switch (options_.memory_budget.kind) {
    case Budget::Kind::kMin:
      return true;
    case Budget::Kind::kAuto:
      return worst_bytes_ > Limit();
    default:
      return worst_bytes_ > Allowed();
  }
}

int64_t LeastActivationBytes() { return least_activation_bytes.load(); }

void SetLeastActivationBytes(int64_t bytes) { least_activation_bytes.store(bytes); }

bool DevicePass::RelativeBudget() const {
  const Budget::Kind kind = options_.memory_budget.kind;
  return kind == Budget::Kind::kPercent || kind == Budget::Kind::kMin;
}

int64_t DevicePass::Allowed() const {
  const int64_t activations = report_.budget_bytes - report_.resident_bytes;
  if (options_.observed_excess <= 1 || activations <= 0) return report_.budget_bytes;
  return report_.resident_bytes + static_cast<int64_t>(static_cast<double>(activations) / options_.observed_excess);
}

}  // namespace lms
