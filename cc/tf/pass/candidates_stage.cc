#include "cc/tf/pass/candidates_stage.h"

#include <string>
#include <utility>

#include "cc/core/base/deadline.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/options/swap_filters.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/import/region_choice.h"

namespace lms {
namespace {

bool OnCpu(const std::string& device) { return device.find("CPU:") != std::string::npos; }

void ImportAgain(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal, Candidates* candidates) {
  ImportedGraph* const imported = &candidates->imported;
  const std::vector<int> regions =
      RegionsAbove(context.item.graph, read.index, *imported, goal.least() ? 0 : goal.Limit());
  const bool hold = read.index.frames() > 1 && context.options.reorder;
  if (!hold && regions.size() == imported->regions.size()) return;
  candidates->status = ImportRegions(context.item, read.index, context.facts.sizes, regions, hold, imported,
                                     context.deadline(), context.device, context.threads);
  if (!candidates->status.ok()) return;
  ImportCosts(context.item, context.facts.sizes, SwapLink(), imported);
  candidates->imported_again = true;
}

// Asked only now, as a link that nobody has measured yet is measured here.
void ChooseWhereToSwap(const DeviceContext& context, Candidates* candidates) {
  const Options& options = context.options;
  if (!options.swap) return;
  context.Enter("swap");
  FailIfInjected("link");
  candidates->swap = ChooseSwap(options, candidates->imported.device, context.cluster);
  candidates->target.tier = candidates->swap.tier;
  candidates->target.directory = candidates->swap.directory;
  candidates->target.limit_bytes = candidates->swap.tier == "disk" ? options.swap_disk_limit : options.swap_host_limit;
  candidates->warnings = FilterSwappable(options, &candidates->imported.graph);
  // A GPU's way to a disk leads through pinned memory.
  const bool through_host = candidates->swap.tier == "disk" && !OnCpu(candidates->imported.device);
  if (!through_host || options.swap_host_limit == 0) return;
  candidates->target.host_limit = options.swap_host_limit;
  FilterLarger(options.swap_host_limit, &candidates->imported.graph);
}

void GiveHints(const DeviceContext& context, const HintMarks& marks, Candidates* candidates) {
  if (!marks.any()) return;
  const bool may_swap = candidates->swap.link.usable();
  std::string no_swap = context.options.swap ? candidates->swap.WhyNowhere() : "swap=False";
  if (!may_swap && no_swap.empty()) no_swap = "there is nowhere to swap it to: on a CPU, set swap_to=\"disk\"";
  candidates->hints.Give(marks, context.item.graph, context.options.recompute, may_swap, no_swap,
                         &candidates->imported);
  for (const std::string& warning : candidates->hints.warnings()) candidates->warnings.push_back(warning);
}

}  // namespace

std::string WhyNotPlanned(const DeviceContext& context, const ReadStep& read) {
  const std::string too_large = WhyTooLarge(context.item, GraphWork::kPlan, context.bounds());
  if (!too_large.empty()) throw TooMuch(too_large);
  if (read.imported.enters_last) return "what enters a loop waits for what leaves it: lms changes no order around it";
  const std::string waits = UnknownWait(context.item, read.index);
  return waits.empty() ? "" : waits + " may wait for another op of the step: lms changes no order around it";
}

Candidates ImportCandidates(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                            ImportedGraph imported) {
  Candidates candidates;
  candidates.imported = std::move(imported);
  context.Enter("import");
  ImportAgain(context, read, goal, &candidates);
  return candidates;
}

void FindCandidates(const DeviceContext& context, const ReadStep& read, Candidates* candidates) {
  ChooseWhereToSwap(context, candidates);
  GiveHints(context, read.marks, candidates);
}

}  // namespace lms
