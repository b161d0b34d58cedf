#include "cc/tf/optimizer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "cc/core/report_store.h"
#include "cc/tf/execution.h"
#include "cc/tf/failure.h"
#include "cc/tf/step_pass.h"
#include "cc/tf/sum_order.h"
#include "cc/tf/time_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"
#include "tensorflow/core/util/env_var.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string Join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

// How many threads share an op, where that was set; else 0.
int OpThreads(const tensorflow::ConfigProto& config) {
  if (config.intra_op_parallelism_threads() > 0) return config.intra_op_parallelism_threads();
  int64_t threads = 0;
  const bool read = tensorflow::ReadInt64FromEnvVar("TF_NUM_INTRAOP_THREADS", 0, &threads).ok();
  return read && threads > 0 ? static_cast<int>(threads) : 0;
}

// When a share of its own peak cannot be met, a small function beside the training step is no news, nor is one in which
// there is nothing to recompute (`relative`: that is what was asked).
constexpr int64_t kNewsBytes = 16 << 20;

// Does it "fit" by a margin that what was assumed or left out may well eat up?
bool MayNotFit(const Report& report) {
  constexpr int64_t kEasily = 32;  // an assumed batch of 32 may be one of 1,024
  const int64_t activations = report.peak_before_bytes - report.resident_bytes;
  return report.status == ReportStatus::kFits && activations > 0 &&
         activations > (report.budget_bytes - report.resident_bytes) / kEasily;
}

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
      VLOG(1) << line;
  }
  for (const std::string& warning : report.warnings) {
    if (report.status == ReportStatus::kRewritten || report.status == ReportStatus::kInfeasible || MayNotFit(report)) {
      LOG(WARNING) << "lms: " << report.function << ": " << warning;
    }
  }
}

// The stages, on the graph with its sums held to stock TensorFlow's order. False: the graph is to stay as it came.
bool Rewrite(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item, int threads,
             tensorflow::GraphDef* output, Report* report) {
  report->stage = "sums";
  FailIfInjected(report->stage);
  if (!AddsInOrderOfArrival(item.graph)) return RunStepPass(options, cluster, item, threads, output, report);
  grappler::GrapplerItem held = item;
  SumOrder sums;
  const absl::Status status = HoldSums(&held, &sums);
  if (!status.ok()) {
    report->status = ReportStatus::kFailed;
    report->reason = report->stage + ": " + std::string(status.message());
    return false;
  }
  const bool changed = RunStepPass(options, cluster, held, threads, output, report);
  if (changed && sums.hidden > 0) {
    report->warnings.push_back(std::to_string(sums.hidden) +
                               " sums across loops or branches are added up in the order of arrival, in which their "
                               "last bits may differ from those without lms");
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
    const OptionMap map = OptionsFromConfig(*config, &problems_);
    const std::vector<std::string> more = ParseOptions(map, &options_, /*internal=*/true);
    problems_.insert(problems_.end(), more.begin(), more.end());
  } catch (const std::exception& e) {
    problems_.push_back(e.what());
  }
  return absl::OkStatus();
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
  if (!LastIteration(item.id)) return absl::AbortedError("lms waits for the last iteration");
  bool changed = false;
  Report report;
  report.function = item.id;
  report.budget = options_.memory_budget.ToString();
  const double start = Now();
  try {
    if (problems_.empty()) {
      options_.intra_op_threads = config_proto_.intra_op_parallelism_threads();
      if (!options_.time_ops.empty()) {
        options_.strict = false;
        options_.dump_graphs.clear();
      }
      // Grappler's item always has the default here.
      std::optional<grappler::GrapplerItem> told;
      const int op_threads = OpThreads(config_proto_);
      if (op_threads > 0 && op_threads != item.optimization_options().intra_op_parallelism_threads) {
        told.emplace(item).optimization_options().intra_op_parallelism_threads = op_threads;
      }
      const grappler::GrapplerItem& whole = told ? *told : item;
      changed = Rewrite(options_, cluster, whole, InterOpThreads(config_proto_), optimized_graph, &report);
      if (!options_.time_ops.empty()) return TimeOps(options_, cluster, whole, changed, optimized_graph);
    } else {
      report.stage = "options";
      report.status = ReportStatus::kFailed;
      report.reason = "options: " + Join(problems_);
    }
  } catch (const std::exception& e) {
    report.status = ReportStatus::kFailed;
    report.reason = report.stage + ": " + e.what();
  } catch (...) {
    report.status = ReportStatus::kFailed;
    report.reason = report.stage + ": unknown exception";
  }
  report.optimizer_seconds = Now() - start;
  Log(report, options_.memory_budget.kind == Budget::Kind::kPercent);
  try {
    ReportStore::Global().Add(std::move(report));
  } catch (const std::exception& e) {
    LOG(WARNING) << "lms: a report was lost: " << e.what();
  }
  return changed ? absl::OkStatus() : absl::AbortedError("lms leaves the graph as it is");
}

bool RegisterOptimizer() {
  const std::vector<std::string> registered = grappler::CustomGraphOptimizerRegistry::GetRegisteredOptimizers();
  if (std::find(registered.begin(), registered.end(), kOptimizerName) != registered.end()) return false;
  grappler::CustomGraphOptimizerRegistry::RegisterOptimizerOrDie([]() { return new LmsOptimizer; }, kOptimizerName);
  return true;
}

}  // namespace lms
