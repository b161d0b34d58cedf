#include "cc/core/simulate/overlap.h"

#include <algorithm>
#include <utility>

#include "cc/core/simulate/run_record.h"

namespace lms {
namespace {

class RunSimulator {
 public:
  RunSimulator(const MemGraph& graph, const std::vector<HeldRead>& held_reads, RunRecord* record,
               const std::vector<bool>& dead, DeviceMemory* memory, std::vector<Lifetime>* lifetimes)
      : graph_(graph),
        memory_(memory),
        record_(record),
        dead_(dead),
        lifetimes_(lifetimes),
        readers_left_(graph.buffers.size(), 0),
        gone_(graph.buffers.size(), false),
        buffer_space_(graph.buffers.size()),
        workspace_(graph.ops.size()) {
    if (record_ != nullptr) {
      buffer_since_.assign(graph.buffers.size(), kNone);
      op_since_.assign(graph.ops.size(), kNone);
    }
    for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
      if (Dead(id)) {
        for (const BufferId b : graph.ops[id].outputs) gone_[b] = true;
        continue;
      }
      for (const BufferId b : graph.ops[id].inputs) ++readers_left_[b];
    }
    if (held_reads.empty()) return;
    begun_by_.resize(graph.ops.size());
    held_by_.resize(graph.ops.size());
    newest_.assign(graph.buffers.size(), kNone);
    for (const HeldRead& held : held_reads) {
      if (Dead(held.read) || Dead(held.reader)) continue;
      begun_by_[held.read].push_back(held.variable);
      held_by_[held.reader].push_back({held.variable, held.read});
    }
    value_of_read_.resize(graph.ops.size());
    written_by_.resize(graph.ops.size());
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      for (const OpId writer : graph.buffers[b].overwritten_by) written_by_[writer].push_back(static_cast<BufferId>(b));
    }
  }

  MemoryProfile Run(const std::vector<RunEvent>& run) {
    MemoryProfile profile;
    profile.resident_bytes = graph_.ResidentBytes();
    profile.op_bytes.resize(graph_.ops.size());
    profile.peak_bytes = live_ = asked_ = profile.resident_bytes;
    int64_t most_asked = asked_;
    for (const RunEvent& event : run) {
      ++now_;
      if (event.ends) {
        End(event.op);
        continue;
      }
      ++position_;
      Begin(event.op);
      profile.op_bytes[event.op] = live_;
      most_asked = std::max(most_asked, asked_);
      profile.order.push_back(event.op);
      if (live_ > profile.peak_bytes) {
        profile.peak_bytes = live_;
        profile.peak_op = event.op;
      }
    }
    if (record_ != nullptr) NoteWhatStays();
    if (memory_ == nullptr) return profile;
    profile.lacking_bytes = memory_->lacking_bytes();
    profile.outside_bytes = most_outside_;
    profile.lost_bytes = std::max<int64_t>(0, profile.peak_bytes - most_asked);
    EndStep();
    return profile;
  }

 private:
  struct Space : DeviceMemory::Space {
    int64_t asked = 0;     // bytes
    int lifetime = kNone;  // of lifetimes_
  };

  // What a variable holds between two updates.
  struct Value {
    int holders = 0;
    int64_t bytes = 0;
    BufferId variable = kNone;
    bool old = false;       // the variable has another one by now
    int32_t since = kNone;  // position at which it became old
    Space space = {};       // of what is there twice from then on
  };

  // Counts it as in use, and remembers where it is.
  void Allocate(const Allocated& what, int64_t bytes, Space* space, int64_t piece_bytes = 0) {
    *space = Space();
    space->bytes = bytes;
    if (memory_ != nullptr && bytes > 0) {
      static_cast<DeviceMemory::Space&>(*space) = memory_->Take(what, bytes, piece_bytes);
    }
    space->asked = bytes;
    live_ += space->bytes;
    asked_ += bytes;
    CountBlocks();
    if (lifetimes_ != nullptr && bytes > 0 && !space->outside) {
      space->lifetime = static_cast<int>(lifetimes_->size());
      lifetimes_->push_back({piece_bytes == 0 ? what : Allocated(), bytes, now_});
    }
    if (!space->outside) return;
    outside_ += space->bytes;
    most_outside_ = std::max(most_outside_, outside_);
  }

  void Give(Space* space) {
    live_ -= space->bytes;
    asked_ -= space->asked;
    if (space->outside) outside_ -= space->bytes;
    if (memory_ != nullptr) memory_->Give(*space);
    CountBlocks();
    if (space->lifetime != kNone) (*lifetimes_)[space->lifetime].to = now_;
    *space = Space();
  }

  void CountBlocks() {
    if (memory_ == nullptr) return;
    live_ += memory_->block_bytes() - block_bytes_;
    block_bytes_ = memory_->block_bytes();
  }

  // Somebody has it after the step, or may.
  void NoteStays(BufferId b) {
    const Space& space = buffer_space_[b];
    if (space.lifetime == kNone) return;
    if (Stays(b) || (memory_ != nullptr && memory_->BecomesVariable(b))) (*lifetimes_)[space.lifetime].stays = true;
  }

  // What a variable takes over stays where it is: what goes is what the variable had.
  void GiveOrKeep(BufferId b) {
    Space& space = buffer_space_[b];
    if (space.chunk != Arena::kNoRoom && memory_->BecomesVariable(b)) {
      const Arena::ChunkId old = memory_->Keep(graph_.buffers[b].bytes, space.chunk);
      if (old != Arena::kNoRoom) {
        space.chunk = old;
        space.bytes = memory_->BytesOf(old);
      }
    }
    Give(&space);
  }

  // What is returned goes between this step and the next.
  void EndStep() {
    for (Space& space : buffer_space_) Give(&space);
    for (Space& space : workspace_) Give(&space);
    for (Value& value : values_) Give(&value.space);
  }

  bool Dead(OpId op) const { return !dead_.empty() && dead_[op]; }

  bool Stays(BufferId b) const { return graph_.buffers[b].resident || graph_.buffers[b].escapes; }

  void Note(Holding::What what, int32_t of, int64_t bytes, int32_t first, int32_t last) {
    if (record_ == nullptr || bytes == 0 || first == kNone || last < first) return;
    record_->holdings.push_back({what, of, bytes, first, last});
  }

  void NoteBuffer(BufferId b, int32_t last) {
    if (record_ == nullptr) return;
    const int64_t bytes = graph_.buffers[b].resident ? graph_.buffers[b].bytes : buffer_space_[b].bytes;
    Note(Holding::What::kBuffer, b, bytes, buffer_since_[b], last);
    buffer_since_[b] = kNone;
  }

  void NoteWhatStays() {
    for (size_t b = 0; b < graph_.buffers.size(); ++b) {
      if (graph_.buffers[b].resident) buffer_since_[b] = 0;
      NoteBuffer(static_cast<BufferId>(b), position_);
    }
    for (const Value& value : values_) {
      if (value.old && value.holders > 0) NoteOld(value);
    }
  }

  void NoteOld(const Value& value) {
    Note(Holding::What::kOldContents, value.variable, value.space.bytes, value.since, position_);
  }

  void Begin(OpId id) {
    if (Dead(id)) return;
    const MemOp& op = graph_.ops[id];
    if (record_ != nullptr) op_since_[id] = position_;
    std::vector<BufferId> dying;
    for (const BufferId b : op.forwardable) {
      if (readers_left_[b] == 1 && !Stays(b) && !gone_[b]) dying.push_back(b);
    }
    for (size_t part = 0; part < op.outputs.size(); ++part) {
      const BufferId out = op.outputs[part];
      const MemBuffer& buffer = graph_.buffers[out];
      if (buffer.resident) continue;
      if (record_ != nullptr) buffer_since_[out] = position_;
      const auto same =
          std::find_if(dying.begin(), dying.end(), [&](BufferId b) { return graph_.buffers[b].bytes == buffer.bytes; });
      if (same == dying.end()) {
        Allocate({id, static_cast<int>(part)}, buffer.bytes, &buffer_space_[out], buffer.piece_bytes);
        NoteStays(out);
        continue;
      }
      gone_[*same] = true;
      NoteBuffer(*same, position_ - 1);
      buffer_space_[out] = std::exchange(buffer_space_[*same], Space());
      NoteStays(out);
      dying.erase(same);
    }
    Allocate({id, Allocated::kWorkspace}, op.workspace_bytes, &workspace_[id]);
    if (!written_by_.empty()) {
      for (const BufferId variable : written_by_[id]) Write(variable);
    }
  }

  void End(OpId id) {
    if (Dead(id)) return;
    const MemOp& op = graph_.ops[id];
    if (record_ != nullptr) Note(Holding::What::kWorkspace, id, workspace_[id].bytes, op_since_[id], position_);
    Give(&workspace_[id]);
    for (const BufferId b : op.inputs) {
      if (--readers_left_[b] == 0) Free(b);
    }
    for (const BufferId b : op.outputs) {
      if (readers_left_[b] == 0) Free(b);
    }
    if (held_by_.empty()) return;
    for (const BufferId variable : begun_by_[id]) Hold(id, variable);
    for (const auto& [variable, read] : held_by_[id]) LetGo(variable, read);
  }

  void Free(BufferId b) {
    if (!Stays(b) && !gone_[b]) {
      NoteBuffer(b, position_);
      GiveOrKeep(b);
    }
    gone_[b] = true;
  }

  // One more of the readers of `read` will hold what the variable has now.
  void Hold(OpId read, BufferId variable) {
    if (newest_[variable] == kNone) {
      newest_[variable] = static_cast<int>(values_.size());
      values_.push_back({0, graph_.buffers[variable].bytes, variable});
    }
    ++values_[newest_[variable]].holders;
    value_of_read_[read].emplace_back(variable, newest_[variable]);
  }

  void LetGo(BufferId variable, OpId read) {
    for (const auto& [held, value] : value_of_read_[read]) {
      if (held != variable) continue;
      Value& v = values_[value];
      if (--v.holders == 0 && v.old) {
        NoteOld(v);
        Give(&v.space);
      }
      return;
    }
  }

  void Write(BufferId variable) {
    const int value = newest_[variable];
    if (value == kNone) return;
    newest_[variable] = kNone;
    if (values_[value].holders == 0) return;
    values_[value].old = true;
    values_[value].since = position_;
    Allocate(Allocated(), values_[value].bytes, &values_[value].space);
  }

  const MemGraph& graph_;
  DeviceMemory* const memory_;
  RunRecord* const record_;
  const std::vector<bool>& dead_;
  std::vector<Lifetime>* const lifetimes_;
  int32_t position_ = -1;  // of the op that has begun last
  int32_t now_ = -1;       // of the event
  std::vector<int32_t> buffer_since_;
  std::vector<int32_t> op_since_;
  std::vector<int> readers_left_;
  std::vector<bool> gone_;  // freed, or taken over by an output
  std::vector<Space> buffer_space_;
  std::vector<Space> workspace_;  // per op
  int64_t live_ = 0;
  int64_t asked_ = 0;        // the same, as asked for
  int64_t block_bytes_ = 0;  // of live_: the device's blocks
  int64_t outside_ = 0;      // of live_: what is not of the arena
  int64_t most_outside_ = 0;

  std::vector<std::vector<BufferId>> begun_by_;  // per op: variables that it reads, once per holder
  std::vector<std::vector<std::pair<BufferId, OpId>>> held_by_;
  std::vector<std::vector<BufferId>> written_by_;
  std::vector<std::vector<std::pair<BufferId, int>>> value_of_read_;
  std::vector<int> newest_;  // per buffer: its value that somebody has read, kNone where nobody has
  std::vector<Value> values_;
};

}  // namespace

MemoryProfile SimulateRun(const MemGraph& graph, const std::vector<RunEvent>& run,
                          const std::vector<HeldRead>& held_reads, const std::vector<bool>& dead, DeviceMemory* memory,
                          std::vector<Lifetime>* lifetimes) {
  if (lifetimes != nullptr) lifetimes->clear();
  return RunSimulator(graph, held_reads, nullptr, dead, memory, lifetimes).Run(run);
}

MemoryProfile RecordRun(const MemGraph& graph, const std::vector<RunEvent>& run,
                        const std::vector<HeldRead>& held_reads, RunRecord* record, const std::vector<bool>& dead,
                        DeviceMemory* memory) {
  record->holdings.clear();
  return RunSimulator(graph, held_reads, record, dead, memory, nullptr).Run(run);
}

}  // namespace lms
