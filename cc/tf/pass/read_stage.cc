#include "cc/tf/pass/read_stage.h"

#include <algorithm>

#include "cc/core/base/bytes.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/base/words.h"
#include "cc/core/system/system_memory.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/profile_choice.h"
#include "cc/tf/predict/cpu_pool.h"
#include "cc/tf/predict/device_arena.h"

namespace lms {
namespace {

constexpr size_t kMostRecordedLines = 8;
constexpr int64_t kLeastRegion = int64_t{1} << 20;
constexpr int64_t kRoomBeside = int64_t{64} << 20;
constexpr int64_t kLeastEarlier = int64_t{1} << 20;  // that is worth a word

std::vector<std::string> SizesInWords(const StepFacts& facts) {
  std::vector<std::string> lines = facts.dimensions.lines();
  const std::vector<std::string> seen = facts.sizes.SeenLines();
  lines.insert(lines.end(), seen.begin(), seen.end());
  const std::vector<std::string> loops = facts.sizes.RecordedLoops();
  lines.insert(lines.end(), loops.begin(), loops.end());
  std::vector<std::string> recorded = facts.sizes.RecordedLines();
  const size_t more = recorded.size() > kMostRecordedLines ? recorded.size() - kMostRecordedLines : 0;
  recorded.resize(recorded.size() - more);
  if (more > 0) recorded.push_back(std::to_string(more) + " more (earlier steps)");
  lines.insert(lines.end(), recorded.begin(), recorded.end());
  return lines;
}

absl::Status InferSizes(const DeviceContext& context, const GraphIndex& index) {
  StepFacts& facts = context.facts;
  if (facts.inferred) return absl::OkStatus();
  const auto watch = [&context](bool evaluating) { context.Enter(evaluating ? "shapes" : "sizes"); };
  facts.sizes.UseDevices(context.cluster);
  absl::Status status = facts.sizes.Infer(context.deadline(), watch);
  if (status.ok()) status = facts.sizes.InferLists(index, context.deadline(), watch);
  facts.inferred = status.ok();
  return status;
}

void NoteHiddenOps(const ImportedGraph& imported, bool recorded, ReadStep* read) {
  if (imported.hidden_ops == 0) return;
  const std::string ops = Counted(imported.hidden_ops, "op");
  const bool one = imported.hidden_ops == 1;
  read->hidden = ", not counting what " + ops + " in loops " + (one ? "holds" : "hold");
  read->warnings.push_back(ops + (one ? " runs" : " run") + " inside loops that hold tensor lists of unknown size (" +
                           imported.hidden_example +
                           " for one): what is held there is not predicted, and nothing of it is recomputed" +
                           (recorded ? "; the step records how often they go round, and its next call is planned "
                                       "with that"
                                     : ""));
}

void NoteUnseenCalls(const DeviceContext& context, ReadStep* read) {
  const std::string calls = UnseenCalls(context.item, read->index);
  if (calls.empty()) return;
  read->hidden += ", not counting " + calls;
  read->warnings.push_back("of " + calls + ", lms sees nothing: what is held there is neither predicted nor lowered");
}

void NoteCompiled(const DeviceContext& context, ReadStep* read) {
  for (const auto& node : context.item.graph.node()) {
    if (node.attr().count("_XlaMustCompile") == 0 || !node.attr().at("_XlaMustCompile").b()) continue;
    if (DeviceType(node.device()) == "CPU" && context.facts.sizes.KnowsCompiled(node.name())) continue;
    read->warnings.push_back(node.name() +
                             " is compiled by XLA (jit_compile=True): lms rewrites nothing in it, "
                             "and knows little of what it takes while it runs");
    return;
  }
}

void NoteEarlierPlans(const DeviceContext& context, ReadStep* read) {
  const int64_t bytes = context.facts.sizes.EarlierConstants(read->imported.device);
  if (bytes < kLeastEarlier) return;
  read->warnings.push_back("TensorFlow keeps the constants of the plans that this function had before: " +
                           FormatBytes(bytes) + ", counted as resident");
}

// What a limited pool may still take comes as one region, where the system has room for that and for what is no tensor.
void TakeRegion(const DeviceContext& context, const std::string& device) {
  const std::optional<CpuPool> pool = CpuPoolOf(AllocatorOf(device, context.cluster));
  if (!pool || !pool->limited || pool->untaken_bytes < kLeastRegion) return;
  if (pool->untaken_bytes + kRoomBeside <= AvailableMemory().bytes) TakeRest(*pool);
}

double ProfiledShare(const TensorSizes& sizes, const MemGraph& graph) {
  double profiled_us = 0;
  for (const MemOp& op : graph.ops) profiled_us += sizes.Of(op.name).profiled ? op.cost_us : 0;
  const double total_us = graph.TotalCostUs();
  return total_us > 0 ? profiled_us / total_us : 0;
}

}  // namespace

ReadStep ReadGraph(const DeviceContext& context) {
  ReadStep read;
  context.Enter("index");
  read.status = read.index.Build(context.item, context.deadline());
  if (!read.status.ok()) return read;
  context.Enter("sizes");
  const std::vector<std::string>& problems = context.facts.dimensions.problems();
  if (!problems.empty()) read.status = absl::InvalidArgumentError(problems.front());
  if (read.status.ok()) read.status = InferSizes(context, read.index);
  if (!read.status.ok()) {
    read.sizes = context.facts.dimensions.lines();
    return read;
  }
  read.sizes = SizesInWords(context.facts);
  context.Enter("import");
  read.status = ImportGraph(context.item, read.index, context.facts.sizes, &read.imported, context.deadline(),
                            context.device, context.threads);
  if (!read.status.ok()) return read;
  const std::string& device = read.imported.device;
  const bool automatic = BudgetOf(context.options, device).kind == Budget::Kind::kAuto;
  read.arenas = ReadArenas(context, device, automatic);
  read.marks = HintMarks(context.item.graph, context.options.hints);
  const std::vector<TensorLists::OpenLoop>& open = read.imported.open_loops;
  const bool to_come = std::any_of(open.begin(), open.end(), [&context](const TensorLists::OpenLoop& loop) {
    return context.facts.sizes.RecordedTrips(loop.loop) < 0;
  });
  NoteHiddenOps(read.imported, context.options.record_sizes && to_come, &read);
  NoteUnseenCalls(context, &read);
  NoteCompiled(context, &read);
  NoteEarlierPlans(context, &read);
  return read;
}

std::vector<ArenaSettings> ReadArenas(const DeviceContext& context, const std::string& device, bool pool_counts) {
  if (PoolToBe(context.options, device)) {
    return ArenasOfPool(context.options.pool_bytes, context.options.pool_exact, context.options.safety_margin);
  }
  if (pool_counts && DeviceType(device) == "CPU") TakeRegion(context, device);
  if (pool_counts || DeviceType(device) != "CPU") HandOutExactly(device, context.cluster);
  return DeviceArenas(device, context.cluster, context.options.safety_margin, pool_counts);
}

Prices PriceOps(const DeviceContext& context, ImportedGraph* imported) {
  Prices prices;
  context.Enter("costs");
  FailIfInjected("profile");
  TensorSizes& sizes = context.facts.sizes;
  const ChosenProfile chosen = ChooseProfile(
      context.options.profile, PlaceOf(imported->device, context.cluster, context.options.intra_op_threads));
  if (!chosen.problem.empty()) prices.warnings.push_back(chosen.problem + ": times are estimates");
  if (chosen.profile == nullptr) {
    sizes.EstimateCosts(context.cluster);
  } else {
    const ProfilePrices profiled(*chosen.profile);
    sizes.EstimateCosts(context.cluster, &profiled);
    prices.profile = chosen.path;
  }
  ImportCosts(context.item, sizes, SwapLink(), imported);
  prices.profiled_share = ProfiledShare(sizes, imported->graph);
  return prices;
}

}  // namespace lms
