// What lms did to one step, as data: made by the optimizer, kept in a bounded list, read by Python.

#ifndef LMS_CC_CORE_REPORT_REPORT_H_
#define LMS_CC_CORE_REPORT_REPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"
#include "cc/core/graph/swap_link.h"
#include "cc/core/report/report_details.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/transfers.h"

namespace lms {

enum class ReportStatus { kRewritten, kFits, kSkipped, kInfeasible, kFailed };

const char* StatusName(ReportStatus status);  // "rewritten", "fits", "skipped", "infeasible", "failed"

struct Decision {
  std::string kind;  // "recompute"; "move": runs later than it would have, once; "order": waits, because of the order;
                     // "swap_out", "swap_in": copied to the tier or back
  std::string op;
  std::string op_type;
  int64_t tensor_bytes = 0;
  double cost_us = 0;
  std::string priced_by = "estimate";  // or "profile": the cost was measured
  int position = 0;                    // in the schedule
  std::string before;                  // the op that it is recomputed or swapped in for; of a swap-out: the one by
                                       // whose end it is out
  std::string trigger;                 // the node that it waits for
  double transfer_us = 0;              // of a swap: that the link is busy with it
  double stall_us = 0;                 // of these, that an op waits for it
};

struct KeptTensors {
  std::string reason;
  int tensors = 0;
  int64_t bytes = 0;
};

// A step as it was planned, or would have been.
struct PlannedStep {
  MemGraph graph;  // without names
  SwapLink link;   // usable(): swapping is allowed
  SwapRules rules;
  bool recompute = true;
  bool reorder = true;
  double safety_margin = 0;

  // That it takes itself, roughly.
  int64_t MemoryBytes() const;
};

// What came of one hint of the user's, and what it costs.
struct HintReport {
  std::string kind;                // "keep", "recompute", "swap"
  std::string where;               // the place in the program, or the layers
  int tensors = 0;                 // that it was carried out on
  int64_t bytes = 0;               // of these
  double cost_us = 0;              // per step, beside the plan without this hint; below 0 where it saves time
  int64_t peak_bytes = 0;          // predicted, with it...
  int64_t peak_without_bytes = 0;  // ...and planned again without; both 0: not looked for
  int not_followed = 0;            // tensors that it could not be carried out on
};

// A node with results of sizes that only the run decides. `least`: of a result, the elements from which on it matters.
struct OpenSize {
  std::string node;
  int64_t least = 0;
};

// A loop that fills lists, of which only the run decides how often it goes round. `least`: from which number on it
// matters.
struct OpenLoop {
  std::string loop;     // its LoopCond
  std::string counter;  // the Switch of a variable that begins with 0 and goes up by 1 in each iteration
  int64_t least = 0;
};

struct Report {
  std::string function;
  int64_t sequence = 0;
  ReportStatus status = ReportStatus::kFailed;
  std::string reason;
  std::string assumption;                                     // what it all holds for: "images:0 is 32 (…)"; "": always
  std::string stage;                                          // the last one that ran
  std::vector<std::pair<std::string, double>> stage_seconds;  // of the processor, that each took in all
  std::string device;
  std::vector<std::string> other_devices;  // of the same step, which have reports of their own
  std::string budget;                      // as asked
  int64_t budget_bytes = 0;                // resident included, as are all peaks
  int64_t resident_bytes = 0;
  int64_t constant_bytes = 0;  // of these: the plan's own constants (earlier_plans.h)
  int64_t peak_before_bytes = 0;
  int64_t peak_after_bytes = 0;
  int64_t lost_before_bytes = 0;  // of the peaks, where what the allocator hands out counts: in chunks that are larger
  int64_t lost_after_bytes = 0;   // than their tensors, and in holes between these
  int64_t measured_peak_bytes = 0;  // of a later call: the rise over what was in use before it, on top of
                                    // resident_bytes; 0: not measured
  int measured_steps = 0;           // calls that were measured
  int64_t min_budget_bytes = 0;     // least feasible; 0: not looked for
  double predicted_time_overhead = 0;
  double time_overhead_bound = 0;  // no plan for the budget is predicted to add less (lower_bound.h); 0: not known
  double step_time_us = 0;         // predicted, without lms
  std::string profile;             // the file that prices came from; "": none
  double profiled_share = 0;       // of step_time_us: ops that the profile has measured
  std::string swap_tier;           // "host", "disk"; "": nothing may be swapped
  std::string swap_directory;      // of the file, for "disk"
  std::string swap_note;           // why nothing is swapped, and what to do about it; "" where something may be
  std::string link;                // what it carries each way, and how that is known; "": nothing was to be swapped
  int64_t swapped_bytes = 0;       // out, per step
  double swap_hidden = 0;          // share of the transfers' time that is hidden behind ops; 0 where there are none
  double swap_stall = 0;           // predicted seconds per step that ops wait for transfers
  double planner_seconds = 0;
  int64_t planner_work = 0;      // steps that were counted: the same on any machine (plan_state.h, memory_order.h)
  double optimizer_seconds = 0;  // everything that lms did
  int nodes_before = 0;
  int nodes_after = 0;
  std::vector<OpenSize> open_sizes;  // that only the run decides, and that are recorded as it does
  std::vector<OpenLoop> open_loops;  // likewise
  std::vector<std::string> sizes;    // of dimensions that the function leaves unknown: "images:0 = 64 (first call)"
  std::vector<std::string> warnings;
  std::vector<Decision> decisions;
  std::vector<int64_t> timeline_before;  // bytes in use at each op, in schedule order
  std::vector<int64_t> timeline_after;
  std::vector<int64_t> order_peaks_before;  // MemoryProfile::order_peaks: peak_before_bytes is the last
  std::vector<int64_t> order_peaks_after;
  std::vector<KeptTensors> kept;                    // largest first
  std::shared_ptr<const ReportDetails> details;     // null where there are none, or no longer (report_store.h)
  std::shared_ptr<const PlannedStep> planned_step;  // likewise: what other budgets can be tried on
  std::vector<HintReport> hints;                    // in the order of the graph
};

// Clears all names and words of the graph, which planning does without.
void ForgetNames(MemGraph* graph);

// One entry per reason for which buffers of the graph may not be evicted, resident ones left out, largest first.
// `swapping`: what cannot be recomputed may still be swapped, and is not kept then.
std::vector<KeptTensors> SummariseKept(const MemGraph& graph, bool swapping = false);

// One decision per step of the plan; `triggers` holds, per step, the node that it waits for.
std::vector<Decision> DescribePlan(const MemGraph& graph, const Plan& plan, const std::vector<std::string>& triggers);

// One decision per swap-out, then one per swap-in of the plan, with the times that `transfers` predicts over `link`.
// The triggers hold, per swap-out and per swap-in, the node that it waits for.
std::vector<Decision> DescribeSwaps(const MemGraph& graph, const Plan& plan, const SwapLink& link,
                                    const Transfers& transfers, const std::vector<std::string>& out_triggers,
                                    const std::vector<std::string>& in_triggers);

// Fills in what is transferred: swapped_bytes, swap_hidden, swap_stall.
void NoteTransfers(const Transfers& transfers, Report* report);

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_REPORT_H_
