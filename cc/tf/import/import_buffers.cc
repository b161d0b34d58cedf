#include "cc/tf/import/import_buffers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/import/assumed_sizes.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

class BufferMaker {
 public:
  explicit BufferMaker(ImportState* state) : state_(*state) {}

  // Nodes are to come in execution order.
  void Add(int node) {
    const NodeTypes& types = state_.types[node];
    std::vector<BufferId>& buffers = state_.Slots(node);
    buffers.assign(types.outputs.size(), kNone);
    const std::string& type = state_.Node(node).op();
    CountCopyOfUpdate(node);
    FindRows(node);
    if (state_.index[node].frame > 0) BeginGroups(node);
    for (int port = 0; port < static_cast<int>(types.outputs.size()); ++port) {
      const int shared = state_.SharedInput({node, port});
      const int element_of = state_.lists.GroupOfElement({node, port});
      if (element_of >= 0) {
        buffers[port] = GroupBuffer(element_of, node, port);
        continue;
      }
      if (types.outputs[port] == tensorflow::DT_VARIANT && state_.lists.GroupOf(node) >= 0) {
        const int group = state_.lists.GroupOf(node);
        const bool filled_later = state_.lists.group(group).grows || state_.lists.BeganEmpty(node);
        const bool empty = state_.lists.EmptyYet(node) || (filled_later && !Begun(group));
        buffers[port] = empty ? NewList(node, port, 0) : GroupBuffer(group, node, port);
        continue;
      }
      if (type == "Merge" || type == "RefMerge") {
        buffers[port] = port == 0 ? SharedByMerge(node) : kNone;
      } else if (IsExit(state_.Node(node)) && state_.loops.Changes(node) && !IsHandle(types.outputs[port])) {
        // What the last iteration made, of which the first one's storage tells only the size.
      } else if (shared >= 0 && shared < static_cast<int>(state_.index[node].inputs.size())) {
        const TensorRef& input = state_.index[node].inputs[shared];
        buffers[port] = state_.BufferOf(input);
        if (state_.part[input.node] && buffers[port] != kNone) state_.part[node] = true;
      } else if (tensorflow::IsRefType(types.outputs[port]) && !state_.index[node].inputs.empty() &&
                 tensorflow::IsRefType(types.inputs[0])) {
        buffers[port] = state_.BufferOf(state_.index[node].inputs[0]);  // the variable that the op has changed
      } else if (IsVariableRead(type) && !state_.index[node].inputs.empty() &&
                 !CopiedOnRead(state_.index[node].inputs[0].node)) {
        buffers[port] = state_.BufferOf(state_.index[node].inputs[0]);
        // Not of another device's.
        if (buffers[port] != kNone && state_.OnDevice(node)) {
          MemBuffer& variable = state_.out.graph.buffers[buffers[port]];
          variable.bytes = std::max(variable.bytes, state_.SizeOf(node, port).bytes);
        }
      }
      if (buffers[port] != kNone) continue;
      const TensorSize size = SizeOrHeld(node, port);
      const bool here = state_.OnDevice(node) && !types.output_on_host[port];
      const bool held = type == "Const" || type == "_Arg" || type == "Placeholder" || type == "VarHandleOp" ||
                        (tensorflow::IsRefType(types.outputs[port]) && type != "TemporaryVariable") ||
                        types.outputs[port] == tensorflow::DT_RESOURCE;
      const bool variable = types.outputs[port] == tensorflow::DT_RESOURCE && state_.OnDevice(node);
      const int64_t notes =
          state_.notes[node] && port == 0 ? state_.sizes.Of(state_.Node(node).name()).workspace_bytes : 0;
      const int64_t bytes = variable ? VariableBytes(state_.Node(node)) : here ? size.bytes + notes : 0;
      const BufferId id = state_.NewBuffer(node, port, bytes, held);
      buffers[port] = id;
      BufferFacts& facts = state_.facts[id];
      if (!here) {
        facts.keep_reason = types.output_on_host[port] ? "in host memory" : "on another device";
      } else if (!IsPlain(types.outputs[port])) {
        facts.keep_reason = "type " + tensorflow::DataTypeString(types.outputs[port]);
      } else if (!size.known) {
        facts.keep_reason = kSizeUnknown;
      }
      if (here) state_.out.assumptions_of_buffer[id] = size.assumptions;
    }
  }

 private:
  // Are the node's results rows in the storage of an input? What a variable holds is left out: who holds that, and in
  // which version, is known for whole tensors only. So is what is not on the device, and what loops hand on.
  void FindRows(int node) {
    const int input = state_.sizes.Of(state_.Node(node).name()).rows_of;
    if (input < 0 || input >= static_cast<int>(state_.index[node].inputs.size()) || !state_.OnDevice(node)) return;
    const TensorRef& whole = state_.index[node].inputs[input];
    const NodeTypes& types = state_.types[whole.node];
    if (whole.port >= static_cast<int>(types.outputs.size()) || !IsPlain(types.outputs[whole.port])) return;
    if (types.output_on_host[whole.port] || state_.types[node].output_on_host[0]) return;
    const BufferId b = state_.BufferOf(whole);
    if (b == kNone || !state_.OnDevice(state_.out.node_of_op[state_.out.graph.buffers[b].producer])) return;
    const MemBuffer& buffer = state_.out.graph.buffers[b];
    const std::string& maker = state_.out.graph.ops[buffer.producer].type;
    const bool argument = maker == "Const" || maker == "_Arg" || maker == "Placeholder";
    if (buffer.resident && (!argument || state_.out.dtype_of_buffer[b] != types.outputs[whole.port])) return;
    state_.out.rows_of[node] = input;
    state_.part[node] = true;
  }

  BufferId NewList(int node, int port, int64_t bytes) {
    const BufferId id = state_.NewBuffer(node, port, state_.OnDevice(node) ? bytes : 0, false);
    state_.facts[id].keep_reason = kTensorList;
    state_.out.dtype_of_buffer[id] = tensorflow::DT_VARIANT;
    return id;
  }

  // Lists that only loops fill are empty until one makes the first element: their Enters may run long before.
  void BeginGroups(int node) {
    int made = 0;
    for (const int group : state_.lists.GroupsMadeBy(node)) {
      if (!state_.lists.group(group).grows || Begun(group)) continue;
      const std::string number = ++made == 1 ? "" : std::to_string(made);
      state_.out.graph.buffers[GroupBuffer(group, node, 0)].name = state_.Node(node).name() + ":lists" + number;
    }
  }

  bool Begun(int group) {
    if (group_buffers_.empty()) group_buffers_.assign(state_.lists.groups(), kNone);
    return group_buffers_[group] != kNone;
  }

  // The storage of all elements of a group of lists, made where it is first asked for.
  BufferId GroupBuffer(int group, int node, int port) {
    const TensorRef rows_of = state_.lists.group(group).rows_of;
    if (!Begun(group) && rows_of.node >= 0 && state_.BufferOf(rows_of) != kNone) {
      group_buffers_[group] = state_.BufferOf(rows_of);
      std::string& why = state_.facts[group_buffers_[group]].keep_reason;
      if (why.empty()) why = kTensorList;
    }
    if (!Begun(group)) {
      const int64_t rows = rows_of.node >= 0 ? state_.SizeOf(rows_of.node, rows_of.port).bytes : 0;
      group_buffers_[group] = NewList(node, port, state_.lists.group(group).bytes + rows);
      state_.out.graph.buffers[group_buffers_[group]].piece_bytes = state_.lists.group(group).element_bytes;
      state_.out.assumptions_of_buffer[group_buffers_[group]] = state_.lists.group(group).assumptions;
    }
    return group_buffers_[group];
  }

  // A variant holds what was put into it.
  TensorSize SizeOrHeld(int node, int port) const {
    TensorSize size = state_.SizeOf(node, port);
    if (state_.Node(node).op() == "TensorListStack" && (!size.known || size.assumptions != 0)) {
      const int64_t bytes = state_.lists.BytesOf(state_.index[node].inputs[0].node);
      if (bytes < 0) return size;
      size.bytes = bytes;
      size.known = true;
      size.assumptions = 0;
    }
    if (size.known || state_.types[node].outputs[port] != tensorflow::DT_VARIANT) return size;
    if (state_.Node(node).op() == "IteratorGetNextAsOptional") return state_.sizes.OfElement(state_.Node(node));
    const std::string& type = state_.Node(node).op();
    const bool passes = IsControlFlow(type) || type == "OptionalFromValue" || type == "ZerosLike";
    for (size_t i = 0; passes && i < state_.index[node].inputs.size(); ++i) {
      const BufferId b = state_.BufferOf(state_.index[node].inputs[i]);
      if (b == kNone || type == "OptionalFromValue") continue;  // shares the value's storage
      size.bytes = std::max(size.bytes, state_.out.graph.buffers[b].bytes);
    }
    return size;
  }

  // A variable that is copied on read is copied by each dense update as well, which lets go of the old one last.
  void CountCopyOfUpdate(int node) {
    const std::string& type = state_.Node(node).op();
    if ((type != "AssignAddVariableOp" && type != "AssignSubVariableOp") || state_.index[node].inputs.empty()) return;
    const int handle = state_.index[node].inputs[0].node;
    if (state_.OnDevice(node) && CopiedOnRead(handle)) {
      state_.Op(node).workspace_bytes += VariableBytes(state_.Node(handle));
    }
  }

  // A variable that is gathered from, or has sparse updates, is copied by each read: from then on its kernels change it
  // in place.
  bool CopiedOnRead(int handle) {
    if (copied_on_read_.empty()) {
      copied_on_read_.assign(state_.index.size(), false);
      for (int node = 0; node < state_.index.size(); ++node) {
        const std::string& type = state_.Node(node).op();
        const auto is = [&type](const char* kind) { return type.rfind(kind, 0) == 0; };
        const bool sparse = is("ResourceGather") || is("ResourceScatter") || is("ResourceSparseApply");
        if (sparse && state_.index[node].live && !state_.index[node].inputs.empty()) {
          copied_on_read_[state_.index[node].inputs[0].node] = true;
        }
      }
    }
    return copied_on_read_[handle];
  }

  // Only one of a Merge's inputs arrives: its output is theirs when they are one, and of their size otherwise. What an
  // iteration takes over from the one before is neither a constant nor what others hold before the loop.
  BufferId SharedByMerge(int node) const {
    if (state_.loops.Changes(node)) {
      const TensorRef enter = state_.index[node].inputs[0];
      const BufferId b = state_.BufferOf(enter);
      const bool own =
          b != kNone && !state_.index[enter.node].inputs.empty() && !IsHandle(state_.types[node].outputs[0]) &&
          (state_.out.graph.buffers[b].resident || HasOtherReaders(state_.index[enter.node].inputs[0], enter.node));
      return own ? kNone : b;
    }
    BufferId shared = kNone;
    for (const TensorRef& input : state_.index[node].inputs) {
      const BufferId b = state_.BufferOf(input);
      if (b == kNone) continue;  // around a loop
      const OpId maker = state_.out.graph.buffers[b].producer;
      if (maker != kNone && state_.out.graph.ops[maker].type == "OptionalNone") continue;
      if (shared != kNone && b != shared) return kNone;
      shared = b;
    }
    return shared;
  }

  bool HasOtherReaders(const TensorRef& tensor, int reader) const {
    const std::vector<int>& readers = state_.index[tensor.node].readers;
    return std::any_of(readers.begin(), readers.end(), [&](int other) {
      const std::vector<TensorRef>& inputs = state_.index[other].inputs;
      return other != reader && std::find(inputs.begin(), inputs.end(), tensor) != inputs.end();
    });
  }

  ImportState& state_;
  std::vector<BufferId> group_buffers_;
  std::vector<bool> copied_on_read_;  // per node that makes a variable's handle
};

}  // namespace

void AddBuffers(ImportState* state) {
  BufferMaker maker(state);
  for (const int node : state->order) maker.Add(node);
}

}  // namespace lms
