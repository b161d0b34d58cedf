// The Python module lms._native: a thin door to the library, which is loaded before. Only bytes, numbers, strings and
// containers of them cross to the library, and nothing of TensorFlow is included: it works with any TensorFlow that
// there is a library for.
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
#include "cc/core/options/session_notes.h"
#include "cc/core/profile/profile_file.h"
#include "cc/core/report/earlier_plans.h"
#include "cc/core/report/planning_now.h"
#include "cc/core/report/report.h"
#include "cc/core/report/report_store.h"
#include "cc/core/simulate/arena_replay.h"
#include "cc/core/spill/spill_measure.h"
#include "cc/core/spill/spill_store.h"
#include "cc/core/system/system_memory.h"
#include "cc/python/live_objects.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/library.h"
#include "cc/tf/pass/prepared_steps.h"
#include "cc/tf/pass/step_pareto.h"
#include "cc/tf/pass/swap_choice.h"
#include "cc/tf/pass/timed_functions.h"
#include "cc/tf/predict/arena_trace.h"
#include "cc/tf/runtime/change_marks.h"
#include "cc/tf/runtime/host_bytes.h"
#include "cc/tf/runtime/memory_counter.h"
#include "cc/tf/runtime/placed_memory.h"
#include "cc/tf/runtime/size_record.h"
#include "cc/tf/stock/kept_state.h"

namespace py = pybind11;

namespace {

using py::literals::operator""_a;

std::vector<std::map<std::string, std::string>> OptionSpecs() {
  std::vector<std::map<std::string, std::string>> specs;
  for (const lms::OptionSpec& spec : lms::OptionSpecs()) {
    specs.push_back(
        {{"name", spec.name}, {"type", spec.type}, {"default", spec.default_value}, {"accepted", spec.accepted}});
  }
  return specs;
}

py::object PlanningNow() {
  const std::optional<lms::PlanningNow> now = lms::PlanningMark::First();
  if (!now) return py::none();
  return py::make_tuple(now->function, now->operations, now->stage, now->seconds);
}

std::map<std::string, std::string> RenamedOptions() {
  std::map<std::string, std::string> renamed;
  for (const lms::RenamedOption& option : lms::RenamedOptions()) renamed.emplace(option.before, option.name);
  return renamed;
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
  [[maybe_unused]] const SharedDetails* const owned_by_handle = held.release();
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
  return py::dict("op"_a = step.op, "type"_a = step.type, "kind"_a = Numbers(step.kind),
                  "phase"_a = Numbers(step.phase), "start_us"_a = step.start_us, "took_us"_a = step.took_us,
                  "bytes"_a = step.bytes);
}

py::dict ToDict(const lms::Decision& decision) {
  return py::dict("kind"_a = decision.kind, "op"_a = decision.op, "op_type"_a = decision.op_type,
                  "tensor_bytes"_a = decision.tensor_bytes, "cost_us"_a = decision.cost_us,
                  "priced_by"_a = decision.priced_by, "position"_a = decision.position, "before"_a = decision.before,
                  "trigger"_a = decision.trigger, "transfer_us"_a = decision.transfer_us,
                  "stall_us"_a = decision.stall_us);
}

py::dict ToDict(const lms::KeptTensors& kept) {
  return py::dict("reason"_a = kept.reason, "tensors"_a = kept.tensors, "bytes"_a = kept.bytes);
}

py::dict ToDict(const lms::HintReport& hint) {
  return py::dict("kind"_a = hint.kind, "where"_a = hint.where, "tensors"_a = hint.tensors, "bytes"_a = hint.bytes,
                  "cost_us"_a = hint.cost_us, "peak_bytes"_a = hint.peak_bytes,
                  "peak_without_bytes"_a = hint.peak_without_bytes, "not_followed"_a = hint.not_followed);
}

py::dict ToDict(const lms::Report& report);

template <typename T>
py::list ToDicts(const std::vector<T>& entries) {
  py::list dicts;
  for (const T& entry : entries) dicts.append(ToDict(entry));
  return dicts;
}

py::dict ToDict(const lms::Report& report) {
  return py::dict(
      "function"_a = report.function, "sequence"_a = report.sequence, "status"_a = lms::StatusName(report.status),
      "reason"_a = report.reason, "assumption"_a = report.assumption, "stage"_a = report.stage,
      "device"_a = report.device, "other_devices"_a = report.other_devices, "budget"_a = report.budget,
      "budget_bytes"_a = report.budget_bytes, "resident_bytes"_a = report.resident_bytes,
      "peak_before_bytes"_a = report.peak_before_bytes, "peak_after_bytes"_a = report.peak_after_bytes,
      "lost_before_bytes"_a = report.lost_before_bytes, "lost_after_bytes"_a = report.lost_after_bytes,
      "measured_peak_bytes"_a = report.measured_peak_bytes, "measured_steps"_a = report.measured_steps,
      "min_budget_bytes"_a = report.min_budget_bytes, "predicted_time_overhead"_a = report.predicted_time_overhead,
      "time_overhead_bound"_a = report.time_overhead_bound, "step_time_us"_a = report.step_time_us,
      "profile"_a = report.profile, "profiled_share"_a = report.profiled_share, "swap_tier"_a = report.swap_tier,
      "swap_directory"_a = report.swap_directory, "swap_note"_a = report.swap_note, "link"_a = report.link,
      "swapped_bytes"_a = report.swapped_bytes, "swap_hidden"_a = report.swap_hidden,
      "swap_stall"_a = report.swap_stall, "planner_seconds"_a = report.planner_seconds,
      "planner_work"_a = report.planner_work, "stage_seconds"_a = py::dict(py::cast(report.stage_seconds)),
      "optimizer_seconds"_a = report.optimizer_seconds, "nodes_before"_a = report.nodes_before,
      "nodes_after"_a = report.nodes_after, "sizes"_a = report.sizes, "warnings"_a = report.warnings,
      "decisions"_a = ToDicts(report.decisions),
      "timeline"_a = py::dict("before"_a = report.timeline_before, "after"_a = report.timeline_after),
      "order_peaks"_a = py::dict("before"_a = report.order_peaks_before, "after"_a = report.order_peaks_after),
      "kept"_a = ToDicts(report.kept), "hints"_a = ToDicts(report.hints), "details"_a = DetailsHandle(report));
}

py::dict Details(const py::capsule& handle) {
  const auto* held = handle.get_pointer<SharedDetails>();
  if (handle.name() == nullptr || std::string(handle.name()) != kDetailsName) {
    throw py::value_error("not the details of a report");
  }
  const lms::ReportDetails& details = **held;
  const lms::BufferColumns& columns = details.buffers;
  const bool rewritten = !details.after.op.empty();
  const py::dict buffers("name"_a = columns.name, "type"_a = columns.type, "bytes"_a = columns.bytes,
                         "role"_a = Numbers(columns.role), "fate"_a = Numbers(columns.fate),
                         "reason"_a = columns.reason, "cost_us"_a = columns.cost_us, "before"_a = columns.before,
                         "after"_a = columns.after);
  return py::dict("strings"_a = details.strings, "kinds"_a = Names(lms::kOpKindNames),
                  "phases"_a = Names(lms::kPhaseNames), "roles"_a = Names(lms::kRoleNames),
                  "fates"_a = Names(lms::kFateNames), "before"_a = ToDict(details.before),
                  "after"_a = rewritten ? py::object(ToDict(details.after)) : py::none(), "buffers"_a = buffers,
                  "peak_before"_a = details.peak_before,
                  "peak_after"_a = rewritten ? py::object(py::int_(details.peak_after)) : py::none(),
                  "omitted"_a = py::dict("buffers"_a = details.omitted_buffers, "bytes"_a = details.omitted_bytes));
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
  return py::dict("points"_a = rows, "peak_bytes"_a = table.peak_bytes, "resident_bytes"_a = table.resident_bytes);
}

// What the optimizer noted of the functions that it optimised with this `time_ops`.
py::list TakeTimed(const std::string& name) {
  py::list functions;
  for (const lms::TimedFunction& timed : lms::TimedFunctions().Take(name)) {
    py::list ops;
    for (const lms::TimedOp& op : timed.ops) {
      ops.append(py::make_tuple(op.name, op.key, op.estimated_us, op.always));
    }
    functions.append(py::dict("function"_a = timed.function, "problem"_a = timed.problem,
                              "device"_a = timed.place.device, "tensorflow"_a = timed.place.tensorflow,
                              "lms"_a = timed.place.lms, "onednn"_a = timed.place.onednn,
                              "path"_a = lms::DefaultProfilePath(timed.place.device), "ops"_a = ops));
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
  return py::dict("sequence"_a = report.sequence, "status"_a = lms::StatusName(report.status),
                  "device"_a = report.device, "devices"_a = report.other_devices.size() + 1, "budget"_a = report.budget,
                  "budget_bytes"_a = report.budget_bytes, "resident_bytes"_a = report.resident_bytes,
                  "peak_after_bytes"_a = report.peak_after_bytes);
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

// Of the tensors that have places beforehand (lms._native.pyi).
py::dict PlaceCounts() {
  const lms::PlacedCounts counts = lms::CountsOfPlaces();
  return py::dict("placed"_a = counts.placed, "displaced"_a = counts.displaced, "overflowed"_a = counts.overflowed,
                  "refused"_a = counts.refused);
}

// Of the pool's requests since the beginning of the trace, and of its model (lms._native.pyi).
py::dict StopArenaTrace() {
  const lms::ArenaTrace trace = lms::StopArenaTrace();
  const lms::ArenaReplay replay = lms::Replay(trace.before, trace.requests, trace.after);
  return py::dict("requests"_a = replay.requests, "differences"_a = replay.differences,
                  "peak_bytes"_a = replay.seen_peak_bytes, "model_peak_bytes"_a = replay.peak_bytes,
                  "same_map"_a = replay.same_map, "total_peak_bytes"_a = trace.peak_bytes,
                  "total_bytes_before"_a = trace.bytes_before);
}

// What the swap ops of this process have moved and hold (lms._native.pyi tells the units).
py::dict SwapStatistics() {
  const lms::SpillStatistics disk = lms::SharedSpillStatistics();
  return py::dict("written_bytes"_a = disk.written_bytes, "read_bytes"_a = disk.read_bytes,
                  "write_seconds"_a = disk.write_seconds, "read_seconds"_a = disk.read_seconds,
                  "processor_seconds"_a = disk.processor_seconds, "stored_bytes"_a = disk.stored_bytes,
                  "peak_stored_bytes"_a = disk.peak_stored_bytes, "file_bytes"_a = disk.file_bytes,
                  "host_bytes"_a = lms::HostBytes::InUse(), "peak_host_bytes"_a = lms::HostBytes::Peak());
}

py::list PlanPrepared(const std::string& name, const py::bytes& entry) {
  const std::string config = entry;
  std::vector<lms::Report> reports;
  {
    const py::gil_scoped_release released;
    reports = lms::PlanPrepared(name, config);
  }
  return ToDicts(reports);
}

// The figures of a SwapLink; "problem" is empty where they could be measured.
py::dict MeasureSpill(const std::string& directory, int64_t bytes) {
  std::string problem;
  lms::SwapLink link;
  {
    const py::gil_scoped_release released;
    link = lms::MeasureSpill(directory, bytes, &problem);
  }
  return py::dict("out_bytes_per_us"_a = link.out_bytes_per_us, "in_bytes_per_us"_a = link.in_bytes_per_us,
                  "out_share"_a = link.out_share, "in_share"_a = link.in_share, "latency_us"_a = link.latency_us,
                  "compute_us_per_byte"_a = link.compute_us_per_byte, "capacity_bytes"_a = link.capacity_bytes,
                  "problem"_a = problem);
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  lms::IsTheOneRegistered();
  m.doc() = "The native part of lms: the Grappler optimizer LmsOptimizer, its reports and the memory counter.";
  m.def("build_facts", &lms::BuildFacts);
  m.def("registration", [] { return lms::IsTheOneRegistered() ? "registered" : "duplicate"; });
  m.def("option_specs", &OptionSpecs);
  m.def("planning_now", &PlanningNow);
  m.def("renamed_options", &RenamedOptions);
  m.def("check_options", &CheckOptions, py::arg("options"));
  m.def("parse_bytes", &lms::ParseBytes, py::arg("text"));
  m.def("unknown_dim_problems", &UnknownDimProblems, py::arg("unknown_dim"), py::arg("arguments"));
  m.def("reports", [] { return ToDicts(lms::ReportStore::Global().All()); });
  m.def("report_details", &Details, py::arg("handle"));
  m.def("plan_for_budgets", &PlanForBudgets, py::arg("sequence"), py::arg("budgets"), py::arg("points"),
        py::arg("seconds"));
  m.def("clear_reports", [] { lms::ReportStore::Global().Clear(); });
  m.def("plan_prepared", &PlanPrepared, py::arg("name"), py::arg("entry"));
  m.def("forget_prepared", &lms::ForgetPrepared, py::arg("name"));
  m.def("set_least_logged", &lms::SetLeastLogged, py::arg("severity"));
  m.def("available_memory", [] {
    const lms::MemoryAvailable available = lms::CpuMemoryLeft();
    return std::make_pair(available.bytes, available.bound);
  });
  m.def("cpu_pool_limit", &lms::CpuPoolLimit);
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
  m.def("needs_host_link", &lms::NeedsHostLink, py::arg("device"), py::call_guard<py::gil_scoped_release>());
  m.def("store_host_link", &StoreHostLink, py::arg("device"), py::arg("figures"));
  m.def("measure_disk_link", &MeasureDiskLink, py::arg("swap_to"));
  m.def("latest_plan", &LatestPlan, py::arg("function"));
  m.def("forget_earlier_plans", [] { lms::EarlierPlans::Global().Clear(); });
  m.def("note_session_sizes", &lms::NoteSessionSizes, py::arg("session"), py::arg("text"));
  m.def("note_step_in_parts", &lms::NoteStepInParts, py::arg("session"), py::arg("begins"));
  m.def("recorded_sizes", &lms::RecordedSizesOf, py::arg("function"));
  m.def("keeps_random_state", &lms::KeepsState, py::arg("function"));
  m.def("forget_changes", &lms::ForgetChanges, py::arg("function"));
  m.def(
      "undo_changes",
      [](const std::string& function) {
        const lms::Undone result = lms::UndoChanges(function);
        return py::make_tuple(result.undone ? "" : result.why_not, result.element);
      },
      py::arg("function"));
  m.def(
      "set_measured",
      [](int64_t sequence, int64_t peak_bytes, int steps, const std::string& warning) {
        return lms::ReportStore::Global().SetMeasured(sequence, peak_bytes, steps, warning);
      },
      py::arg("sequence"), py::arg("peak_bytes"), py::arg("steps"), py::arg("warning"));
  m.def("place_counts", &PlaceCounts);
  m.def("watch_pool", &lms::WatchPool);
  m.def("start_arena_trace", &lms::StartArenaTrace);
  m.def("stop_arena_trace", &StopArenaTrace);
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
  m.def("live_objects", &lms::LiveObjects, py::arg("types"));
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
