#include "cc/tf/predict/execution.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/simulate/overlap.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/graph/variable_assigns.h"
#include "cc/tf/predict/held_copies.h"
#include "cc/tf/predict/outcomes.h"
#include "cc/tf/stock/executor_model.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/util/env_var.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

// Orders that are drawn: the more, the rarer are the kinds that are met. Fewer where many nodes make each take long.
constexpr uint32_t kMostDraws = 32;
constexpr uint32_t kLeastDraws = 16;
constexpr uint32_t kNodesDrawn = 200000;
constexpr double kLate = 10;
constexpr double kLongCallUs = 50000;
constexpr double kLateCopyUs = 1e6;
constexpr double kOtherThanPriced = 3;  // times as long as its price, or as short, may an op take
constexpr int kOpsOfStall = 50;         // one of so many ops is held up, as its thread has to give way to another
constexpr double kStallUs = 4000;
constexpr int64_t kSmallPart = 2000;
// Places are looked for that fit all orders, then such that are taken already in some of them.
constexpr double kRareMeetings[] = {0, 0.1, 0.3};
constexpr size_t kMostTried = 6;

std::vector<RunEvent> OneByOne(const MemGraph& graph) {
  std::vector<RunEvent> run;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    run.push_back({op, false});
    run.push_back({op, true});
  }
  return run;
}

// By buffer: is it what a variable is afterwards? Other updates change a variable where it is.
std::vector<bool> BecomeVariables(const tensorflow::GraphDef& graph, const ImportedGraph& imported, Assigned assigned) {
  const std::vector<MemBuffer>& buffers = imported.graph.buffers;
  std::vector<bool> become(buffers.size(), false);
  for (const MemBuffer& variable : buffers) {
    if (!variable.resident) continue;
    for (const OpId writer : variable.overwritten_by) {
      const tensorflow::NodeDef& node = graph.node(imported.node_of_op[writer]);
      if (node.op() != "AssignVariableOp" || (assigned == Assigned::kStays && MayAssignInPlace(node))) continue;
      for (const BufferId value : imported.graph.ops[writer].inputs) {
        if (!buffers[value].resident && buffers[value].bytes == variable.bytes) become[value] = true;
      }
    }
  }
  return become;
}

// The ops in the order in which they begin.
std::vector<OpId> Begun(const std::vector<RunEvent>& run) {
  std::vector<OpId> order;
  for (const RunEvent& event : run) {
    if (!event.ends) order.push_back(event.op);
  }
  return order;
}

// Prices are estimates, and processors are shared.
void TakeOtherTimes(std::mt19937* random, std::vector<double>* microseconds) {
  std::uniform_real_distribution<double> exponent(-1, 1);
  std::uniform_int_distribution<int> stalls(1, kOpsOfStall);
  for (double& us : *microseconds) {
    us *= std::pow(kOtherThanPriced, exponent(*random));
    if (stalls(*random) == 1) us += kStallUs;
  }
}

// `places`: of the arenas; may be null. `lifetimes`, unless it is null, gets what each run allocates. With either as
// many runs again count in which ops take other times: a place is of use only if nobody is there yet.
MemoryProfile Highest(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                      const MemGraph& memory, int threads, const std::vector<ArenaSettings>& arenas,
                      const Deadline& deadline, Assigned assigned, const Places* places, RunRecord* record = nullptr,
                      std::vector<std::vector<Lifetime>>* lifetimes = nullptr) {
  // What is outside of a loop may run beside its first iteration, and what enters it is there in all others: half of
  // the orders are of each.
  using Iteration = ExecutorModel::Iteration;
  const bool onednn = tensorflow::IsMKLEnabled();
  const ExecutorModel first(graph, index, onednn, EdgeDraws::kByAddress, Iteration::kFirst, imported.arrivals);
  std::optional<ExecutorModel> middle;
  if (index.frames() > 1) {
    middle.emplace(graph, index, onednn, EdgeDraws::kByAddress, Iteration::kMiddle, imported.arrivals);
  }
  const auto nodes = static_cast<uint32_t>(std::max(1, index.size()));
  const uint32_t as_priced = std::clamp(kNodesDrawn / nodes, kLeastDraws, kMostDraws);
  const uint32_t draws = threads > 1 && (places != nullptr || lifetimes != nullptr) ? 2 * as_priced : as_priced;
  std::vector<double> microseconds(index.size(), 0);
  for (size_t i = 0; i < imported.node_of_op.size(); ++i) {
    microseconds[imported.node_of_op[i]] = imported.graph.ops[i].cost_us;
  }
  // Whether a variable is updated while it is still being read is a race: every other run has it lost.
  std::vector<double> readers_late = microseconds;
  for (const HeldRead& held : imported.held_reads) {
    readers_late[imported.node_of_op[held.reader]] *= kLate;
  }
  // Of how long calls take nothing is known: in the same runs it is long, so that they are seen side by side.
  for (int i = 0; i < index.size(); ++i) {
    const std::string& type = graph.node(i).op();
    if (type == "PartitionedCall" || type == "StatefulPartitionedCall") {
      readers_late[i] = std::max(readers_late[i], kLongCallUs);
    }
  }
  // What results hold that lie among rows depends on the order.
  const bool moving = !imported.takeovers.empty();
  MemGraph of_run = moving ? memory : MemGraph();
  MemGraph of_highest;
  MemoryProfile highest;
  std::vector<RunEvent> highest_run;
  const std::vector<Outcome> outcomes = FindOutcomes(index, imported);
  const HeldCopies held_copies(graph, index, imported);
  std::vector<bool> highest_dead;
  // Draws are steps one after the other there.
  std::vector<std::optional<DeviceMemory>> devices;
  for (const ArenaSettings& arena : arenas) {
    devices.emplace_back(std::in_place, arena, memory, BecomeVariables(graph, imported, assigned), places);
  }
  if (devices.empty()) devices.emplace_back();
  std::optional<DeviceMemory> highest_device;
  int64_t lacking = 0;
  int64_t lacking_as_is = 0;
  int64_t outside = 0;
  std::vector<int64_t> order_peaks(draws, 0);
  for (uint32_t draw = 0; draw < draws; ++draw) {
    deadline.Check();
    std::vector<double> durations = draw % 2 == 0 || threads == 1 ? microseconds : readers_late;
    // When a copy from elsewhere has come nobody knows: what else is ready runs before that, or after it.
    std::mt19937 random(draw);
    if (draw >= as_priced) TakeOtherTimes(&random, &durations);
    for (const int node : imported.arrivals) durations[node] = random() % 2 == 0 ? kLateCopyUs : 0;
    const ExecutorModel& model = middle && draw / 2 % 2 == 0 ? *middle : first;
    for (const Outcome& outcome : outcomes) {
      std::vector<ExecutorModel::Event> events =
          model.RunOnThreads(draw, threads, durations, imported.one_lane, outcome.dead);
      // Outcomes that never come together leave some waiting.
      const bool ended = outcome.dead.empty() || events.size() == 2 * imported.graph.ops.size();
      if (!ended) events = model.RunOnThreads(draw, threads, durations, imported.one_lane);
      std::vector<RunEvent> run;
      for (const ExecutorModel::Event& event : events) run.push_back({imported.op_of_node[event.node], event.ends});
      run = held_copies.HoldIn(run);
      if (run.size() != 2 * imported.graph.ops.size()) {
        if (record != nullptr) RecordRun(memory, OneByOne(memory), {}, record);
        return Simulate(memory, Plan());
      }
      if (moving) ApplyTakeovers(imported.takeovers, Begun(run), &of_run);
      if (lifetimes != nullptr) lifetimes->emplace_back();
      for (std::optional<DeviceMemory>& device : devices) {
        const std::optional<DeviceMemory> before = record == nullptr ? std::nullopt : device;
        MemoryProfile profile =
            SimulateRun(moving ? of_run : memory, run, imported.held_reads, outcome.makes_nothing,
                        device ? &*device : nullptr, lifetimes == nullptr ? nullptr : &lifetimes->back());
        lacking = std::max(lacking, profile.lacking_bytes);
        if (&device == &devices.front()) lacking_as_is = std::max(lacking_as_is, profile.lacking_bytes);
        outside = std::max(outside, profile.outside_bytes);
        order_peaks[draw] = std::max(order_peaks[draw], profile.peak_bytes);
        if (profile.peak_bytes <= highest.peak_bytes) continue;
        highest = std::move(profile);
        if (record == nullptr) continue;
        if (moving) of_highest = of_run;
        highest_run = run;
        highest_dead = outcome.makes_nothing;
        highest_device = before;
      }
    }
  }
  if (record != nullptr) {
    RecordRun(moving ? of_highest : memory, highest_run, imported.held_reads, record, highest_dead,
              highest_device ? &*highest_device : nullptr);
  }
  highest.lacking_bytes = lacking;
  highest.lacking_as_is = lacking_as_is;
  highest.outside_bytes = outside;
  std::sort(order_peaks.begin(), order_peaks.end());
  highest.order_peaks = std::move(order_peaks);
  return highest;
}

// Places in what is free when a step begins: in all arenas, so in the one that has least of that.
std::vector<Places> PlacesIn(const std::vector<ArenaSettings>& arenas, const MemGraph& memory,
                             const std::vector<std::vector<Lifetime>>& lifetimes, double rare) {
  std::vector<int64_t> fewest;
  int64_t fewest_bytes = 0;
  for (const ArenaSettings& arena : arenas) {
    std::vector<int64_t> free = DeviceMemory(arena, memory).FreePieces();
    const int64_t bytes = std::accumulate(free.begin(), free.end(), int64_t{0});
    if (!fewest.empty() && bytes >= fewest_bytes) continue;
    fewest = std::move(free);
    fewest_bytes = bytes;
  }
  // What is so small a part of the whole fits in between.
  const int64_t least = std::max(arenas.front().least_bytes, fewest_bytes / kSmallPart);
  return FindPlaces(lifetimes, std::move(fewest), least, rare);
}

// Is what iterations hold together there in every run? On other devices than the CPU it does not depend on threads.
bool OverlapsCount(const ImportedGraph& imported, int threads) {
  return threads == 1 || imported.overlaps.empty() || DeviceType(imported.device) != "CPU";
}

}  // namespace

int InterOpThreads(const tensorflow::ConfigProto& config) {
  if (config.use_per_session_threads() && config.inter_op_parallelism_threads() < 0) return 1;
  if (config.inter_op_parallelism_threads() > 0) return config.inter_op_parallelism_threads();
  int64_t threads = 0;
  if (tensorflow::ReadInt64FromEnvVar("TF_NUM_INTEROP_THREADS", 0, &threads).ok() && threads > 0) {
    return static_cast<int>(threads);
  }
  return tensorflow::port::MaxParallelism();
}

MemoryProfile PredictMemory(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                            int threads, const std::vector<ArenaSettings>& arenas, const Deadline& deadline,
                            RunRecord* record, Assigned assigned, Places* places) {
  MemGraph usual;
  if (!OverlapsCount(imported, threads)) {
    usual = imported.graph;
    for (const BufferId b : imported.overlaps) usual.buffers[b].bytes = 0;
  }
  const MemGraph& memory = usual.ops.empty() ? imported.graph : usual;
  if (places == nullptr || arenas.empty()) {
    return Highest(graph, index, imported, memory, threads, arenas, deadline, assigned, nullptr, record);
  }
  *places = Places();
  std::vector<std::vector<Lifetime>> lifetimes;
  RunRecord of_requests;
  MemoryProfile requests = Highest(graph, index, imported, memory, threads, arenas, deadline, assigned, nullptr,
                                   record == nullptr ? nullptr : &of_requests, &lifetimes);
  std::vector<std::vector<Places::Entry>> tried;
  for (const double rare : kRareMeetings) {
    if (requests.lacking_bytes == 0) break;
    for (Places& found : PlacesIn(arenas, memory, lifetimes, rare)) {
      if (tried.size() == kMostTried || std::find(tried.begin(), tried.end(), found.entries) != tried.end()) continue;
      tried.push_back(found.entries);
      *places = std::move(found);
      MemoryProfile placed =
          Highest(graph, index, imported, memory, threads, arenas, deadline, assigned, places, record);
      if (placed.lacking_bytes == 0) return placed;
    }
  }
  *places = Places();
  if (record != nullptr) *record = std::move(of_requests);
  return requests;
}

int64_t PeakAtWorst(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                    int threads, const std::vector<ArenaSettings>& arenas, const MemoryProfile& usual,
                    const Deadline& deadline, Assigned assigned, const Places* places) {
  if (imported.ahead.empty() && OverlapsCount(imported, threads)) return usual.peak_bytes;
  MemGraph worst = imported.graph;
  for (const WorstBytes& ahead : imported.ahead) worst.buffers[ahead.buffer].bytes = ahead.bytes;
  return std::max(usual.peak_bytes,
                  Highest(graph, index, imported, worst, threads, arenas, deadline, assigned, places).peak_bytes);
}

}  // namespace lms
