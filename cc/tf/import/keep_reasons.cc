#include "cc/tf/import/keep_reasons.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/import/import_reads.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using tensorflow::DataType;

constexpr char kSumReason[] = "a sum whose last bits might change";

class Judge {
 public:
  explicit Judge(ImportState* state) : state_(*state) {}

  // AddN puts the first input whose storage it may take over in front: the order of a sum of three or more tensors, and
  // with it the last bits, depends on who else holds them (input 0, input 1 and none come to the same sum). Where input
  // 0 or 1 has no other reader, and is no other term as well, the order is known, and stays as long as no reader is
  // added. Otherwise all inputs stay as they are.
  void FixSums() {
    std::vector<int> readers(state_.out.graph.buffers.size(), 0);
    for (const MemOp& op : state_.out.graph.ops) {
      for (const BufferId b : op.inputs) ++readers[b];
    }
    for (const int node : state_.order) {
      if (!OrderDependsOnHolders(state_.Node(node).op(), state_.index[node].inputs.size())) continue;
      bool fixed = false;
      for (size_t i = 0; i < 2 && !fixed; ++i) {
        const BufferId b = state_.BufferOf(state_.index[node].inputs[i]);
        if (b == kNone || readers[b] != 1 || TimesRead(node, b) != 1) continue;
        MemBuffer& buffer = state_.out.graph.buffers[b];
        if (buffer.resident || buffer.escapes || buffer.producer == kNone) continue;
        if (IsControlFlow(state_.out.graph.ops[buffer.producer].type)) continue;
        fixed = buffer.no_more_readers = true;
      }
      for (size_t i = 0; i < state_.index[node].inputs.size() && !fixed; ++i) {
        const BufferId b = state_.BufferOf(state_.index[node].inputs[i]);
        if (b == kNone || state_.out.graph.buffers[b].resident) continue;
        state_.out.graph.buffers[b].no_more_readers = true;
        state_.facts[b].keep_reason = kSumReason;
      }
    }
  }

  // Ops list a buffer once, however many of its inputs are that buffer.
  int64_t TimesRead(int node, BufferId b) const {
    const std::vector<TensorRef>& inputs = state_.index[node].inputs;
    return std::count_if(inputs.begin(), inputs.end(), [&](const TensorRef& i) { return state_.BufferOf(i) == b; });
  }

  void JudgeOp(int node) {
    MemOp& op = state_.Op(node);
    op.keep_reason = WhyNotRecomputable(state_.Node(node), *state_.types[node].op_def);
    if (op.keep_reason.empty() && OrderDependsOnHolders(op.type, state_.index[node].inputs.size())) {
      op.keep_reason = kSumReason;
    }
    if (op.keep_reason.empty() && !state_.InRegion(node)) {
      op.keep_reason = state_.Planned(state_.index[node].region) ? "may still run in the next iteration of its loop"
                       : state_.index[node].in_frame             ? "inside a loop"
                       : state_.index[node].conditional          ? "inside a branch"
                                                                 : "outside of the loop or branch that is planned";
    }
    if (op.keep_reason.empty() && op.type == "BiasAddGrad" && state_.may_be_fused[node]) {
      op.keep_reason = "fused with the gradient of a filter";
    }
    if (op.keep_reason.empty() && state_.joined[node]) op.keep_reason = "makes the gradient of a bias, too";
    if (op.keep_reason.empty() && !state_.OnDevice(node)) op.keep_reason = "on another device";
    for (size_t i = 0; op.keep_reason.empty() && i < state_.index[node].inputs.size(); ++i) {
      const TensorRef& input = state_.index[node].inputs[i];
      const DataType type = state_.types[input.node].outputs[input.port];
      if (!IsPlain(type)) op.keep_reason = "reads type " + tensorflow::DataTypeString(type);
      if (!state_.OnDevice(input.node)) op.keep_reason = "reads from another device";
      const BufferId b = state_.BufferOf(input);
      if (const int variable = b == kNone ? -1 : ReferenceVariable(b); variable >= 0) {
        const bool of_sum = state_.Node(variable).op() == "TemporaryVariable";
        op.keep_reason = of_sum ? kPartOfSum : "reads a reference variable";
      }
    }
    // Not of the tensor: what the op reads may be a version that another change made, and what comes after that one
    // waits for nothing else.
    const auto changed = [&](BufferId b) { return ChangedInLoop(b, state_.index[node].region); };
    if (op.keep_reason.empty() && std::any_of(op.inputs.begin(), op.inputs.end(), changed)) {
      op.keep_reason = "reads a variable that a loop changes";
    }
    op.recomputable = op.keep_reason.empty();
  }

  void JudgeBuffer(BufferId b) {
    MemBuffer& buffer = state_.out.graph.buffers[b];
    const BufferFacts& facts = state_.facts[b];
    buffer.swappable = facts.keep_reason.empty() && MayBeSwapped(b);
    buffer.keep_reason = facts.keep_reason;
    if (buffer.keep_reason == "returned" || (buffer.keep_reason.empty() && facts.by_name)) {
      buffer.keep_reason = "returned or preserved by name";
    }
    if (buffer.keep_reason.empty() && buffer.resident) buffer.keep_reason = "present during the whole step";
    if (buffer.keep_reason.empty() && buffer.producer != kNone && !state_.out.graph.ops[buffer.producer].recomputable) {
      buffer.keep_reason = state_.out.graph.ops[buffer.producer].keep_reason;
    }
    buffer.evictable = buffer.keep_reason.empty();
  }

 private:
  // May a swap-out read the tensor where it is made? Whether it could be made again does not matter.
  bool MayBeSwapped(BufferId b) const {
    const MemBuffer& buffer = state_.out.graph.buffers[b];
    if (buffer.resident || buffer.escapes || buffer.no_more_readers || buffer.bytes <= 0) return false;
    if (buffer.producer == kNone || !buffer.overwritten_by.empty()) return false;
    const int node = state_.out.node_of_op[buffer.producer];
    if (state_.notes[node]) return false;  // what is brought back has none
    const std::string& type = state_.Node(node).op();
    return state_.InRegion(node) && state_.OnDevice(node) && !IsControlFlow(type) && type != kSwapOutOp &&
           tensorflow::DataTypeCanUseMemcpy(state_.out.dtype_of_buffer[b]);
  }

  // No edge may lead from a copy into a loop, so nothing could keep the change behind the copy.
  bool ChangedInLoop(BufferId b, int region) {
    if (state_.out.graph.buffers[b].overwritten_by.empty()) return false;
    const auto [known, is_new] = changed_in_loop_.emplace(std::make_pair(b, region), false);
    if (is_new) known->second = MayChangeUnderCopies(state_, b, region);
    return known->second;
  }

  // The node of the reference variable that the tensor is stored in; -1: it is in none.
  int ReferenceVariable(BufferId b) const {
    const OpId producer = state_.out.graph.buffers[b].producer;
    const int node = producer == kNone ? -1 : state_.out.node_of_op[producer];
    const bool of_one =
        node >= 0 && !state_.types[node].outputs.empty() && tensorflow::IsRefType(state_.types[node].outputs[0]);
    return of_one ? node : -1;
  }

  ImportState& state_;
  std::map<std::pair<BufferId, int>, bool> changed_in_loop_;  // by region
};

}  // namespace

void FindKeepReasons(ImportState* state) {
  Judge judge(state);
  judge.FixSums();
  for (const int node : state->order) judge.JudgeOp(node);
  for (size_t b = 0; b < state->out.graph.buffers.size(); ++b) judge.JudgeBuffer(static_cast<BufferId>(b));
}

}  // namespace lms
