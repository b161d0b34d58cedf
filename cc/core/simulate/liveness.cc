#include "cc/core/simulate/liveness.h"

#include <algorithm>
#include <iterator>

#include "cc/core/graph/walk.h"

namespace lms {
namespace {

struct Instance {
  BufferId buffer;
  int last_read;  // event; -1 before any read
};

using Kind = PlanEvent::Kind;

class Simulator {
 public:
  Simulator(const MemGraph& graph, const Plan& plan) : graph_(graph), plan_(plan), events_(EventsOf(graph, plan)) {}

  MemoryProfile Run() {
    FindReads();
    return Sweep();
  }

 private:
  template <typename Function>
  void ForEachRead(const PlanEvent& event, const Function& read) const {
    if (event.kind == Kind::kSwapOut) read(SwappedAt(plan_, event));
    if (!event.Runs()) return;
    for (const BufferId b : graph_.ops[OpAt(plan_, event)].inputs) read(b);
  }

  // The buffers that get a new, lasting instance at the event.
  template <typename Function>
  void ForEachMade(const PlanEvent& event, const Function& made) const {
    if (event.kind == Kind::kSwapIn) made(SwappedAt(plan_, event));
    if (!event.Runs()) return;
    for (const BufferId b : MadeAt(graph_, plan_, event)) made(b);
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
      ForEachRead(events_[e], [&](BufferId b) {
        if (graph_.buffers[b].resident || newest[b] < 0) return;
        reads_.push_back(newest[b]);
        instances_[newest[b]].last_read = static_cast<int>(e);
      });
      ForEachMade(events_[e], [&](BufferId b) {
        if (graph_.buffers[b].resident) return;
        newest[b] = static_cast<int>(instances_.size());
        instances_.push_back({b, -1});
      });
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
    const MemOp& op = graph_.ops[OpAt(plan_, events_[e])];
    if (op.forwardable.empty()) return 0;
    std::vector<BufferId> dying;
    // Both lists are in the order of the inputs as a rule: what is looked for is where the last search ended.
    auto at = op.forwardable.begin();
    for (size_t r = first_read_[e]; r < first_read_[e + 1]; ++r) {
      const int i = reads_[r];
      const BufferId b = instances_[i].buffer;
      if (instances_[i].last_read != static_cast<int>(e)) continue;
      auto found = std::find(at, op.forwardable.end(), b);
      if (found == op.forwardable.end()) found = std::find(op.forwardable.begin(), at, b);
      if (found == op.forwardable.end() || *found != b) continue;
      dying.push_back(b);
      at = std::next(found);
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

  // Bytes allocated when the event begins, beyond what it takes over.
  int64_t Allocated(size_t e) const {
    const PlanEvent& event = events_[e];
    if (event.kind == Kind::kSwapIn) return graph_.buffers[SwappedAt(plan_, event)].bytes;
    if (!event.Runs()) return 0;
    const MemOp& op = graph_.ops[OpAt(plan_, event)];
    int64_t bytes = op.workspace_bytes - Forwarded(e);
    for (const BufferId b : op.outputs) {
      if (!graph_.buffers[b].resident) bytes += graph_.buffers[b].bytes;
    }
    return bytes;
  }

  MemoryProfile Sweep() const {
    MemoryProfile profile;
    profile.resident_bytes = graph_.ResidentBytes();
    profile.op_bytes.resize(graph_.ops.size());
    profile.step_bytes.resize(plan_.steps.size());
    profile.swap_in_bytes.resize(plan_.swap_ins.size());
    profile.peak_bytes = profile.resident_bytes;
    int64_t live = profile.resident_bytes;
    for (size_t e = 0; e < events_.size(); ++e) {
      const PlanEvent& event = events_[e];
      const int64_t during = live + Allocated(e);
      if (event.kind == Kind::kOp || event.kind == Kind::kMovedAway) profile.op_bytes[event.index] = during;
      if (event.kind == Kind::kStep) profile.step_bytes[event.index] = during;
      if (event.kind == Kind::kSwapIn) profile.swap_in_bytes[event.index] = during;
      if (during > profile.peak_bytes) {
        profile.peak_bytes = during;
        profile.peak_op = event.place;
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
  const std::vector<PlanEvent> events_;
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
