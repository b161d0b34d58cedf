#include "cc/core/liveness.h"

#include <algorithm>

namespace lms {
namespace {

struct Event {
  OpId op;
  int step;  // index into the plan, or -1 for the op itself
};

struct Instance {
  BufferId buffer;
  int last_read;  // event; -1 before any read
};

class Simulator {
 public:
  Simulator(const MemGraph& graph, const Plan& plan) : graph_(graph), plan_(plan) {
    moved_.assign(graph.ops.size(), false);
    for (const RecomputeStep& step : plan.steps) moved_[step.op] = moved_[step.op] || step.moves;
    size_t next = 0;
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      for (; next < plan.steps.size() && plan.steps[next].before == static_cast<OpId>(i); ++next) {
        events_.push_back({plan.steps[next].op, static_cast<int>(next)});
      }
      events_.push_back({static_cast<OpId>(i), -1});
    }
  }

  MemoryProfile Run() {
    FindReads();
    return Sweep();
  }

 private:
  bool Empty(const Event& event) const { return event.step < 0 && moved_[event.op]; }

  // The buffers that get a new, lasting instance at the event.
  const std::vector<BufferId>& Made(const Event& event) const {
    return event.step >= 0 ? plan_.steps[event.step].provides : graph_.ops[event.op].outputs;
  }

  // Which instance does each event read and make, and which event reads an instance last?
  void FindReads() {
    std::vector<int> newest(graph_.buffers.size(), -1);
    first_read_.reserve(events_.size() + 1);
    first_made_.reserve(events_.size() + 1);
    instances_.reserve(graph_.buffers.size() + plan_.steps.size());
    for (size_t e = 0; e < events_.size(); ++e) {
      first_read_.push_back(reads_.size());
      first_made_.push_back(instances_.size());
      if (Empty(events_[e])) continue;
      for (const BufferId b : graph_.ops[events_[e].op].inputs) {
        if (graph_.buffers[b].resident || newest[b] < 0) continue;
        reads_.push_back(newest[b]);
        instances_[newest[b]].last_read = static_cast<int>(e);
      }
      for (const BufferId b : Made(events_[e])) {
        if (graph_.buffers[b].resident) continue;
        newest[b] = static_cast<int>(instances_.size());
        instances_.push_back({b, -1});
      }
    }
    first_read_.push_back(reads_.size());
    first_made_.push_back(instances_.size());
    const int forever = static_cast<int>(events_.size());
    for (size_t b = 0; b < newest.size(); ++b) {
      if (graph_.buffers[b].escapes && newest[b] >= 0) instances_[newest[b]].last_read = forever;
    }
  }

  // Bytes of the event's outputs that take over the storage of inputs which die here.
  int64_t Forwarded(size_t e) const {
    const MemOp& op = graph_.ops[events_[e].op];
    if (op.forwardable.empty()) return 0;
    std::vector<BufferId> dying;
    for (size_t r = first_read_[e]; r < first_read_[e + 1]; ++r) {
      const int i = reads_[r];
      const BufferId b = instances_[i].buffer;
      if (instances_[i].last_read == static_cast<int>(e) &&
          std::find(op.forwardable.begin(), op.forwardable.end(), b) != op.forwardable.end()) {
        dying.push_back(b);
      }
    }
    int64_t bytes = 0;
    for (const BufferId out : op.outputs) {
      if (graph_.buffers[out].resident) continue;
      const auto same = std::find_if(dying.begin(), dying.end(), [&](BufferId in) {
        return graph_.buffers[in].bytes == graph_.buffers[out].bytes;
      });
      if (same == dying.end()) continue;
      bytes += graph_.buffers[out].bytes;
      dying.erase(same);
    }
    return bytes;
  }

  MemoryProfile Sweep() const {
    MemoryProfile profile;
    profile.resident_bytes = graph_.ResidentBytes();
    profile.op_bytes.resize(graph_.ops.size());
    profile.step_bytes.resize(plan_.steps.size());
    profile.peak_bytes = profile.resident_bytes;
    int64_t live = profile.resident_bytes;
    for (size_t e = 0; e < events_.size(); ++e) {
      const MemOp& op = graph_.ops[events_[e].op];
      if (Empty(events_[e])) {
        profile.op_bytes[events_[e].op] = live;
        continue;
      }
      int64_t during = live + op.workspace_bytes - Forwarded(e);
      for (const BufferId b : op.outputs) {
        if (!graph_.buffers[b].resident) during += graph_.buffers[b].bytes;
      }
      (events_[e].step >= 0 ? profile.step_bytes[events_[e].step] : profile.op_bytes[events_[e].op]) = during;
      if (during > profile.peak_bytes) {
        profile.peak_bytes = during;
        profile.peak_op = events_[e].step >= 0 ? plan_.steps[events_[e].step].before : events_[e].op;
      }
      for (size_t i = first_made_[e]; i < first_made_[e + 1]; ++i) {
        if (instances_[i].last_read >= 0) live += graph_.buffers[instances_[i].buffer].bytes;
      }
      for (size_t r = first_read_[e]; r < first_read_[e + 1]; ++r) {
        const int i = reads_[r];
        if (instances_[i].last_read == static_cast<int>(e)) live -= graph_.buffers[instances_[i].buffer].bytes;
      }
    }
    return profile;
  }

  const MemGraph& graph_;
  const Plan& plan_;
  std::vector<bool> moved_;
  std::vector<Event> events_;
  std::vector<Instance> instances_;
  // The instances that event e makes have numbers from first_made_[e] to first_made_[e + 1] - 1; those that it reads
  // stand at first_read_[e] to first_read_[e + 1] - 1 in reads_.
  std::vector<size_t> first_made_;
  std::vector<size_t> first_read_;
  std::vector<int> reads_;
};

}  // namespace

std::vector<int64_t> MemoryProfile::Timeline() const {
  if (order.empty()) return op_bytes;
  std::vector<int64_t> timeline;
  timeline.reserve(order.size());
  for (const OpId op : order) timeline.push_back(op_bytes[op]);
  return timeline;
}

MemoryProfile Simulate(const MemGraph& graph, const Plan& plan) { return Simulator(graph, plan).Run(); }

}  // namespace lms
