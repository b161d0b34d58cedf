// The options of lms, and the one parser for them.
//
// Both ways in share it: keyword arguments of lms.enable() and the parameter_map of a RewriterConfig entry written by
// hand arrive as the same map from name to value. ParseOptions never stops at the first problem: it lists all of them,
// each with what is accepted, so that a caller can raise once. Units are in the names.

#ifndef LMS_CC_CORE_OPTIONS_OPTIONS_H_
#define LMS_CC_CORE_OPTIONS_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cc/core/graph/swap_link.h"
#include "cc/core/options/argument_sizes.h"
#include "cc/core/options/recorded_shapes.h"

namespace lms {

using OptionValue = std::variant<bool, int64_t, double, std::string>;
using OptionMap = std::map<std::string, OptionValue>;

// What the user asked the peak to be.
struct Budget {
  enum class Kind {
    kAuto,     // what the device has left for the step
    kBytes,    // a total for the device, resident weights included
    kPercent,  // of the step's own predicted activation peak; what is resident comes on top
    kMin,      // the least peak that a plan can be found for
  };
  Kind kind = Kind::kAuto;
  int64_t bytes = 0;
  double percent = 0;

  std::string ToString() const;
};

// A budget of one device, or of all devices of a type.
struct DeviceBudget {
  std::string device;  // "GPU:1", "CPU"
  Budget budget;
};

struct Options {
  Budget memory_budget;                      // of devices that have none of their own
  std::vector<DeviceBudget> device_budgets;  // each device is named once
  bool recompute = true;                     // rematerialization allowed
  bool reorder = true;                       // order of execution may be enforced where the budget needs it
  bool place = true;                         // tensors may be given places in the device's memory beforehand
  bool swap = true;                          // copying to another tier allowed, where there is one
  std::string swap_to =
      "host";                   // "host": a GPU's tensors to the host's memory; "disk", or a directory: to a file there
  UnknownDim unknown_dim;       // sizes of dimensions that the graph leaves unknown
  double planner_seconds = 1;   // upper bound on one step's planning time
  double safety_margin = 0.05;  // share of the activations' budget that the planner leaves unused
  bool replan = true;           // steps are measured, and planned again where they take more than the budget
  bool strict = false;          // a step whose budget cannot be met fails instead of running over it
  std::string dump_graphs;      // directory that the graph and the plan of each step are written to; "": none
  std::string profile;          // file of measured times; "": the device's own, "none": estimates alone

  // Swapping by hand. The defaults leave it to the planner.
  int64_t swap_host_limit = 0;    // bytes of pinned host memory; 0: what TensorFlow's own limit leaves
  int64_t swap_disk_limit = 0;    // bytes of the spill file; 0: what is free in its directory
  double swap_out_bandwidth = 0;  // bytes per second; 0: measured, once
  double swap_in_bandwidth = 0;
  SwapRules swap_rules;
  std::string swap_include;      // names of scopes (prefixes, comma-separated) that alone are swapped; "": all
  std::string swap_exclude;      // and those that are not
  std::string swap_include_ops;  // types of ops, likewise
  std::string swap_exclude_ops;
  int64_t serialize_bytes = 0;  // ops whose results are at least as large run one after the other; 0: none have to

  // Internal: no options of the user's, and in no list of them.
  std::string time_ops;              // lms.calibrate(): ops run one at a time, and their keys are kept under this name
  int intra_op_threads = 0;          // from TensorFlow's configuration; 0: its default
  std::vector<SeenSize> seen_sizes;  // "_seen_sizes": what one function's call tells of itself
  std::vector<SeenValue> seen_values;                // "_seen_values": whole numbers that its first call was given
  RecordedShapes recorded;                           // "_recorded": what earlier steps have shown of its tensors
  std::map<std::string, int64_t> earlier_constants;  // of the function's earlier plans, by device (earlier_plans.h)
  int64_t pool_bytes = 0;      // "_pool": planned for a CPU's pool of so many bytes, as one region; 0: for what is here
  bool pool_exact = false;     // "_pool_exact": it hands out chunks no larger than what is asked for
  bool data_may_end = false;   // "_data_may_end": a step may fail as an iterator has no more elements
  bool record_sizes = false;   // "_record_sizes": the next call can be planned with what this one shows
  double observed_excess = 1;  // "_feedback": activations measured / predicted, under an earlier plan
  std::string planned_again;   // the words that came with it; "": the first plan
  std::string hints;           // "_hints": what is said of a function's tensors by name (cc/tf/import/hints.h)
};

// What holds for a device of that full name: the budget of its own, else that of its type, else memory_budget.
const Budget& BudgetOf(const Options& options, const std::string& device);

// Name, type, default and accepted values of one option, for messages and documents.
struct OptionSpec {
  std::string name;
  std::string type;
  std::string default_value;
  std::string accepted;
};

const std::vector<OptionSpec>& OptionSpecs();

// An option that had another name, which is still read.
struct RenamedOption {
  std::string before;
  std::string name;
};

const std::vector<RenamedOption>& RenamedOptions();

// Fills *options from `map` (options not named keep their defaults) and returns every problem found, in the order of
// the names; empty when all is well. *options is left untouched where there is a problem. `internal`: whether the map
// may also hold what is internal.
std::vector<std::string> ParseOptions(const OptionMap& map, Options* options, bool internal = false);

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_OPTIONS_H_
