#include "cc/tf/pass/optimizer.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <utility>

#include "cc/core/base/fault_injection.h"
#include "cc/core/base/words.h"
#include "cc/core/options/session_notes.h"
#include "cc/core/report/earlier_plans.h"
#include "cc/core/report/planning_now.h"
#include "cc/core/report/report_store.h"
#include "cc/core/report/stage_watch.h"
#include "cc/tf/graph/graph_bounds.h"
#include "cc/tf/graph/graph_check.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/keep_prepared.h"
#include "cc/tf/pass/step_pass.h"
#include "cc/tf/pass/time_ops.h"
#include "cc/tf/predict/execution.h"
#include "cc/tf/runtime/change_marks.h"
#include "cc/tf/runtime/size_record.h"
#include "cc/tf/stock/kept_state.h"
#include "cc/tf/stock/sum_order.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"
#include "tensorflow/core/util/env_var.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string Join(const std::vector<std::string>& texts, const std::string& between) {
  std::string joined;
  for (const std::string& text : texts) joined += (joined.empty() ? "" : between) + text;
  return joined;
}

// How many threads share an op, where that was set; else 0.
int OpThreads(const tensorflow::ConfigProto& config) {
  if (config.intra_op_parallelism_threads() > 0) return config.intra_op_parallelism_threads();
  int64_t threads = 0;
  const bool read = tensorflow::ReadInt64FromEnvVar("TF_NUM_INTRAOP_THREADS", 0, &threads).ok();
  return read && threads > 0 ? static_cast<int>(threads) : 0;
}

// What TensorFlow calls each step of each session.
constexpr char kSessionsStep[] = "tf_graph";

// When a share of its own peak cannot be met, a small function beside the training step is no news, nor is one in which
// there is nothing to recompute (`relative`: that is what was asked).
constexpr int64_t kNewsBytes = 16 << 20;

// Does it "fit" by a margin that what was assumed or left out may well eat up, or as nothing is known of the device?
bool MayNotFit(const Report& report) {
  constexpr int64_t kEasily = 32;  // an assumed batch of 32 may be one of 1,024
  const int64_t activations = report.peak_before_bytes - report.resident_bytes;
  if (report.status != ReportStatus::kFits || activations <= 0) return false;
  if (IsUnlimited(report.budget_bytes)) return activations >= kNewsBytes;
  return activations > (report.budget_bytes - report.resident_bytes) / kEasily;
}

// What the reason begins with where nothing that Grappler makes of the graph is run, with lms or without.
constexpr char kDropped[] = "TensorFlow drops the whole result of its graph optimizers: ";

bool BeginsWith(const std::string& text, const char* words) { return text.rfind(words, 0) == 0; }

void Log(const Report& report, bool relative) {
  const std::string line = "lms: " + report.function + ": " + StatusName(report.status) + ": " + report.reason;
  switch (report.status) {
    case ReportStatus::kInfeasible:
      if (relative && (report.peak_before_bytes - report.resident_bytes < kNewsBytes ||
                       report.min_budget_bytes >= report.peak_before_bytes)) {
        VLOG(1) << line;
        return;
      }
      LOG(WARNING) << line;
      break;
    case ReportStatus::kFailed:
      LOG(WARNING) << line;
      break;
    default:
      if (BeginsWith(report.reason, kTooMuch) || BeginsWith(report.reason, kDropped)) {
        LOG(WARNING) << line;
      } else {
        VLOG(1) << line;
      }
  }
  for (const std::string& warning : report.warnings) {
    if (report.status == ReportStatus::kRewritten || report.status == ReportStatus::kInfeasible || MayNotFit(report)) {
      LOG(WARNING) << "lms: " << report.function << ": " << warning;
    }
  }
}

// Does Grappler's memory optimizer swap on GPUs, before lms and without a budget?
bool OwnSwapperIsOn(const tensorflow::ConfigProto& config) {
  using tensorflow::RewriterConfig;
  switch (config.graph_options().rewrite_options().memory_optimization()) {
    case RewriterConfig::DEFAULT_MEM_OPT:
      return config.graph_options().optimizer_options().global_jit_level() <= tensorflow::OptimizerOptions::DEFAULT;
    case RewriterConfig::SWAPPING_HEURISTICS:
    case RewriterConfig::HEURISTICS:
      return true;
    default:
      return false;
  }
}

void TakeText(const char* name, OptionMap* map, std::string* text) {
  const auto found = map->find(name);
  if (found == map->end() || !std::holds_alternative<std::string>(found->second)) return;
  *text = std::get<std::string>(found->second);
  map->erase(found);
}

// May the step have to be planned again: for a larger batch, or because it takes more than predicted?
bool MayBePlannedAgain(const std::deque<Report>& reports) {
  return std::any_of(reports.begin(), reports.end(), [](const Report& report) {
    if (report.status == ReportStatus::kRewritten || !report.open_sizes.empty() || !report.open_loops.empty()) {
      return true;
    }
    const int64_t left = report.budget_bytes - report.resident_bytes;
    const bool near = 2 * (report.peak_before_bytes - report.resident_bytes) > left;
    return report.status == ReportStatus::kFits && (near || !report.sizes.empty());
  });
}

size_t HashOf(const OptionMap& map) {
  std::string text;
  for (const auto& [name, value] : map) {
    text += name + "=";
    if (const auto* words = std::get_if<std::string>(&value)) text += *words;
    if (const auto* whole = std::get_if<int64_t>(&value)) text += std::to_string(*whole);
    if (const auto* number = std::get_if<double>(&value)) text += std::to_string(*number);
    if (const auto* flag = std::get_if<bool>(&value)) text += *flag ? "true" : "false";
    text += '\n';
  }
  return std::hash<std::string>()(text);
}

// The stages, on the graph with its sums held to stock TensorFlow's order. False: the graph is to stay as it came.
// Why a step with such sums is left alone; of those behind branches first.
std::string NoOrderKnown(const SumOrder& sums) {
  const int count = sums.behind > 0 ? sums.behind : sums.ahead;
  const bool one = count == 1;
  const std::string behind = one ? "has a term that comes out of branches" : "have terms that come out of branches";
  const std::string ahead =
      (one ? "is in a loop" : "are in loops") + std::string(" whose iterations run ahead of one another");
  return Counted(count, "sum") + " of large tensors, which TensorFlow adds up in the order of arrival, " +
         (sums.behind > 0 ? behind : ahead) + ": any change might change the last bits";
}

bool Rewrite(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item,
             const tensorflow::ConfigProto& config, tensorflow::GraphDef* output, StageWatch* stages,
             std::deque<Report>* reports) {
  const int threads = InterOpThreads(config);
  Report* const report = &reports->back();
  report->nodes_before = report->nodes_after = item.graph.node_size();
  const std::string too_large = WhyTooLarge(item, GraphWork::kRead, GraphBounds(options.planner_seconds));
  if (!too_large.empty()) throw TooMuch(too_large);
  stages->Enter("index");
  const absl::Status sound = CheckGraph(item.graph);
  if (absl::IsFailedPrecondition(sound)) {
    report->status = ReportStatus::kSkipped;
    report->reason = kDropped + std::string(sound.message());
    return false;
  }
  if (!sound.ok()) {
    report->status = ReportStatus::kFailed;
    report->reason = report->stage + ": " + std::string(sound.message());
    return false;
  }
  stages->Enter("sums");
  // Grappler's item always has the default here.
  const int op_threads = OpThreads(config);
  const bool told = op_threads <= 0 || op_threads == item.optimization_options().intra_op_parallelism_threads;
  const bool sums_arrive = AddsInOrderOfArrival(item.graph);
  if (told && !sums_arrive) return RunStepPass(options, cluster, item, threads, output, stages, reports);
  grappler::GrapplerItem held = item;
  if (!told) held.optimization_options().intra_op_parallelism_threads = op_threads;
  if (!sums_arrive) return RunStepPass(options, cluster, held, threads, output, stages, reports);
  SumOrder sums;
  const absl::Status status = HoldSums(&held, &sums, stages->deadline());
  if (!status.ok()) {
    report->status = ReportStatus::kFailed;
    report->reason = report->stage + ": " + std::string(status.message());
    return false;
  }
  if (sums.behind > 0 || sums.ahead > 0) {
    report->status = ReportStatus::kSkipped;
    report->reason = NoOrderKnown(sums);
    return false;
  }
  const bool changed = RunStepPass(options, cluster, held, threads, output, stages, reports);
  if (changed && sums.hidden > 0) {
    reports->front().warnings.push_back(
        Counted(sums.hidden, "sum") + " across loops or branches " + (sums.hidden == 1 ? "is" : "are") +
        " added up in the order of arrival, in which the last bits may differ from those without lms");
  }
  return changed;
}

}  // namespace

OptionMap OptionsFromConfig(const tensorflow::RewriterConfig_CustomGraphOptimizer& config,
                            std::vector<std::string>* problems) {
  OptionMap map;
  for (const auto& [name, value] : config.parameter_map()) {
    switch (value.value_case()) {
      case tensorflow::AttrValue::kS:
        map[name] = std::string(value.s());
        break;
      case tensorflow::AttrValue::kI:
        map[name] = static_cast<int64_t>(value.i());
        break;
      case tensorflow::AttrValue::kF:
        map[name] = static_cast<double>(value.f());
        break;
      case tensorflow::AttrValue::kB:
        map[name] = value.b();
        break;
      default:
        problems->push_back("option '" + name + "' has a value of a type that is not accepted: use s, i, f or b");
    }
  }
  std::sort(problems->begin(), problems->end());
  return map;
}

absl::Status LmsOptimizer::Init(const tensorflow::RewriterConfig_CustomGraphOptimizer* config) {
  try {
    FailIfInjected("options");
    if (config == nullptr) return absl::OkStatus();
    OptionMap map = OptionsFromConfig(*config, &problems_);
    // No options of a step's plan.
    TakeText("_prepare", &map, &prepare_);
    TakeText("_keep_random", &map, &keep_random_);
    TakeText("_mark_changes", &map, &mark_changes_);
    TakeText("_session", &map, &session_);
    options_hash_ = HashOf(map);
    const std::vector<std::string> more = ParseOptions(map, &options_, /*internal=*/true);
    problems_.insert(problems_.end(), more.begin(), more.end());
  } catch (const std::exception& e) {
    unreadable_ = true;
    NoteProblem(e.what());
  } catch (...) {
    unreadable_ = true;
    NoteProblem("unknown exception");
  }
  return absl::OkStatus();
}

void LmsOptimizer::NoteProblem(const char* what) {
  try {
    problems_.emplace_back(what);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for words either
  }
}

// Of a session's step it is one of its own. (_tf/sessions.py makes the same name.)
std::string LmsOptimizer::NameOf(const grappler::GrapplerItem& item) const {
  constexpr size_t kShown = 3;
  if (session_.empty() || item.fetch.empty()) return item.id;
  std::vector<std::string> shown(item.fetch.begin(), item.fetch.begin() + std::min(kShown, item.fetch.size()));
  if (item.fetch.size() > kShown) shown.emplace_back("...");
  return "session.run(" + Join(shown, ", ") + ")";
}

bool LmsOptimizer::LastIteration(const std::string& item_id) {
  const auto& rewriter = config_proto_.graph_options().rewrite_options();
  const int iterations = rewriter.meta_optimizer_iterations() == tensorflow::RewriterConfig::DEFAULT_NUM_ITERS
                             ? 2
                             : static_cast<int>(rewriter.meta_optimizer_iterations());
  return ++calls_[item_id] >= iterations;
}

absl::Status LmsOptimizer::Optimize(grappler::Cluster* cluster, const grappler::GrapplerItem& item,
                                    tensorflow::GraphDef* optimized_graph) {
  try {
    FailIfInjected("before");
    if (!LastIteration(item.id)) return absl::AbortedError("lms waits for the last iteration");
    if (!prepare_.empty()) {
      KeepPrepared(prepare_, {item.WithGraph({}), item.graph.SerializeAsString(), config_proto_, cluster});
      // Nobody reads what Grappler makes of it further, but the functions that are still called come next.
      return item.graph.library().function().empty() ? absl::OkStatus() : unchanged_;
    }
    if (!options_.time_ops.empty() && problems_.empty()) return Time(cluster, item, optimized_graph);
    std::deque<Report> reports;
    bool changed = Act(cluster, item, optimized_graph, &reports);
    changed = KeepRandomState(item, reports, changed, optimized_graph);
    changed = RecordSizes(item, reports, changed, optimized_graph);
    changed = MarkChanges(item, reports, changed, optimized_graph);
    // From here on the graph is what it will be, whatever becomes of the reports.
    if (!changed) optimized_graph->Clear();
    NotePlan(item.id, reports);
    for (Report& report : reports) Tell(std::move(report));
    return changed ? absl::OkStatus() : unchanged_;
  } catch (...) {
    try {
      LOG(WARNING) << "lms: " << item.id << ": failed before it could say why: the graph stays as it is";
    } catch (...) {  // NOLINT(bugprone-empty-catch): nor can this be said
    }
  }
  optimized_graph->Clear();
  return unchanged_;
}

std::deque<Report> LmsOptimizer::Plan(grappler::Cluster* cluster, const grappler::GrapplerItem& item) {
  std::deque<Report> reports;
  try {
    tensorflow::GraphDef dropped;
    Act(cluster, item, &dropped, &reports);
  } catch (...) {
    reports.clear();  // there is no memory for a report either
  }
  return reports;
}

// Runs the stages, and makes a report for each device, one at least, whatever happens. True where the graph has been
// changed.
bool LmsOptimizer::Act(grappler::Cluster* cluster, const grappler::GrapplerItem& item, tensorflow::GraphDef* output,
                       std::deque<Report>* reports) {
  bool changed = false;
  reports->emplace_back();
  reports->back().function = NameOf(item);
  reports->back().budget = options_.memory_budget.ToString();
  const double start = Now();
  const auto fail = [reports](const std::string& reason) {
    reports->back().status = ReportStatus::kFailed;
    reports->back().reason = reports->back().stage + ": " + reason;
  };
  try {
    if (!session_.empty() && MakesStepInParts(session_)) {
      reports->back().status = ReportStatus::kSkipped;
      reports->back().reason =
          "the step runs in parts (Session.partial_run), and a part must not wait for what is fed to a later one";
    } else if (problems_.empty() && !unreadable_) {
      options_.intra_op_threads = config_proto_.intra_op_parallelism_threads();
      options_.earlier_constants = EarlierPlans::Global().ConstantsOf(item.id, options_hash_);
      // A random operation must not begin anew when the next call is planned anew.
      options_.record_sizes = options_.record_sizes && (keep_random_.empty() || CanKeepState(item.graph));
      if (!session_.empty() && options_.unknown_dim.everywhere == 0) AddSessionSizes(session_, &options_.unknown_dim);
      const PlanningMark mark(reports->back().function, item.graph.node_size());
      StageWatch stages(Deadline(GraphBounds(options_.planner_seconds).DeadlineSeconds()), &reports->back());
      changed = Rewrite(options_, cluster, item, config_proto_, output, &stages, reports);
    } else {
      reports->back().stage = "options";
      fail(Join(problems_, "; "));
    }
  } catch (const TooMuch& e) {
    NoteTooMuch(e, &reports->back());
  } catch (const std::exception& e) {
    fail(e.what());
  } catch (...) {
    fail("unknown exception");
  }
  for (Report& report : *reports) {
    if (!changed && report.status == ReportStatus::kRewritten) {
      report.status = ReportStatus::kFailed;
      report.reason = "what failed for another device has left the graph as it was";
    }
    if (report.status != ReportStatus::kRewritten && report.status != ReportStatus::kInfeasible) {
      // What was found out before is of no plan.
      report.peak_after_bytes = report.peak_before_bytes;
      report.lost_after_bytes = report.lost_before_bytes;
      report.order_peaks_after = report.order_peaks_before;
      report.nodes_after = report.nodes_before;
    }
    report.optimizer_seconds = Now() - start;
    if (DeviceType(report.device) == "GPU" && OwnSwapperIsOn(config_proto_)) {
      report.warnings.push_back(
          "TensorFlow's own memory optimizer swaps before lms, without a budget: set memory_optimization in the "
          "RewriterConfig to SCHEDULING_HEURISTICS, as lms.enable and lms.configure do");
    }
  }
  return changed;
}

// The last changes of all: the plan knows nothing of them. They return whether the graph has been changed.
bool LmsOptimizer::KeepRandomState(const grappler::GrapplerItem& item, const std::deque<Report>& reports, bool changed,
                                   tensorflow::GraphDef* output) const {
  if (keep_random_.empty() || (!KeepsState(keep_random_) && !MayBePlannedAgain(reports))) return changed;
  if (!CanKeepState(item.graph)) return changed;
  if (!changed) *output = item.graph;
  KeepState(keep_random_, output);
  return true;
}

bool LmsOptimizer::RecordSizes(const grappler::GrapplerItem& item, const std::deque<Report>& reports, bool changed,
                               tensorflow::GraphDef* output) const {
  const bool failed = std::any_of(reports.begin(), reports.end(),
                                  [](const Report& report) { return report.status == ReportStatus::kFailed; });
  if (!options_.record_sizes || failed) return changed;
  // What is measured of a step is told from its input pipeline's by what it takes.
  const bool elements = changed && options_.replan;
  std::vector<OpenSize> open;  // of all devices
  std::vector<OpenLoop> loops;
  for (const Report& report : reports) {
    open.insert(open.end(), report.open_sizes.begin(), report.open_sizes.end());
    loops.insert(loops.end(), report.open_loops.begin(), report.open_loops.end());
  }
  if (open.empty() && loops.empty() && !elements) return changed;
  tensorflow::GraphDef recording = changed ? *output : item.graph;
  if (!AddSizeRecords(item.id, open, loops, elements, &recording)) return changed;
  output->Swap(&recording);
  return true;
}

bool LmsOptimizer::MarkChanges(const grappler::GrapplerItem& item, const std::deque<Report>& reports, bool changed,
                               tensorflow::GraphDef* output) const {
  const bool planned = std::any_of(reports.begin(), reports.end(), [](const Report& report) {
    return report.status == ReportStatus::kRewritten || report.status == ReportStatus::kFits;
  });
  if (mark_changes_.empty() || !planned) return changed;
  if (!changed) *output = item.graph;
  AddChangeMarks(mark_changes_, output);
  return true;
}

// What TensorFlow keeps of this plan when the function has another one.
void LmsOptimizer::NotePlan(const std::string& item_id, const std::deque<Report>& reports) const {
  if (item_id == kSessionsStep) return;
  EarlierPlans::Bytes constants;
  for (const Report& report : reports) constants[report.device] += KeptConstants(report.constant_bytes);
  EarlierPlans::Global().Note(item_id, options_hash_, constants);
}

// Logs the report and puts it into the list. Throws nothing: what is lost is said, if that can be.
void LmsOptimizer::Tell(Report report) const {
  try {
    FailIfInjected("log");
    Log(report, BudgetOf(options_, report.device).kind == Budget::Kind::kPercent);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the report has it all
  }
  try {
    FailIfInjected("report");
    ReportStore::Global().Add(std::move(report));
  } catch (const std::exception& e) {
    LOG(WARNING) << "lms: a report was lost: " << e.what();
  } catch (...) {
    LOG(WARNING) << "lms: a report was lost";
  }
}

// Of lms.calibrate(): the rewritten graph, or the one that came in, with its ops in a row.
absl::Status LmsOptimizer::Time(grappler::Cluster* cluster, const grappler::GrapplerItem& item,
                                tensorflow::GraphDef* optimized_graph) {
  if (!CheckGraph(item.graph).ok()) return unchanged_;
  options_.strict = false;
  options_.dump_graphs.clear();
  std::deque<Report> reports;
  const bool changed = Act(cluster, item, optimized_graph, &reports);
  return TimeOps(options_, cluster, item, changed, optimized_graph);
}

}  // namespace lms
