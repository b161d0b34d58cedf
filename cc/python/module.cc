// The Python module lms._native: a thin door to the library. Only bytes, numbers, strings and containers of them cross.
//
// Importing it registers the optimizer with TensorFlow (once per process, whoever comes first).

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/core/base/bytes.h"
#include "cc/core/base/fault_injection.h"
#include "cc/core/graph/swap_link.h"
#include "cc/core/options/argument_sizes.h"
#include "cc/core/options/options.h"
#include "cc/core/options/session_sizes.h"
#include "cc/core/profile/profile_file.h"
#include "cc/core/report/planned_reports.h"
#include "cc/core/report/report.h"
#include "cc/core/report/report_store.h"
#include "cc/core/spill/spill_measure.h"
#include "cc/core/spill/spill_store.h"
#include "cc/core/system/system_memory.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/optimizer.h"
#include "cc/tf/pass/step_pareto.h"
#include "cc/tf/pass/swap_choice.h"
#include "cc/tf/pass/time_ops.h"
#include "cc/tf/runtime/memory_counter.h"
#include "cc/tf/runtime/size_record.h"
#include "cc/tf/runtime/swap_handle.h"
#include "cc/tf/stock/kept_state.h"
#include "lms_build_facts.h"
#if LMS_TF_VERSION_NUMBER >= 2018
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#endif

namespace py = pybind11;

namespace {

std::map<std::string, std::string> BuildFacts() {
  return {{"lms_version", LMS_VERSION},
          {"tensorflow_version", LMS_TF_VERSION},
          {"compiler", LMS_COMPILER},
          {"cxx11_abi", LMS_CXX11_ABI},
          {"python_version", LMS_PYTHON_VERSION}};
}

std::vector<std::map<std::string, std::string>> OptionSpecs() {
  std::vector<std::map<std::string, std::string>> specs;
  for (const lms::OptionSpec& spec : lms::OptionSpecs()) {
    specs.push_back(
        {{"name", spec.name}, {"type", spec.type}, {"default", spec.default_value}, {"accepted", spec.accepted}});
  }
  return specs;
}

// The details stay with whoever holds the capsule: they are large, and made into Python objects where they are asked
// for.
constexpr char kDetailsName[] = "lms.report_details";
using SharedDetails = std::shared_ptr<const lms::ReportDetails>;

py::object DetailsHandle(const lms::Report& report) {
  if (!report.details) return py::none();
  auto held = std::make_unique<SharedDetails>(report.details);
  py::capsule handle(held.get(), kDetailsName, [](PyObject* capsule) {
    delete static_cast<SharedDetails*>(PyCapsule_GetPointer(capsule, kDetailsName));
  });
  static_cast<void>(held.release());  // the capsule has it
  return std::move(handle);
}

template <typename Enum>
std::vector<int> Numbers(const std::vector<Enum>& list) {
  std::vector<int> numbers;
  numbers.reserve(list.size());
  for (const Enum value : list) numbers.push_back(static_cast<int>(value));
  return numbers;
}

template <size_t n>
py::list Names(const char* const (&names)[n]) {
  py::list list;
  for (const char* name : names) list.append(name);
  return list;
}

py::dict ToDict(const lms::StepColumns& step) {
  py::dict result;
  result["op"] = step.op;
  result["type"] = step.type;
  result["kind"] = Numbers(step.kind);
  result["phase"] = Numbers(step.phase);
  result["start_us"] = step.start_us;
  result["took_us"] = step.took_us;
  result["bytes"] = step.bytes;
  return result;
}

// [[first, last], ...] per buffer: lists, as JSON has them.
py::list ToList(const std::vector<std::vector<lms::Interval>>& buffers) {
  py::list result;
  for (const std::vector<lms::Interval>& intervals : buffers) {
    py::list list;
    for (const auto& [first, last] : intervals) {
      py::list interval;
      interval.append(first);
      interval.append(last);
      list.append(interval);
    }
    result.append(list);
  }
  return result;
}

py::dict StageSeconds(const lms::Report& report) {
  py::dict result;
  for (const auto& [stage, seconds] : report.stage_seconds) result[py::str(stage)] = seconds;
  return result;
}

py::dict ToDict(const lms::Report& report) {
  py::list decisions;
  for (const lms::Decision& d : report.decisions) {
    py::dict decision;
    decision["kind"] = d.kind;
    decision["op"] = d.op;
    decision["op_type"] = d.op_type;
    decision["tensor_bytes"] = d.tensor_bytes;
    decision["cost_us"] = d.cost_us;
    decision["priced_by"] = d.priced_by;
    decision["position"] = d.position;
    decision["before"] = d.before;
    decision["trigger"] = d.trigger;
    decision["transfer_us"] = d.transfer_us;
    decision["stall_us"] = d.stall_us;
    decisions.append(decision);
  }
  py::list kept;
  for (const lms::KeptTensors& k : report.kept) {
    py::dict entry;
    entry["reason"] = k.reason;
    entry["tensors"] = k.tensors;
    entry["bytes"] = k.bytes;
    kept.append(entry);
  }
  py::list hints;
  for (const lms::HintReport& h : report.hints) {
    py::dict hint;
    hint["kind"] = h.kind;
    hint["where"] = h.where;
    hint["tensors"] = h.tensors;
    hint["bytes"] = h.bytes;
    hint["cost_us"] = h.cost_us;
    hint["peak_bytes"] = h.peak_bytes;
    hint["peak_without_bytes"] = h.peak_without_bytes;
    hint["not_followed"] = h.not_followed;
    hints.append(hint);
  }
  py::dict timeline;
  timeline["before"] = report.timeline_before;
  timeline["after"] = report.timeline_after;
  py::dict result;
  result["function"] = report.function;
  result["sequence"] = report.sequence;
  result["status"] = lms::StatusName(report.status);
  result["reason"] = report.reason;
  result["assumption"] = report.assumption;
  result["stage"] = report.stage;
  result["device"] = report.device;
  result["other_devices"] = report.other_devices;
  result["budget"] = report.budget;
  result["budget_bytes"] = report.budget_bytes;
  result["resident_bytes"] = report.resident_bytes;
  result["peak_before_bytes"] = report.peak_before_bytes;
  result["peak_after_bytes"] = report.peak_after_bytes;
  result["measured_peak_bytes"] = report.measured_peak_bytes;
  result["measured_steps"] = report.measured_steps;
  result["min_budget_bytes"] = report.min_budget_bytes;
  result["predicted_time_overhead"] = report.predicted_time_overhead;
  result["time_overhead_bound"] = report.time_overhead_bound;
  result["step_time_us"] = report.step_time_us;
  result["profile"] = report.profile;
  result["profiled_share"] = report.profiled_share;
  result["swap_tier"] = report.swap_tier;
  result["swap_directory"] = report.swap_directory;
  result["swap_note"] = report.swap_note;
  result["link"] = report.link;
  result["swapped_bytes"] = report.swapped_bytes;
  result["swap_hidden"] = report.swap_hidden;
  result["swap_stall"] = report.swap_stall;
  result["planner_seconds"] = report.planner_seconds;
  result["planner_work"] = report.planner_work;
  result["stage_seconds"] = StageSeconds(report);
  result["optimizer_seconds"] = report.optimizer_seconds;
  result["nodes_before"] = report.nodes_before;
  result["nodes_after"] = report.nodes_after;
  result["sizes"] = report.sizes;
  result["warnings"] = report.warnings;
  result["decisions"] = decisions;
  result["timeline"] = timeline;
  result["kept"] = kept;
  result["hints"] = hints;
  result["details"] = DetailsHandle(report);
  return result;
}

py::dict Details(const py::capsule& handle) {
  const auto* held = handle.get_pointer<SharedDetails>();
  if (handle.name() == nullptr || std::string(handle.name()) != kDetailsName) {
    throw py::value_error("not the details of a report");
  }
  const lms::ReportDetails& details = **held;
  py::dict buffers;
  buffers["name"] = details.buffers.name;
  buffers["type"] = details.buffers.type;
  buffers["bytes"] = details.buffers.bytes;
  buffers["role"] = Numbers(details.buffers.role);
  buffers["fate"] = Numbers(details.buffers.fate);
  buffers["reason"] = details.buffers.reason;
  buffers["cost_us"] = details.buffers.cost_us;
  buffers["before"] = ToList(details.buffers.before);
  buffers["after"] = ToList(details.buffers.after);
  py::dict omitted;
  omitted["buffers"] = details.omitted_buffers;
  omitted["bytes"] = details.omitted_bytes;
  py::dict result;
  result["strings"] = details.strings;
  result["kinds"] = Names(lms::kOpKindNames);
  result["phases"] = Names(lms::kPhaseNames);
  result["roles"] = Names(lms::kRoleNames);
  result["fates"] = Names(lms::kFateNames);
  result["before"] = ToDict(details.before);
  result["after"] = py::none();
  if (!details.after.op.empty()) result["after"] = ToDict(details.after);
  result["buffers"] = buffers;
  result["peak_before"] = details.peak_before;
  result["peak_after"] = py::none();
  if (!details.after.op.empty()) result["peak_after"] = details.peak_after;
  result["omitted"] = omitted;
  return result;
}

// What other budgets would cost the step of the report of that number; None where the step is gone.
py::object PlanForBudgets(int64_t sequence, const std::vector<int64_t>& budgets, int points, double seconds) {
  const std::shared_ptr<const lms::PlannedStep> step = lms::ReportStore::Global().StepOf(sequence);
  if (step == nullptr) return py::none();
  lms::BudgetTable table;
  {
    const py::gil_scoped_release released;
    table = lms::PlanForBudgets(*step, budgets, points, seconds);
  }
  py::list rows;
  for (const lms::BudgetPoint& point : table.points) {
    rows.append(py::make_tuple(point.budget_bytes, point.peak_bytes, point.overhead, point.feasible));
  }
  py::dict result;
  result["points"] = rows;
  result["peak_bytes"] = table.peak_bytes;
  result["resident_bytes"] = table.resident_bytes;
  return std::move(result);
}

py::list Reports() {
  py::list reports;
  for (const lms::Report& report : lms::ReportStore::Global().All()) reports.append(ToDict(report));
  return reports;
}

py::list TakePlanned(const std::string& name) {
  py::list reports;
  for (const lms::Report& report : lms::PlannedReports::Global().Take(name)) reports.append(ToDict(report));
  return reports;
}

// The least severity (0: info, 1: warning, 2: error) of what TensorFlow logs from now on; returns what it was, and -1
// where TensorFlow cannot be told.
int SetLeastLogged(int severity) {
#if LMS_TF_VERSION_NUMBER >= 2018
  const int before = static_cast<int>(absl::MinLogLevel());
  absl::SetMinLogLevel(static_cast<absl::LogSeverityAtLeast>(severity));
  return before;
#else
  static_cast<void>(severity);
  return -1;
#endif
}

// What this process may still take, and what decides that.
std::pair<int64_t, std::string> AvailableMemory() {
  const lms::MemoryAvailable available = lms::AvailableMemory();
  return {available.bytes, available.bound};
}

// What the optimizer noted of the functions that it optimised with this `time_ops`.
py::list TakeTimed(const std::string& name) {
  py::list functions;
  for (const lms::TimedFunction& timed : lms::TimedStore::Global().Take(name)) {
    py::list ops;
    for (const lms::TimedOp& op : timed.ops) {
      ops.append(py::make_tuple(op.name, op.key, op.estimated_us, op.always));
    }
    py::dict function;
    function["function"] = timed.function;
    function["problem"] = timed.problem;
    function["device"] = timed.place.device;
    function["tensorflow"] = timed.place.tensorflow;
    function["lms"] = timed.place.lms;
    function["onednn"] = timed.place.onednn;
    function["path"] = lms::DefaultProfilePath(timed.place.device);
    function["ops"] = ops;
    functions.append(function);
  }
  return functions;
}

// `entries`: key -> (measured microseconds, estimated, samples). Returns the problem, and what was replaced.
std::pair<std::string, std::string> AddToProfile(
    const std::string& path, const std::string& device, const std::string& tensorflow, const std::string& version,
    bool onednn, const std::map<std::string, std::tuple<double, double, int64_t>>& entries) {
  std::map<std::string, lms::ProfileEntry> plain;
  for (const auto& [key, entry] : entries) {
    plain[key] = {std::get<0>(entry), std::get<1>(entry), std::get<2>(entry)};
  }
  lms::ProfileWritten written;
  {
    const py::gil_scoped_release released;  // another process may hold the file
    written = lms::AddToProfile(path, {device, tensorflow, version, onednn}, plain);
  }
  return {written.problem, written.replaced};
}

py::dict PlanOf(const lms::Report& report) {
  py::dict plan;
  plan["sequence"] = report.sequence;
  plan["status"] = lms::StatusName(report.status);
  plan["device"] = report.device;
  plan["devices"] = report.other_devices.size() + 1;
  plan["budget"] = report.budget;
  plan["budget_bytes"] = report.budget_bytes;
  plan["resident_bytes"] = report.resident_bytes;
  plan["peak_after_bytes"] = report.peak_after_bytes;
  return plan;
}

// What feedback has to know of the latest report on a function, and of those on its other devices; None where there is
// none.
py::object LatestPlan(const std::string& function) {
  const std::optional<lms::Report> report = lms::ReportStore::Global().Latest(function);
  if (!report) return py::none();
  py::dict plan = PlanOf(*report);
  py::list others;
  if (!report->other_devices.empty()) {
    std::set<std::string> devices(report->other_devices.begin(), report->other_devices.end());
    const std::vector<lms::Report> reports = lms::ReportStore::Global().All();
    for (auto other = reports.rbegin(); other != reports.rend(); ++other) {  // the latest first
      if (other->function == function && devices.erase(other->device) != 0) others.append(PlanOf(*other));
    }
  }
  plan["others"] = others;
  return plan;
}

// The figures of the op LmsMeasureLink: bytes per microsecond out and in, the same while both are busy, and
// microseconds of latency. Returns the problem.
std::string StoreHostLink(const std::string& device, const std::array<double, 5>& figures) {
  lms::SwapLink link;
  link.out_bytes_per_us = figures[0];
  link.in_bytes_per_us = figures[1];
  link.out_share = figures[0] > 0 ? figures[2] / figures[0] : 1;
  link.in_share = figures[1] > 0 ? figures[3] / figures[1] : 1;
  link.latency_us = figures[4];
  const py::gil_scoped_release released;
  return lms::StoreHostLink(device, link);
}

bool NeedsHostLink(const std::string& device) {
  const py::gil_scoped_release released;
  return lms::NeedsHostLink(device);
}

// The problem, and what was measured in words.
std::pair<std::string, std::string> MeasureDiskLink(const std::string& swap_to) {
  const py::gil_scoped_release released;
  std::string text;
  const std::string problem = lms::MeasureDiskAnew(swap_to, &text);
  return {problem, text};
}

void InjectFailure(const std::string& stage, const std::string& kind, int at, int times) {
  if (!lms::InjectFailure(stage, kind, at, times)) {
    throw py::value_error("no stage is called '" + stage + "', or no failure '" + kind + "'");
  }
}

// True, False, whole numbers, numbers and text: the order matters, as True is a number too.
std::vector<std::string> CheckOptions(const py::dict& options) {
  lms::OptionMap map;
  std::vector<std::string> problems;
  for (const auto& [key, value] : options) {
    const std::string name = py::cast<std::string>(key);
    if (py::isinstance<py::bool_>(value)) {
      map[name] = py::cast<bool>(value);
    } else if (py::isinstance<py::int_>(value)) {
      try {
        map[name] = py::cast<int64_t>(value);
      } catch (const py::cast_error&) {
        problems.push_back(name + " is a number of more than 64 bits");
      }
    } else if (py::isinstance<py::float_>(value)) {
      map[name] = py::cast<double>(value);
    } else if (py::isinstance<py::str>(value)) {
      map[name] = py::cast<std::string>(value);
    } else {
      problems.push_back("option '" + name + "' has a value of type " +
                         py::cast<std::string>(py::str(py::type::of(value).attr("__name__"))) +
                         "; accepted are bool, int, float and str");
    }
  }
  lms::Options parsed;
  const std::vector<std::string> more = lms::ParseOptions(map, &parsed);
  problems.insert(problems.end(), more.begin(), more.end());
  return problems;
}

using PyShape = std::vector<int64_t>;
using PyArgument = std::tuple<std::string, std::string, bool, std::vector<std::optional<PyShape>>>;

// What is wrong with the option, which check_options accepts, for a function that has these arguments.
std::vector<std::string> UnknownDimProblems(const std::string& unknown_dim, const std::vector<PyArgument>& arguments) {
  lms::UnknownDim parsed;
  const std::optional<std::string> problem = lms::ParseUnknownDim(unknown_dim, &parsed);
  if (problem) return {"unknown_dim " + *problem};
  std::vector<lms::Argument> plain;
  for (const auto& [name, user_name, iterator, shapes] : arguments) {
    plain.push_back({name, user_name, static_cast<int>(plain.size()), iterator, shapes});
  }
  return lms::SizeArguments(plain, parsed, {}, 1).problems;
}

// What the swap ops of this process have moved and hold (lms._native.pyi tells the units).
py::dict SwapStatistics() {
  const lms::SpillStatistics disk = lms::SharedSpillStatistics();
  py::dict statistics;
  statistics["written_bytes"] = disk.written_bytes;
  statistics["read_bytes"] = disk.read_bytes;
  statistics["write_seconds"] = disk.write_seconds;
  statistics["read_seconds"] = disk.read_seconds;
  statistics["processor_seconds"] = disk.processor_seconds;
  statistics["stored_bytes"] = disk.stored_bytes;
  statistics["peak_stored_bytes"] = disk.peak_stored_bytes;
  statistics["file_bytes"] = disk.file_bytes;
  statistics["host_bytes"] = lms::HostBytes::InUse();
  statistics["peak_host_bytes"] = lms::HostBytes::Peak();
  return statistics;
}

// The figures of a SwapLink; "problem" is empty where they could be measured.
py::dict MeasureSpill(const std::string& directory, int64_t bytes) {
  std::string problem;
  lms::SwapLink link;
  {
    const py::gil_scoped_release released;
    link = lms::MeasureSpill(directory, bytes, &problem);
  }
  py::dict figures;
  figures["out_bytes_per_us"] = link.out_bytes_per_us;
  figures["in_bytes_per_us"] = link.in_bytes_per_us;
  figures["out_share"] = link.out_share;
  figures["in_share"] = link.in_share;
  figures["latency_us"] = link.latency_us;
  figures["compute_us_per_byte"] = link.compute_us_per_byte;
  figures["capacity_bytes"] = link.capacity_bytes;
  figures["problem"] = problem;
  return figures;
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  static const bool registered = lms::RegisterOptimizer();
  m.doc() = "The native part of lms: the Grappler optimizer LmsOptimizer, its reports and the memory counter.";
  m.def("build_facts", &BuildFacts);
  m.def("registration", [] { return registered ? "registered" : "duplicate"; });
  m.def("option_specs", &OptionSpecs);
  m.def("check_options", &CheckOptions, py::arg("options"));
  m.def("parse_bytes", &lms::ParseBytes, py::arg("text"));
  m.def("unknown_dim_problems", &UnknownDimProblems, py::arg("unknown_dim"), py::arg("arguments"));
  m.def("reports", &Reports);
  m.def("report_details", &Details, py::arg("handle"));
  m.def("plan_for_budgets", &PlanForBudgets, py::arg("sequence"), py::arg("budgets"), py::arg("points"),
        py::arg("seconds"));
  m.def("clear_reports", [] { lms::ReportStore::Global().Clear(); });
  m.def("take_planned", &TakePlanned, py::arg("name"));
  m.def("set_least_logged", &SetLeastLogged, py::arg("severity"));
  m.def("available_memory", &AvailableMemory);
  m.def("report_count", [] { return lms::ReportStore::Global().count(); });
  m.def("stages", &lms::Stages);
  m.def("failure_places", &lms::FailurePlaces);
  m.def("failure_kinds", &lms::FailureKinds);
  m.def("set_least_activation_bytes", &lms::SetLeastActivationBytes, py::arg("bytes"),
        "For tests: relative budgets also for steps that hold less than 256 KiB.");
  m.def("inject_failure", &InjectFailure, py::arg("stage"), py::arg("kind") = "error", py::arg("at") = 1,
        py::arg("times") = 0);
  m.def("take_timed", &TakeTimed, py::arg("name"));
  m.def("add_to_profile", &AddToProfile, py::arg("path"), py::arg("device"), py::arg("tensorflow"), py::arg("lms"),
        py::arg("onednn"), py::arg("entries"));
  m.def("needs_host_link", &NeedsHostLink, py::arg("device"));
  m.def("store_host_link", &StoreHostLink, py::arg("device"), py::arg("figures"));
  m.def("measure_disk_link", &MeasureDiskLink, py::arg("swap_to"));
  m.def("latest_plan", &LatestPlan, py::arg("function"));
  m.def("note_session_sizes", &lms::NoteSessionSizes, py::arg("session"), py::arg("text"));
  m.def("recorded_sizes", &lms::RecordedSizesOf, py::arg("function"));
  m.def("keeps_random_state", &lms::KeepsState, py::arg("function"));
  m.def(
      "set_measured",
      [](int64_t sequence, int64_t peak_bytes, int steps, const std::string& warning) {
        return lms::ReportStore::Global().SetMeasured(sequence, peak_bytes, steps, warning);
      },
      py::arg("sequence"), py::arg("peak_bytes"), py::arg("steps"), py::arg("warning"));
  m.def("swap_statistics", &SwapStatistics);
  m.def("reset_swap_statistics", [] {
    lms::ResetSharedSpillStatistics();
    lms::HostBytes::ResetPeak();
  });
  m.def("trim_spill", &lms::TrimSharedSpillStores, py::call_guard<py::gil_scoped_release>());
  m.def("measure_spill", &MeasureSpill, py::arg("directory"), py::arg("bytes"));
  m.def("begin_peak_scope", [] { return lms::StartCounting().empty() && lms::BeginPeakScope(); });
  m.def("end_peak_scope", &lms::EndPeakScope);
  m.def("begin_holder_scope", [] { return lms::StartCounting().empty() && lms::BeginPeakScope(/*holders=*/true); });
  m.def("end_holder_scope", [] {
    std::vector<std::pair<int64_t, std::string>> held;
    for (const lms::HeldBlock& block : lms::EndPeakScopeWithHolders()) held.emplace_back(block.bytes, block.op);
    return held;
  });
  m.def(
      "end_peak_scope_of_step",
      [](const std::vector<int64_t>& batch) {
        const lms::StepPeak peak = lms::EndPeakScopeOfStep(batch);
        return std::make_tuple(peak.bytes, peak.complete);
      },
      py::arg("batch"));
  m.def("end_peak_scope_beside_others", &lms::EndPeakScopeBesideOthers);
  m.def("memory_error", &lms::StartCounting);
  m.def("memory_reset_peak", [] {
    lms::StartCounting();
    lms::ResetPeak();
  });
  m.def("memory_peak_bytes", [] {
    lms::StartCounting();
    return lms::PeakBytes();
  });
  m.def("memory_bytes_in_use", [] {
    lms::StartCounting();
    return lms::BytesInUse();
  });
}
