#include "cc/tf/pass/measure_stage.h"

#include <optional>
#include <set>
#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/import/assumed_sizes.h"
#include "cc/tf/predict/execution.h"

namespace lms {
namespace {

constexpr char kRecorded[] = "; the step records what they are, and its next call is planned with that";

// What of the prediction rests on sizes that are not known.
void NoteAssumptions(const DeviceContext& context, const ImportedGraph& imported, MeasuredStep* measured) {
  const Options& options = context.options;
  const TensorSizes& sizes = context.facts.sizes;
  const Dimensions& dimensions = context.facts.dimensions;
  if (options.unknown_dim.everywhere == 0) {
    measured->assumption =
        AssumptionAtPeak(imported, measured->profile, measured->record, sizes.assumptions(), dimensions.rest());
  }
  measured->open_sizes = OpenSizes(sizes.OpenNodes(), imported, measured->Activations());
  const StepAsItCame* const came = context.as_it_came;
  measured->open_loops = OpenLoops(came == nullptr ? imported : came->imported, sizes, measured->Activations());
  if (const std::string unranked = UnrankedWarning(imported); !unranked.empty()) {
    const bool recorded = !options.record_sizes || !sizes.RecordedLines().empty();
    measured->warnings.push_back(unranked + (recorded ? "" : kRecorded));
  }
  if (options.unknown_dim.everywhere != 0) return;
  // What matters little now, and is recorded, is told when it turns out to matter.
  if (options.record_sizes && measured->assumption.empty()) return;
  const std::string warning = AssumptionWarning(imported, sizes.assumptions(), dimensions.rest(), dimensions.strange());
  if (!warning.empty()) measured->assumed = warning + (options.record_sizes ? kRecorded : "");
}

// Bytes of the constants that are present during the whole step, those computed from others included.
int64_t ConstantBytes(const tensorflow::GraphDef& graph, const ImportedGraph& imported) {
  std::set<BufferId> constants;
  for (int node = 0; node < graph.node_size(); ++node) {
    if (graph.node(node).op() != "Const" && graph.node(node).input_size() == 0) continue;
    for (const BufferId b : imported.buffer_of_port[node]) {
      const bool made_here = b != kNone && imported.graph.buffers[b].producer == imported.op_of_node[node];
      if (made_here && imported.graph.buffers[b].resident) constants.insert(b);
    }
  }
  int64_t bytes = 0;
  for (const BufferId b : constants) bytes += imported.graph.buffers[b].bytes;
  return bytes;
}

// What the allocator's limit leaves on `device`, where that is less than what was asked for, in bytes or as a share of
// the step: the limit is nearer.
std::optional<ResolvedBudget> LessThanAsked(const Budget& asked, const StepBytes& step, const std::string& device,
                                            const tensorflow::grappler::Cluster* cluster) {
  if (asked.kind != Budget::Kind::kPercent && asked.kind != Budget::Kind::kBytes) return std::nullopt;
  ResolvedBudget of_device = ResolveBudget(Budget(), step, device, cluster);
  const int64_t bytes = ResolveBudget(asked, step, device, cluster).bytes;
  return of_device.hard && of_device.bytes < bytes ? std::make_optional(std::move(of_device)) : std::nullopt;
}

StepBytes BytesOf(const MeasuredStep& measured) {
  StepBytes step;
  step.resident = measured.profile.resident_bytes;
  step.peak = measured.profile.peak_bytes;
  step.worst = measured.profile.peak_bytes;
  step.lacking = measured.profile.lacking_bytes;
  step.outside = measured.profile.outside_bytes;
  step.constants = measured.constant_bytes;
  return step;
}

}  // namespace

MeasuredStep MeasureStep(const DeviceContext& context, const ReadStep& read) {
  MeasuredStep measured;
  context.Enter("liveness");
  measured.profile = PredictMemory(context.item.graph, read.index, read.imported, context.threads, read.arenas,
                                   context.deadline(), &measured.record);
  measured.constant_bytes = ConstantBytes(context.item.graph, read.imported);
  NoteAssumptions(context, read.imported, &measured);
  return measured;
}

bool PoolLimitIsNearer(const DeviceContext& context, const ReadStep& read, const MeasuredStep& measured) {
  const std::string& device = read.imported.device;
  if (DeviceType(device) != "CPU" || !read.arenas.empty()) return false;
  return LessThanAsked(BudgetOf(context.options, device), BytesOf(measured), device, context.cluster).has_value();
}

AskedFor ResolveGoal(const DeviceContext& context, const ReadStep& read, const MeasuredStep& measured) {
  StepBytes step = BytesOf(measured);
  step.worst = PeakAtWorst(context.item.graph, read.index, read.imported, context.threads, read.arenas,
                           measured.profile, context.deadline());
  context.Enter("budget");
  const std::string& device = read.imported.device;
  const Budget& asked = BudgetOf(context.options, device);
  const ResolvedBudget budget = PoolToBe(context.options, device) ? OfPoolToBe(context.options, step)
                                                                  : ResolveBudget(asked, step, device, context.cluster);
  const std::optional<ResolvedBudget> of_device = LessThanAsked(asked, step, device, context.cluster);
  if (of_device && (step.worst > of_device->bytes || step.lacking > 0)) {
    const std::string share = asked.kind == Budget::Kind::kPercent ? "=\"" + asked.ToString() + "\"" : "";
    return {BudgetGoal(context.options, Budget(), of_device->bytes, step), asked.ToString(), of_device->source,
            "memory_budget" + share + " is " + FormatBytes(budget.bytes) + ", and " + device + " has " +
                FormatBytes(of_device->bytes) + " for the step: it is planned for that, as by \"auto\""};
  }
  AskedFor found{BudgetGoal(context.options, asked, budget.bytes, step), asked.ToString(), budget.source, ""};
  if (asked.kind == Budget::Kind::kAuto && IsUnlimited(budget.bytes)) {
    found.warning = "memory_budget=\"auto\": what memory " + device +
                    " has is not known, so there is no budget to keep: set memory_budget to a number of bytes";
  }
  return found;
}

}  // namespace lms
