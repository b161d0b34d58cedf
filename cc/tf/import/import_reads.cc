#include "cc/tf/import/import_reads.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cc/core/graph/takeovers.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/variable_reads.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using tensorflow::DataType;

// A check of a tensor whose result nobody reads is a read like any other.
bool HasDataReader(const ImportState& state, int node) {
  const std::vector<int>& readers = state.index[node].readers;
  return state.index.Preserved(node) || std::any_of(readers.begin(), readers.end(), [&](int reader) {
           const std::vector<TensorRef>& inputs = state.index[reader].inputs;
           return state.index[reader].live &&
                  std::any_of(inputs.begin(), inputs.end(), [node](const TensorRef& in) { return in.node == node; });
         });
}

// `may_hold_more`: per buffer, whether it might be a result that was put where rows are.
void AddTakeoverOf(int node, std::vector<bool>* may_hold_more, ImportState* state) {
  const MemOp& op = state->Op(node);
  const std::vector<TensorRef>& inputs = state->index[node].inputs;
  Takeover takeover = {state->out.op_of_node[node], state->SizeOf(node, 0).bytes, {}};
  std::unordered_map<BufferId, int> reads;
  for (const TensorRef& input : inputs) ++reads[state->BufferOf(input)];
  bool rows = false;
  for (const TensorRef& input : inputs) {
    const BufferId b = state->BufferOf(input);
    if (b == kNone || state->SizeOf(input.node, input.port).bytes != takeover.bytes) continue;
    if (reads[b] != 1) continue;
    takeover.inputs.push_back({b, state->part[input.node]});
    rows = rows || state->part[input.node] || (*may_hold_more)[b];
  }
  if (!rows) return;
  (*may_hold_more)[op.outputs[0]] = true;
  state->out.takeovers.push_back(std::move(takeover));
}

// In another region than that of the node?
bool MadeElsewhere(const ImportState& state, BufferId b, int node) {
  const OpId producer = state.out.graph.buffers[b].producer;
  return producer != kNone && state.index[state.order[producer]].region != state.index[node].region;
}

// `read_by`: per buffer, the node that was the last to read it.
void AddReadsOf(int node, std::vector<int>* read_by, Pace* pace, ImportState* state) {
  MemOp& op = state->Op(node);
  const bool fixed = !state->InRegion(node) || IsControlFlow(op.type) || !state->OnDevice(node);
  const bool several = state->out.regions.size() > 1;
  // What is fused reads what the whole reads anyway.
  const size_t inputs = state->fused_into[node] == node ? state->index[node].inputs.size() : 0;
  for (size_t i = 0; i < inputs; ++i) {
    const BufferId b = state->BufferOf(state->index[node].inputs[i]);
    if (b == kNone) continue;
    BufferFacts& facts = state->facts[b];
    MemBuffer& buffer = state->out.graph.buffers[b];
    const int maker = state->index[node].inputs[i].node;
    if (op.type == "_Retval" || state->index.Fetched(maker)) buffer.escapes = !buffer.resident;
    if (op.type == "_Retval" || state->index.Fetched(maker)) facts.keep_reason = "returned";
    facts.by_name |= state->index.Preserved(maker);
    if (fixed || (several && MadeElsewhere(*state, b, node))) {
      facts.keep_reason = "used inside control flow or on another device";
    }
    // A view is no read: those who read through it are.
    if (state->IsViewOfInput(node, static_cast<int>(i)) && HasDataReader(*state, node)) {
      const std::string why_not = WhyNotRecomputable(state->Node(node), *state->types[node].op_def);
      if (!why_not.empty()) facts.keep_reason = "read through " + op.type + ": " + why_not;
      continue;
    }
    // What leaves a loop is what its last iteration has made, in other storage than what the first one began with.
    if (IsExit(state->Node(node)) && state->loops.Changes(node) && state->Slots(node)[0] != b) continue;
    const bool again = (*read_by)[b] == node;
    (*read_by)[b] = node;
    if (!again) op.inputs.push_back(b);
    // Of rows: see AddTakeovers().
    if (!MayForwardInput(op.type) || buffer.resident || state->part[maker]) continue;
    // Read twice by one op, storage has two holders: neither gives it up.
    if (again) {
      pace->Step(static_cast<int64_t>(op.forwardable.size()));
      op.forwardable.erase(std::remove(op.forwardable.begin(), op.forwardable.end(), b), op.forwardable.end());
    } else {
      op.forwardable.push_back(b);
    }
  }
  for (size_t port = 0; port < state->types[node].outputs.size(); ++port) {
    const BufferId b = state->Slots(node)[port];
    const bool before_data = !state->out.before_data.empty() && state->out.before_data[node];
    if (b != kNone && before_data && !IsVariableRead(op.type)) {
      state->facts[b].keep_reason = "made before the step's data are there";
    }
    if (b == kNone || !state->index.Preserved(node)) continue;
    if (state->index.Fetched(node)) state->out.graph.buffers[b].escapes = !state->out.graph.buffers[b].resident;
    if (state->index.Fetched(node)) state->facts[b].keep_reason = "returned";
    state->facts[b].by_name = true;
  }
}

// Must, or might, copies in that region wait to be before this change of a variable? One around the region, or in
// another branch, cannot be waited for and need not be: a copy reads the tensor that its original reads, and that is
// copied where it is still held when its variable changes.
bool Concerns(const ImportState& state, int writer, int planned) {
  const int region = state.index[writer].region;
  return region < 0 || state.index.Implies(region, planned) ||
         state.index.Within(state.index[writer].frame, state.index.region(planned).frame);
}

// A change in a loop whose first iteration waits for another change of the variable, one that copies in that region may
// come before: they do, and come before the loop as well.
constexpr size_t kMostBeforeLoops = 500;  // nodes that are looked at

bool Guarded(const ImportState& state, int writer, int planned, const std::vector<OpId>& writers) {
  const GraphIndex& index = state.index;
  int frame = index[writer].frame;
  while (frame > 0 && index.frame(frame).parent != index.region(planned).frame) frame = index.frame(frame).parent;
  if (frame <= 0 || index.frame(frame).loop_cond < 0) return false;
  std::unordered_set<int> seen = {index.frame(frame).loop_cond};
  std::vector<int> before = {index.frame(frame).loop_cond};
  for (size_t next = 0; next < before.size() && before.size() < kMostBeforeLoops; ++next) {
    const int node = before[next];
    const OpId op = state.out.op_of_node[node];
    if (op != kNone && index.Implies(index[node].region, planned) &&
        std::find(writers.begin(), writers.end(), op) != writers.end()) {
      return true;
    }
    const auto add = [&](int source) {
      const std::string& type = state.Node(source).op();
      const bool iteration_before = type == "NextIteration" || type == "RefNextIteration";
      if (!iteration_before && seen.insert(source).second) before.push_back(source);
    };
    for (const int control : index[node].controls) add(control);
    for (const TensorRef& input : index[node].inputs) add(input.node);
  }
  return false;
}

// Of those that change the variable: the ones that copies in the region must or might have to come before.
std::vector<OpId> WritersFor(const ImportState& state, BufferId variable, int region) {
  const std::vector<OpId>& all = state.out.graph.buffers[variable].overwritten_by;
  std::vector<OpId> own;
  for (const OpId writer : all) {
    const int node = state.out.node_of_op[writer];
    if (Concerns(state, node, region) && !Guarded(state, node, region, all)) own.push_back(writer);
  }
  return own;
}

bool Concerns(const ImportState& state, int writer) {
  const std::vector<int>& regions = state.out.regions;
  return std::any_of(regions.begin(), regions.end(), [&](int region) { return Concerns(state, writer, region); });
}

void AddWriter(BufferId b, OpId writer, ImportState* state) {
  // One op after the other: where it is there already it is the last.
  std::vector<OpId>& writers = state->out.graph.buffers[b].overwritten_by;
  if (writers.empty() || writers.back() != writer) writers.push_back(writer);
}

void AddVariableWritesOf(int node, ImportState* state) {
  const MemOp& op = state->Op(node);
  if (ChangesInPlace(op.type) && !state->index[node].inputs.empty()) {
    const BufferId b = state->BufferOf(state->index[node].inputs[0]);
    if (b == kNone) return;
    if (Concerns(*state, node)) AddWriter(b, state->out.op_of_node[node], state);
    const bool of_sum = op.type == "DestroyTemporaryVariable";
    state->facts[b].keep_reason = of_sum ? kPartOfSum : "changed in place by " + op.type;
  }
  if (IsVariableRead(op.type) || IsVariableQuery(op.type)) return;
  if (!state->types[node].op_def->is_stateful() || !Concerns(*state, node)) return;
  for (size_t i = 0; i < state->index[node].inputs.size(); ++i) {
    const DataType type = i < state->types[node].inputs.size() ? state->types[node].inputs[i] : tensorflow::DT_INVALID;
    if (type != tensorflow::DT_RESOURCE && !tensorflow::IsRefType(type)) continue;
    const BufferId b = state->BufferOf(state->index[node].inputs[i]);
    if (b != kNone) AddWriter(b, state->out.op_of_node[node], state);
  }
}

// One for each input: how often an op counts as a late reader is up to those who ask.
void AddHeldReadsOf(int node, ReadFinder* reads, ImportState* state) {
  for (size_t i = 0; i < state->index[node].inputs.size(); ++i) {
    const BufferId b = state->BufferOf(state->index[node].inputs[i]);
    if (b == kNone) continue;
    const MemBuffer& variable = state->out.graph.buffers[b];
    if (!variable.resident || variable.overwritten_by.empty()) continue;
    if (state->IsViewOfInput(node, static_cast<int>(i))) continue;
    const int read = reads->ReadBehind(state->index[node].inputs[i]);
    if (read < 0 || read == node) continue;
    // In a loop, those of one iteration: they are in one place.
    const NodeIndex& reader = state->index[node];
    if (reader.in_frame != state->index[read].in_frame) continue;
    if (reader.in_frame && reader.region != state->index[read].region) continue;
    state->out.held_reads.push_back({b, state->out.op_of_node[read], state->out.op_of_node[node]});
  }
}

// Nodes that a read is known to wait for.
constexpr size_t kMostSources = 2000;

class VersionMaker {
 public:
  explicit VersionMaker(ImportState* state)
      : state_(*state), version_of_read_(state->index.size(), kUnknown), source_of_(state->index.size(), -1) {}

  // Only for nodes outside of loops.
  void ReadVersions(int node) {
    MemOp& op = state_.Op(node);
    const std::vector<TensorRef>& inputs = state_.index[node].inputs;
    // Whoever reads a variable twice reads it as it came, as far as is known here.
    std::vector<BufferId> as_it_came;
    std::vector<std::pair<BufferId, BufferId>> versions;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const BufferId b = state_.BufferOf(inputs[i]);
      if (b == kNone || state_.IsViewOfInput(node, static_cast<int>(i))) continue;
      const BufferId version = VersionOf(b, inputs[i]);
      if (version == kNone) {
        as_it_came.push_back(b);
      } else {
        versions.emplace_back(b, version);
      }
    }
    for (const auto& [b, version] : versions) {
      if (std::count(as_it_came.begin(), as_it_came.end(), b) != 0) continue;
      op.inputs.erase(std::remove(op.inputs.begin(), op.inputs.end(), b), op.inputs.end());
      AddOnce(&op.inputs, version);
    }
  }

 private:
  static constexpr BufferId kUnknown = -2;

  // Of the variable b, as the tensor has it; kNone where no update is known to come before.
  BufferId VersionOf(BufferId b, const TensorRef& tensor) {
    const MemBuffer& variable = state_.out.graph.buffers[b];
    if (!variable.resident || variable.overwritten_by.empty()) return kNone;
    const int read = ReadBehind(state_.graph, state_.index, tensor);
    if (read < 0 || state_.index[read].in_frame) return kNone;
    if (version_of_read_[read] == kUnknown) version_of_read_[read] = MakeVersion(b, read);
    return version_of_read_[read];
  }

  BufferId MakeVersion(BufferId b, int read) {
    const std::vector<OpId> writers = state_.out.graph.buffers[b].overwritten_by;
    const OpId at = state_.out.op_of_node[read];
    const auto first = std::min_element(writers.begin(), writers.end());
    if (*first > at) return kNone;
    FindSources(read, *first);
    std::vector<OpId> later;
    for (const OpId writer : writers) {
      if (writer > at || source_of_[state_.out.node_of_op[writer]] != read) later.push_back(writer);
    }
    if (later.size() == writers.size()) return kNone;
    const BufferId version = state_.NewBuffer(read, 0, 0, /*resident=*/true);
    state_.out.graph.buffers[version].overwritten_by = std::move(later);
    return version;
  }

  // Marks the nodes that the read waits for, but for those that nothing from `first` on can come before: outside of
  // loops, ops are in an order in which each follows what it waits for.
  void FindSources(int read, OpId first) {
    std::vector<int> sources = {read};
    source_of_[read] = read;
    const auto add = [&](int source) {
      if (source_of_[source] == read) return;
      const OpId op = state_.out.op_of_node[source];
      if (op != kNone && op < first && !state_.index[source].in_frame) return;
      source_of_[source] = read;
      sources.push_back(source);
    };
    for (size_t next = 0; next < sources.size() && sources.size() < kMostSources; ++next) {
      for (const int control : state_.index[sources[next]].controls) add(control);
      for (const TensorRef& input : state_.index[sources[next]].inputs) add(input.node);
    }
  }

  ImportState& state_;
  std::vector<BufferId> version_of_read_;  // by node
  std::vector<int> source_of_;             // by node: the read that was last found to wait for it
};

}  // namespace

void AddReads(ImportState* state) {
  std::vector<int> read_by(state->out.graph.buffers.size(), -1);
  Pace pace(state->deadline);
  for (const int node : state->order) AddReadsOf(node, &read_by, &pace, state);
}

void AddTakeovers(ImportState* state) {
  std::vector<bool> may_hold_more(state->out.graph.buffers.size(), false);
  for (const int node : state->order) {
    const MemOp& op = state->Op(node);
    const bool own = op.outputs.size() == 1 && state->Slots(node)[0] == op.outputs[0];
    const bool takes = MayForwardInput(op.type) && state->fused_into[node] == node && state->OnDevice(node);
    if (own && takes) AddTakeoverOf(node, &may_hold_more, state);
  }
  std::vector<OpId> order(state->out.graph.ops.size());
  std::iota(order.begin(), order.end(), 0);
  ApplyTakeovers(state->out.takeovers, order, &state->out.graph);
}

void AddVariableWrites(ImportState* state) {
  for (const int node : state->order) AddVariableWritesOf(node, state);
}

void AddHeldReads(ImportState* state) {
  ReadFinder reads(state->graph, state->index);
  for (const int node : state->order) AddHeldReadsOf(node, &reads, state);
}

void AddVersions(ImportState* state) {
  VersionMaker maker(state);
  for (const int node : state->order) {
    if (!state->index[node].in_frame) maker.ReadVersions(node);
  }
}

void AddVersionsOfRegions(ImportState* state) {
  if (state->out.regions.size() < 2 && state->index.frames() < 2) return;
  std::map<std::pair<BufferId, int>, BufferId> versions;  // by variable and region; the variable itself where all count
  for (const int node : state->order) {
    if (!state->InRegion(node)) continue;
    const int region = state->index[node].region;
    for (BufferId& input : state->Op(node).inputs) {
      const MemBuffer& variable = state->out.graph.buffers[input];
      if (!variable.resident || variable.overwritten_by.empty()) continue;
      const auto [known, is_new] = versions.emplace(std::make_pair(input, region), input);
      if (is_new) {
        std::vector<OpId> own = WritersFor(*state, input, region);
        if (own.size() < variable.overwritten_by.size()) {
          std::string name = variable.name + "@" + state->Node(node).name();
          known->second = state->NewBuffer(node, 0, 0, /*resident=*/true);
          state->out.graph.buffers[known->second].name = std::move(name);
          state->out.graph.buffers[known->second].overwritten_by = std::move(own);
        }
      }
      input = known->second;
    }
  }
}

bool MayChangeUnderCopies(const ImportState& state, BufferId variable, int region) {
  const std::vector<OpId> writers = WritersFor(state, variable, region);
  return std::any_of(writers.begin(), writers.end(), [&](OpId writer) {
    return !state.index.Implies(state.index[state.out.node_of_op[writer]].region, region);
  });
}

}  // namespace lms
