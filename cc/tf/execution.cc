#include "cc/tf/execution.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/overlap.h"
#include "cc/tf/executor_model.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/util/env_var.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

constexpr uint32_t kDraws = 8;
constexpr double kLate = 10;
constexpr double kLongCallUs = 50000;

struct TimedRun {
  std::vector<RunEvent> events;
  std::vector<double> at_us;  // per event

  void Add(OpId op, bool ends, double us) {
    events.push_back({op, ends});
    at_us.push_back(us);
  }
};

TimedRun OneByOne(const MemGraph& graph) {
  TimedRun run;
  double now_us = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    run.Add(op, false, now_us);
    now_us += graph.ops[op].cost_us;
    run.Add(op, true, now_us);
  }
  return run;
}

void Record(const MemGraph& memory, const TimedRun& run, const std::vector<HeldRead>& held_reads, RunRecord* record) {
  if (record == nullptr) return;
  *record = RunRecord();
  RecordRun(memory, run.events, held_reads, record);
  std::vector<int32_t> position(memory.ops.size(), kNone);
  for (size_t e = 0; e < run.events.size(); ++e) {
    int32_t& at = position[run.events[e].op];
    if (run.events[e].ends) {
      record->took_us[at] = run.at_us[e] - record->start_us[at];
      continue;
    }
    at = static_cast<int32_t>(record->start_us.size());
    record->start_us.push_back(run.at_us[e]);
    record->took_us.push_back(0);
  }
}

MemoryProfile Highest(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                      const MemGraph& memory, int threads, const Deadline& deadline, RunRecord* record = nullptr) {
  const ExecutorModel model(graph, index, tensorflow::IsMKLEnabled());
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
  MemoryProfile highest;
  TimedRun highest_run;
  for (uint32_t seed = 0; seed < kDraws; ++seed) {
    deadline.Check();
    TimedRun run;
    const std::vector<double>& durations = seed % 2 == 0 || threads == 1 ? microseconds : readers_late;
    for (const ExecutorModel::Event& event : model.RunOnThreads(seed, threads, durations, imported.one_lane)) {
      run.Add(imported.op_of_node[event.node], event.ends, event.at_us);
    }
    if (run.events.size() != 2 * imported.graph.ops.size()) {
      Record(memory, OneByOne(memory), {}, record);
      return Simulate(memory, Plan());
    }
    MemoryProfile profile = SimulateRun(memory, run.events, imported.held_reads);
    if (profile.peak_bytes <= highest.peak_bytes) continue;
    highest = std::move(profile);
    if (record != nullptr) highest_run = std::move(run);
  }
  Record(memory, highest_run, imported.held_reads, record);
  return highest;
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
                            int threads, const Deadline& deadline, RunRecord* record) {
  if (threads == 1 || imported.overlaps.empty()) {
    return Highest(graph, index, imported, imported.graph, threads, deadline, record);
  }
  MemGraph usual = imported.graph;
  for (const BufferId b : imported.overlaps) usual.buffers[b].bytes = 0;
  return Highest(graph, index, imported, usual, threads, deadline, record);
}

int64_t PeakAtWorst(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                    int threads, const MemoryProfile& usual, const Deadline& deadline) {
  if (imported.ahead.empty() && (threads == 1 || imported.overlaps.empty())) return usual.peak_bytes;
  MemGraph worst = imported.graph;
  for (const WorstBytes& ahead : imported.ahead) worst.buffers[ahead.buffer].bytes = ahead.bytes;
  return std::max(usual.peak_bytes, Highest(graph, index, imported, worst, threads, deadline).peak_bytes);
}

}  // namespace lms
