#include "cc/tf/import.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "cc/core/liveness.h"
#include "cc/core/schedule.h"
#include "cc/tf/op_traits.h"
#include "cc/tf/swap_ops.h"
#include "cc/tf/tensor_lists.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/memory_types.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace lms {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;
using DataTypes = tensorflow::DataTypeVector;

std::string DeviceType(const std::string& device) {
  tensorflow::DeviceNameUtils::ParsedName parsed;
  if (!tensorflow::DeviceNameUtils::ParseFullName(device, &parsed) || !parsed.has_type) return "CPU";
  return parsed.type;
}

bool Plain(DataType type) {
  return !tensorflow::IsRefType(type) && type != tensorflow::DT_RESOURCE && type != tensorflow::DT_VARIANT &&
         type != tensorflow::DT_STRING && type != tensorflow::DT_INVALID;
}

// Handles of variables: of one buffer, whoever has them.
bool Shares(DataType type) { return tensorflow::IsRefType(type) || type == tensorflow::DT_RESOURCE; }

void AddOnce(std::vector<int32_t>* list, int32_t id) {
  if (std::find(list->begin(), list->end(), id) == list->end()) list->push_back(id);
}

constexpr char kSumReason[] = "a sum whose order depends on who else holds its terms";

class Importer {
 public:
  Importer(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index, const TensorSizes& sizes,
           int region, bool hold, ImportedGraph* imported)
      : item_(item),
        graph_(item.graph),
        index_(index),
        sizes_(sizes),
        loops_(item.graph, index),
        lists_(item.graph, index, sizes, loops_),
        library_(tensorflow::OpRegistry::Global(), item.graph.library()),
        out_(*imported) {
    out_.region = region;
    if (!hold) return;
    loops_.HoldIterations(index.region(region).frame);
    for (int f = 1; f < index.frames(); ++f) {
      if (f != index.region(region).frame && lists_.OverlapOf(f).bytes > 0) loops_.HoldIterations(f);
    }
    out_.holds = loops_.Holds();
  }

  absl::Status Run() {
    absl::Status status = ReadTypes();
    if (status.ok()) status = CheckPorts();
    if (!status.ok()) return status;
    ChooseDevice();
    status = AddOps();
    if (!status.ok()) return status;
    for (const int node : order_) AddBuffers(node);
    for (const int node : order_) AddReads(node);
    AddLoopReads();
    for (const int node : order_) AddVariableWrites(node);
    for (const int node : order_) AddHeldReads(node);
    NoteUnknownLists();
    FixSums();
    for (const int node : order_) JudgeOp(node);
    for (size_t b = 0; b < out_.graph.buffers.size(); ++b) JudgeBuffer(static_cast<BufferId>(b));
    const std::string wrong = out_.graph.Validate();
    return wrong.empty() ? absl::OkStatus() : absl::InternalError(wrong);
  }

 private:
  struct Types {
    const tensorflow::OpDef* op_def = nullptr;
    tensorflow::DataTypeVector inputs;
    tensorflow::DataTypeVector outputs;
    std::vector<bool> output_on_host;
  };

  const NodeDef& Node(int node) const { return graph_.node(node); }
  MemOp& Op(int node) { return out_.graph.ops[out_.op_of_node[node]]; }

  absl::Status ReadTypes() {
    types_.resize(index_.size());
    for (int i = 0; i < index_.size(); ++i) {
      if (!index_[i].live) continue;
      Types& types = types_[i];
      absl::Status status = library_.LookUpOpDef(Node(i).op(), &types.op_def);
      if (status.ok()) {
        status = tensorflow::InOutTypesForNode(Node(i), *types.op_def, &types.inputs, &types.outputs);
      }
      if (!status.ok()) return status;
      types.output_on_host.assign(types.outputs.size(), false);
      if (DeviceType(Node(i).device()) == "CPU") continue;
      tensorflow::MemoryTypeVector inputs;
      tensorflow::MemoryTypeVector outputs;
      if (!tensorflow::MemoryTypesForNode(tensorflow::OpRegistry::Global(),
                                          tensorflow::DeviceType(DeviceType(Node(i).device())), Node(i), &inputs,
                                          &outputs)
               .ok()) {
        continue;
      }
      for (size_t port = 0; port < outputs.size() && port < types.output_on_host.size(); ++port) {
        types.output_on_host[port] = outputs[port] == tensorflow::HOST_MEMORY;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckPorts() const {
    for (int i = 0; i < index_.size(); ++i) {
      if (!index_[i].live) continue;
      if (index_[i].inputs.size() != types_[i].inputs.size()) {
        return absl::InvalidArgumentError(Node(i).name() + " has another number of inputs than its op takes");
      }
      for (const TensorRef& input : index_[i].inputs) {
        if (input.port < static_cast<int>(types_[input.node].outputs.size())) continue;
        return absl::InvalidArgumentError(Node(i).name() + " reads output " + std::to_string(input.port) + " of " +
                                          Node(input.node).name() + ", which has fewer");
      }
    }
    return absl::OkStatus();
  }

  // A handle is on the host; what is swapped in is as large as what was swapped out.
  TensorSize SizeOf(int node, int port) const {
    for (int steps = 0; IsSwap(node); ++steps) {
      if (Node(node).op() == kSwapOutOp && steps == 0) return {0, /*known=*/true, false};
      if (steps > index_.size() || index_[node].inputs.empty()) return TensorSize();
      port = index_[node].inputs[0].port;
      node = index_[node].inputs[0].node;
    }
    const std::vector<TensorSize>& outputs = sizes_.Of(Node(node).name()).outputs;
    return port < static_cast<int>(outputs.size()) ? outputs[port] : TensorSize();
  }

  void ChooseDevice() {
    std::map<std::string, int64_t> bytes;
    bool any_gpu = false;
    for (int i = 0; i < index_.size(); ++i) {
      if (!index_[i].live) continue;
      any_gpu |= DeviceType(Node(i).device()) == "GPU";
      int64_t& sum = bytes[Node(i).device()];
      for (size_t port = 0; port < types_[i].outputs.size(); ++port) sum += SizeOf(i, static_cast<int>(port)).bytes;
    }
    int64_t most = -1;
    for (const auto& [device, sum] : bytes) {
      if (any_gpu && DeviceType(device) != "GPU") continue;
      if (sum > most) {
        most = sum;
        out_.device = device;
      }
    }
  }

  bool IsSwap(int node) const { return Node(node).op() == kSwapOutOp || Node(node).op() == kSwapInOp; }

  bool OnDevice(int node) const { return Node(node).device() == out_.device; }

  bool InRegion(int node) const { return index_[node].region == out_.region && !loops_.Straggles(node); }

  // What leaves a loop comes after all that its iterations take in: else the order would have ops outside run between,
  // on the strength of the first iteration alone, and edges that keep to such an order would be a deadlock.
  void AddLoopEnds(int node, int input, const std::vector<OpId>& op_of, std::vector<OpId>* deps) const {
    if (index_[node].frame > 0) {
      if (!IsExit(Node(node))) return;  // within the iteration
      for (const int end : index_.frame(index_[node].frame).ends) {
        if (op_of[end] != kNone) AddOnce(deps, op_of[end]);
      }
      return;
    }
    const int cycle = index_[input].cycle;
    if (cycle < 0 || cycle == index_[node].cycle) return;
    for (const int end : index_.CycleEnds(cycle)) {
      if (op_of[end] != kNone) AddOnce(deps, op_of[end]);
    }
  }

  // One op per live node, in execution order.
  absl::Status AddOps() {
    std::vector<int> live;
    std::vector<OpId> op_of(index_.size(), kNone);
    for (int i = 0; i < index_.size(); ++i) {
      if (!index_[i].live) continue;
      op_of[i] = static_cast<OpId>(live.size());
      live.push_back(i);
    }
    MemGraph unordered;
    for (const int i : live) {
      MemOp op;
      op.name = Node(i).name();
      op.type = Node(i).op();
      for (const TensorRef& input : index_[i].inputs) {
        // The edge that closes a loop.
        const std::string& type = Node(input.node).op();
        if (type == "NextIteration" || type == "RefNextIteration") continue;
        AddOnce(&op.deps, op_of[input.node]);
        AddLoopEnds(i, input.node, op_of, &op.deps);
      }
      for (const int control : index_[i].controls) {
        AddOnce(&op.deps, op_of[control]);
        AddLoopEnds(i, control, op_of, &op.deps);
      }
      for (const Loops::Hold& hold : out_.holds) {
        if (hold.gate == i) AddOnce(&op.deps, op_of[hold.node]);
      }
      // A result becomes the function's own, no node that others could wait for.
      const bool result = op.type == "_Retval" || op.type == "_DeviceRetval";
      if (DeviceType(Node(i).device()) == "CPU" && OnDevice(i) && !IsSwap(i)) {
        op.workspace_bytes = sizes_.Of(Node(i).name()).workspace_bytes;
      }
      op.anchor = InRegion(i) && OnDevice(i) && !IsControlFlow(op.type) && !result;
      unordered.ops.push_back(std::move(op));
    }
    out_.variable_waits = FindVariableWaits(graph_, index_);
    MemGraph waiting = unordered;
    for (const VariableWait& wait : out_.variable_waits) {
      AddOnce(&waiting.ops[op_of[wait.update]].deps, op_of[wait.reader]);
    }
    std::vector<OpId> order = ExecutionOrder(waiting);
    if (order.size() == live.size()) {
      unordered = std::move(waiting);
    } else {  // some waits close a cycle together
      out_.variable_waits.clear();
      order = ExecutionOrder(unordered);
    }
    if (order.size() != live.size()) return absl::InvalidArgumentError("the graph has a cycle outside its loops");
    out_.graph = Reordered(unordered, order);
    out_.op_of_node.assign(index_.size(), kNone);
    for (size_t i = 0; i < order.size(); ++i) {
      order_.push_back(live[order[i]]);
      out_.op_of_node[order_.back()] = static_cast<OpId>(i);
    }
    out_.node_of_op = order_;
    return absl::OkStatus();
  }

  BufferId NewBuffer(int node, int port, int64_t bytes, bool resident) {
    MemBuffer buffer;
    buffer.name = Node(node).name() + ":" + std::to_string(port);
    buffer.bytes = bytes;
    buffer.resident = resident;
    buffer.producer = out_.op_of_node[node];
    out_.graph.buffers.push_back(buffer);
    facts_.push_back({});
    out_.dtype_of_buffer.push_back(types_[node].outputs[port]);
    const BufferId id = static_cast<BufferId>(out_.graph.buffers.size()) - 1;
    Op(node).outputs.push_back(id);
    return id;
  }

  void AddBuffers(int node) {
    const Types& types = types_[node];
    std::vector<BufferId>& buffers = Slots(node);
    buffers.assign(types.outputs.size(), kNone);
    const std::string& type = Node(node).op();
    for (int port = 0; port < static_cast<int>(types.outputs.size()); ++port) {
      const int shared = SharedInput(Node(node), port);
      const int element_of = lists_.GroupOfElement({node, port});
      if (element_of >= 0) {
        buffers[port] = GroupBuffer(element_of, node, port);
        continue;
      }
      if (types.outputs[port] == tensorflow::DT_VARIANT && lists_.GroupOf(node) >= 0) {
        buffers[port] = lists_.EmptyYet(node) ? NewList(node, port, 0) : GroupBuffer(lists_.GroupOf(node), node, port);
        continue;
      }
      if (type == "Merge" || type == "RefMerge") {
        buffers[port] = port == 0 ? SharedByMerge(node) : kNone;
      } else if (IsExit(Node(node)) && loops_.Changes(node) && !Shares(types.outputs[port])) {
        // What the last iteration made, of which the first one's storage tells only the size.
      } else if (shared >= 0 && shared < static_cast<int>(index_[node].inputs.size())) {
        buffers[port] = BufferOf(index_[node].inputs[shared]);
      } else if (tensorflow::IsRefType(types.outputs[port]) && !index_[node].inputs.empty() &&
                 tensorflow::IsRefType(types.inputs[0])) {
        buffers[port] = BufferOf(index_[node].inputs[0]);  // the variable that the op has changed
      } else if (IsVariableRead(type) && !index_[node].inputs.empty() && !CopiedOnRead(index_[node].inputs[0].node)) {
        buffers[port] = BufferOf(index_[node].inputs[0]);
        if (buffers[port] != kNone) {
          MemBuffer& variable = out_.graph.buffers[buffers[port]];
          variable.bytes = std::max(variable.bytes, SizeOf(node, port).bytes);
        }
      }
      if (buffers[port] != kNone) continue;
      const TensorSize size = SizeOrHeld(node, port);
      const bool here = OnDevice(node) && !types.output_on_host[port];
      const bool held = type == "Const" || type == "_Arg" || type == "Placeholder" || type == "VarHandleOp" ||
                        (tensorflow::IsRefType(types.outputs[port]) && type != "TemporaryVariable") ||
                        types.outputs[port] == tensorflow::DT_RESOURCE;
      const bool variable = types.outputs[port] == tensorflow::DT_RESOURCE && OnDevice(node);
      const BufferId id = NewBuffer(node, port, variable ? VariableBytes(Node(node)) : here ? size.bytes : 0, held);
      buffers[port] = id;
      Facts& facts = facts_[id];
      if (!here) {
        facts.keep_reason = types.output_on_host[port] ? "in host memory" : "on another device";
      } else if (!Plain(types.outputs[port])) {
        facts.keep_reason = "type " + tensorflow::DataTypeString(types.outputs[port]);
      } else if (!size.known) {
        facts.keep_reason = "size unknown";
      }
      if (size.assumed && here && !held) {
        ++out_.assumed_tensors;
        if (size.bytes > assumed_bytes_) {
          assumed_bytes_ = size.bytes;
          out_.assumed_example = out_.graph.buffers[id].name;
        }
      }
    }
  }

  BufferId NewList(int node, int port, int64_t bytes) {
    const BufferId id = NewBuffer(node, port, OnDevice(node) ? bytes : 0, false);
    facts_[id].keep_reason = "a tensor list";
    return id;
  }

  // The storage of all elements of a group of lists, made where it is first asked for.
  BufferId GroupBuffer(int group, int node, int port) {
    if (group_buffers_.empty()) group_buffers_.assign(lists_.groups(), kNone);
    if (group_buffers_[group] == kNone) group_buffers_[group] = NewList(node, port, lists_.group(group).bytes);
    return group_buffers_[group];
  }

  // A variant holds what was put into it.
  TensorSize SizeOrHeld(int node, int port) const {
    TensorSize size = SizeOf(node, port);
    if (Node(node).op() == "TensorListStack" && (!size.known || size.assumed)) {
      const int64_t bytes = lists_.BytesOf(index_[node].inputs[0].node);
      if (bytes < 0) return size;
      size.bytes = bytes;
      size.known = true;
      size.assumed = false;
    }
    if (size.known || types_[node].outputs[port] != tensorflow::DT_VARIANT) return size;
    if (Node(node).op() == "IteratorGetNextAsOptional") return sizes_.OfElement(Node(node));
    const bool passes = IsControlFlow(Node(node).op()) || Node(node).op() == "OptionalFromValue";
    for (size_t i = 0; passes && i < index_[node].inputs.size(); ++i) {
      const BufferId b = BufferOf(index_[node].inputs[i]);
      if (b == kNone || Node(node).op() == "OptionalFromValue") continue;  // shares the value's storage
      size.bytes = std::max(size.bytes, out_.graph.buffers[b].bytes);
    }
    return size;
  }

  // A variable with sparse updates is copied by each read: its kernels change it in place.
  bool CopiedOnRead(int handle) {
    if (copied_on_read_.empty()) {
      copied_on_read_.assign(index_.size(), false);
      for (int node = 0; node < index_.size(); ++node) {
        const std::string& type = Node(node).op();
        const bool sparse = type.rfind("ResourceScatter", 0) == 0 || type.rfind("ResourceSparseApply", 0) == 0;
        if (sparse && index_[node].live && !index_[node].inputs.empty()) {
          copied_on_read_[index_[node].inputs[0].node] = true;
        }
      }
    }
    return copied_on_read_[handle];
  }

  // Only one of a Merge's inputs arrives: its output is theirs when they are one, and of their size otherwise. What an
  // iteration takes over from the one before is neither a constant nor what others hold before the loop.
  BufferId SharedByMerge(int node) const {
    if (loops_.Changes(node)) {
      const TensorRef enter = index_[node].inputs[0];
      const BufferId b = BufferOf(enter);
      const bool own = b != kNone && !index_[enter.node].inputs.empty() && !Shares(types_[node].outputs[0]) &&
                       (out_.graph.buffers[b].resident || HasOtherReaders(index_[enter.node].inputs[0], enter.node));
      return own ? kNone : b;
    }
    BufferId shared = kNone;
    for (const TensorRef& input : index_[node].inputs) {
      const BufferId b = BufferOf(input);
      if (b == kNone) continue;  // around a loop
      if (shared != kNone && b != shared) return kNone;
      shared = b;
    }
    return shared;
  }

  bool HasOtherReaders(const TensorRef& tensor, int reader) const {
    const std::vector<int>& readers = index_[tensor.node].readers;
    return std::any_of(readers.begin(), readers.end(), [&](int other) {
      const std::vector<TensorRef>& inputs = index_[other].inputs;
      return other != reader && std::find(inputs.begin(), inputs.end(), tensor) != inputs.end();
    });
  }

  std::vector<BufferId>& Slots(int node) {
    if (out_.buffer_of_port.empty()) out_.buffer_of_port.resize(index_.size());
    return out_.buffer_of_port[node];
  }

  BufferId BufferOf(const TensorRef& tensor) const {
    const std::vector<BufferId>& ports = out_.buffer_of_port[tensor.node];
    return tensor.port < static_cast<int>(ports.size()) ? ports[tensor.port] : kNone;
  }

  void AddReads(int node) {
    MemOp& op = Op(node);
    const bool fixed = !InRegion(node) || IsControlFlow(op.type) || !OnDevice(node);
    for (size_t i = 0; i < index_[node].inputs.size(); ++i) {
      const BufferId b = BufferOf(index_[node].inputs[i]);
      if (b == kNone) continue;
      Facts& facts = facts_[b];
      MemBuffer& buffer = out_.graph.buffers[b];
      const int maker = index_[node].inputs[i].node;
      if (op.type == "_Retval" || index_.Fetched(maker)) buffer.escapes = !buffer.resident;
      if (op.type == "_Retval" || index_.Fetched(maker)) facts.keep_reason = "returned";
      facts.by_name |= index_.Preserved(maker);
      if (fixed) facts.keep_reason = "used inside control flow or on another device";
      // A view is no read: those who read through it are.
      if (IsViewOfInput(Node(node), static_cast<int>(i))) {
        const std::string why_not = WhyNotRecomputable(Node(node), *types_[node].op_def);
        if (!why_not.empty()) facts.keep_reason = "read through " + op.type + ": " + why_not;
        continue;
      }
      const bool again = std::find(op.inputs.begin(), op.inputs.end(), b) != op.inputs.end();
      if (!again) op.inputs.push_back(b);
      if (!MayForwardInput(op.type) || buffer.resident) continue;
      // Read twice by one op, storage has two holders: neither gives it up.
      if (again) {
        op.forwardable.erase(std::remove(op.forwardable.begin(), op.forwardable.end(), b), op.forwardable.end());
      } else {
        op.forwardable.push_back(b);
      }
    }
    for (size_t port = 0; port < types_[node].outputs.size(); ++port) {
      const BufferId b = Slots(node)[port];
      if (b == kNone || !index_.Preserved(node)) continue;
      if (index_.Fetched(node)) out_.graph.buffers[b].escapes = !out_.graph.buffers[b].resident;
      if (index_.Fetched(node)) facts_[b].keep_reason = "returned";
      facts_[b].by_name = true;
    }
  }

  // What iterations that run ahead hold, from the first result that waits to the loop's end: loops may run side by
  // side.
  void AddOverlap(int frame, OpId last) {
    const TensorLists::Overlap overlap = lists_.OverlapOf(frame);
    OpId first = last;
    for (const int maker : overlap.makers) first = std::min(first, out_.op_of_node[maker]);
    if (overlap.bytes == 0 || first == last || !OnDevice(order_[first])) return;
    const BufferId id = NewBuffer(order_[first], 0, overlap.bytes, false);
    out_.graph.buffers[id].name = Node(order_[first]).name() + ":overlap";
    out_.overlaps.push_back(id);
    facts_[id].keep_reason = "of iterations of a loop that overlap";
    out_.graph.ops[last].inputs.push_back(id);
  }

  // What enters a loop and does not change there is held until the loop has ended, and what an iteration hands to the
  // next one until that has taken it.
  void AddLoopReads() {
    for (int f = 1; f < index_.frames(); ++f) {
      OpId last = kNone;
      for (const int end : index_.frame(f).ends) last = std::max(last, out_.op_of_node[end]);
      if (last == kNone) continue;
      AddOverlap(f, last);
      const auto hold = [&](BufferId b) {
        if (b == kNone || out_.graph.buffers[b].resident) return;
        AddOnce(&out_.graph.ops[last].inputs, b);
        if (facts_[b].keep_reason.empty()) facts_[b].keep_reason = "used inside control flow or on another device";
      };
      for (const int node : order_) {
        if (index_[node].frame != f) continue;
        if (IsEnter(Node(node)) && !loops_.Changes(node)) hold(BufferOf({node, 0}));
        if (IsNextIteration(Node(node)) && out_.op_of_node[node] < last) hold(BufferOf({node, 0}));
      }
    }
  }

  // Ops in loops that hold what nobody can tell the size of.
  void NoteUnknownLists() {
    std::vector<bool> unknown(index_.frames(), false);
    for (const int node : order_) {
      if (index_[node].frame <= 0 || IsControlFlow(Node(node).op())) continue;
      const DataTypes& outputs = types_[node].outputs;
      for (size_t port = 0; port < outputs.size(); ++port) {
        if (outputs[port] != tensorflow::DT_VARIANT) continue;
        const int group = lists_.GroupOf(node);
        const std::string& op = Node(node).op();
        const bool optional =
            op.rfind("Optional", 0) == 0 || op.rfind("Iterator", 0) == 0 || IsPassThrough(Node(node)) || IsSwap(node);
        if (group < 0 ? optional : lists_.group(group).known) continue;
        unknown[index_[node].frame] = true;
        if (out_.hidden_example.empty()) out_.hidden_example = Node(node).name();
      }
    }
    for (const int node : order_) {
      for (int f = std::max(0, index_[node].frame); f > 0; f = index_.frame(f).parent) {
        if (!unknown[f]) continue;
        ++out_.hidden_ops;
        break;
      }
    }
  }

  // Must, or might, copies wait to be before this change of a variable? One around the planned region, or in another
  // branch, cannot be waited for and need not be: a copy reads the tensor that its original reads, and that is copied
  // where it is still held when its variable changes.
  bool Concerns(int writer) const {
    const int region = index_[writer].region;
    return region < 0 || index_.Implies(region, out_.region) ||
           index_.Within(index_[writer].frame, index_.region(out_.region).frame);
  }

  void AddVariableWrites(int node) {
    const MemOp& op = Op(node);
    if (ChangesInPlace(op.type) && !index_[node].inputs.empty()) {
      const BufferId b = BufferOf(index_[node].inputs[0]);
      if (b == kNone) return;
      if (Concerns(node)) AddOnce(&out_.graph.buffers[b].overwritten_by, out_.op_of_node[node]);
      facts_[b].keep_reason = "changed in place by " + op.type;
    }
    if (IsVariableRead(op.type) || IsVariableQuery(op.type)) return;
    if (!types_[node].op_def->is_stateful() || !Concerns(node)) return;
    for (size_t i = 0; i < index_[node].inputs.size(); ++i) {
      const DataType type = i < types_[node].inputs.size() ? types_[node].inputs[i] : tensorflow::DT_INVALID;
      if (type != tensorflow::DT_RESOURCE && !tensorflow::IsRefType(type)) continue;
      const BufferId b = BufferOf(index_[node].inputs[i]);
      if (b != kNone) AddOnce(&out_.graph.buffers[b].overwritten_by, out_.op_of_node[node]);
    }
  }

  // The ReadVariableOp behind a tensor that is one, or a view of one; -1 for others.
  int ReadBehind(TensorRef tensor) const {
    for (int steps = 0; steps < index_.size(); ++steps) {
      const NodeDef& node = Node(tensor.node);
      if (IsVariableRead(node.op())) return tensor.node;
      const int shared = SharedInput(node, tensor.port);
      if (shared < 0 || IsControlFlow(node.op()) || shared >= static_cast<int>(index_[tensor.node].inputs.size())) {
        return -1;
      }
      tensor = index_[tensor.node].inputs[shared];
    }
    return -1;
  }

  void AddHeldReads(int node) {
    if (index_[node].in_frame) return;
    for (size_t i = 0; i < index_[node].inputs.size(); ++i) {
      const BufferId b = BufferOf(index_[node].inputs[i]);
      if (b == kNone || !out_.graph.buffers[b].resident || out_.graph.buffers[b].overwritten_by.empty()) continue;
      if (IsViewOfInput(Node(node), static_cast<int>(i))) continue;
      const int read = ReadBehind(index_[node].inputs[i]);
      if (read < 0 || read == node || index_[read].in_frame) continue;
      out_.held_reads.push_back({b, out_.op_of_node[read], out_.op_of_node[node]});
    }
  }

  // AddN puts the first input whose storage it may take over in front: the order of a sum of three or more tensors, and
  // with it the last bits, depends on who else holds them (input 0, input 1 and none come to the same sum). Where input
  // 0 or 1 has no other reader the order is known, and stays as long as none is added. Otherwise all inputs stay as
  // they are.
  void FixSums() {
    std::vector<int> readers(out_.graph.buffers.size(), 0);
    for (const MemOp& op : out_.graph.ops) {
      for (const BufferId b : op.inputs) ++readers[b];
    }
    for (const int node : order_) {
      if (!OrderDependsOnHolders(Node(node).op(), index_[node].inputs.size())) continue;
      bool fixed = false;
      for (size_t i = 0; i < 2 && !fixed; ++i) {
        const BufferId b = BufferOf(index_[node].inputs[i]);
        if (b == kNone || readers[b] != 1 || out_.graph.buffers[b].resident || out_.graph.buffers[b].escapes) continue;
        fixed = out_.graph.buffers[b].no_more_readers = true;
      }
      for (size_t i = 0; i < index_[node].inputs.size() && !fixed; ++i) {
        const BufferId b = BufferOf(index_[node].inputs[i]);
        if (b == kNone || out_.graph.buffers[b].resident) continue;
        out_.graph.buffers[b].no_more_readers = true;
        facts_[b].keep_reason = kSumReason;
      }
    }
  }

  void JudgeOp(int node) {
    MemOp& op = Op(node);
    op.keep_reason = WhyNotRecomputable(Node(node), *types_[node].op_def);
    if (op.keep_reason.empty() && OrderDependsOnHolders(op.type, index_[node].inputs.size())) {
      op.keep_reason = kSumReason;
    }
    if (op.keep_reason.empty() && !InRegion(node)) {
      op.keep_reason = index_[node].region == out_.region ? "may still run in the next iteration of its loop"
                       : index_[node].in_frame            ? "inside a loop"
                       : index_[node].conditional         ? "inside a branch"
                                                          : "outside of the loop or branch that is planned";
    }
    if (op.keep_reason.empty() && !OnDevice(node)) op.keep_reason = "on another device";
    for (size_t i = 0; op.keep_reason.empty() && i < index_[node].inputs.size(); ++i) {
      const TensorRef& input = index_[node].inputs[i];
      const DataType type = types_[input.node].outputs[input.port];
      if (!Plain(type)) op.keep_reason = "reads type " + tensorflow::DataTypeString(type);
      if (!OnDevice(input.node)) op.keep_reason = "reads from another device";
      const BufferId b = BufferOf(input);
      if (b != kNone && ReferenceVariable(b)) op.keep_reason = "reads a reference variable";
      if (b != kNone && ChangedInLoop(b)) op.keep_reason = "reads a variable that a loop changes";
    }
    op.recomputable = op.keep_reason.empty();
  }

  // No edge may lead from a copy into a loop, so nothing could keep the change behind the copy.
  bool ChangedInLoop(BufferId b) const {
    const std::vector<OpId>& writers = out_.graph.buffers[b].overwritten_by;
    return std::any_of(writers.begin(), writers.end(),
                       [this](OpId writer) { return !MayFollow(out_.node_of_op[writer]); });
  }

  // May the node wait for one of the planned region?
  bool MayFollow(int node) const { return index_.Implies(index_[node].region, out_.region); }

  bool ReferenceVariable(BufferId b) const {
    const OpId producer = out_.graph.buffers[b].producer;
    const int node = producer == kNone ? -1 : out_.node_of_op[producer];
    return node >= 0 && !types_[node].outputs.empty() && tensorflow::IsRefType(types_[node].outputs[0]);
  }

  void JudgeBuffer(BufferId b) {
    MemBuffer& buffer = out_.graph.buffers[b];
    buffer.swappable = facts_[b].keep_reason.empty() && MayBeSwapped(b);
    buffer.keep_reason = facts_[b].keep_reason;
    if (buffer.keep_reason == "returned" || (buffer.keep_reason.empty() && facts_[b].by_name)) {
      buffer.keep_reason = "returned or preserved by name";
    }
    if (buffer.keep_reason.empty() && buffer.resident) buffer.keep_reason = "present during the whole step";
    if (buffer.keep_reason.empty() && buffer.producer != kNone && !out_.graph.ops[buffer.producer].recomputable) {
      buffer.keep_reason = out_.graph.ops[buffer.producer].keep_reason;
    }
    buffer.evictable = buffer.keep_reason.empty();
  }

  // May a swap-out read the tensor where it is made? Whether it could be made again does not matter.
  bool MayBeSwapped(BufferId b) const {
    const MemBuffer& buffer = out_.graph.buffers[b];
    if (buffer.resident || buffer.escapes || buffer.no_more_readers || buffer.bytes <= 0) return false;
    if (buffer.producer == kNone || !buffer.overwritten_by.empty()) return false;
    const int node = out_.node_of_op[buffer.producer];
    return InRegion(node) && OnDevice(node) && !IsControlFlow(Node(node).op()) && Node(node).op() != kSwapOutOp &&
           tensorflow::DataTypeCanUseMemcpy(out_.dtype_of_buffer[b]);
  }

  struct Facts {
    std::string keep_reason;  // neither recomputed nor swapped
    bool by_name = false;     // made by a node that is preserved by name: not recomputed
  };

  const tensorflow::grappler::GrapplerItem& item_;
  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const TensorSizes& sizes_;
  Loops loops_;
  const TensorLists lists_;
  tensorflow::FunctionLibraryDefinition library_;
  ImportedGraph& out_;
  std::vector<Types> types_;
  std::vector<int> order_;  // nodes in execution order
  std::vector<Facts> facts_;
  std::vector<BufferId> group_buffers_;
  std::vector<bool> copied_on_read_;  // per node that makes a variable's handle
  int64_t assumed_bytes_ = -1;
};

// The region whose nodes made most of what is live at the peak, of those that can be planned.
int RegionOfThePeak(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported) {
  const MemGraph& memory = imported.graph;
  const OpId peak = Simulate(memory, Plan()).peak_op;
  if (peak == kNone) return 0;
  std::vector<OpId> last_read(memory.buffers.size(), kNone);
  for (OpId op = 0; op < static_cast<OpId>(memory.ops.size()); ++op) {
    for (const BufferId b : memory.ops[op].inputs) last_read[b] = op;
  }
  const Loops loops(graph, index);
  std::vector<int64_t> bytes(index.regions(), 0);
  for (size_t b = 0; b < memory.buffers.size(); ++b) {
    const MemBuffer& buffer = memory.buffers[b];
    if (buffer.resident || buffer.producer == kNone || buffer.producer > peak) continue;
    if (last_read[b] < peak && !buffer.escapes && buffer.producer != peak) continue;
    const int node = imported.node_of_op[buffer.producer];
    if (index[node].region >= 0 && (!loops.Straggles(node) || loops.MayBeHeld(node)))
      bytes[index[node].region] += buffer.bytes;
  }
  int best = 0;
  for (int region = 1; region < index.regions(); ++region) {
    if (bytes[region] > bytes[best] && loops.MayBePlanned(region)) best = region;
  }
  return best;
}

}  // namespace

absl::Status ImportRegion(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                          const TensorSizes& sizes, int region, bool hold, ImportedGraph* imported) {
  *imported = ImportedGraph();
  return Importer(item, index, sizes, region, hold, imported).Run();
}

absl::Status ImportGraph(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                         const TensorSizes& sizes, ImportedGraph* imported) {
  absl::Status status = ImportRegion(item, index, sizes, 0, false, imported);
  if (!status.ok() || index.regions() < 2) return status;
  const int region = RegionOfThePeak(item.graph, index, *imported);
  return region == 0 ? status : ImportRegion(item, index, sizes, region, false, imported);
}

void ImportCosts(const tensorflow::grappler::GrapplerItem& item, const TensorSizes& sizes, const SwapLink& link,
                 ImportedGraph* imported) {
  const std::vector<MemBuffer>& buffers = imported->graph.buffers;
  imported->one_lane = link.one_lane();
  for (size_t i = 0; i < imported->graph.ops.size(); ++i) {
    MemOp& op = imported->graph.ops[i];
    if (op.type != kSwapOutOp && op.type != kSwapInOp) {
      op.cost_us = sizes.Of(item.graph.node(imported->node_of_op[i]).name()).cost_us;
      continue;
    }
    int64_t bytes = 0;
    for (const BufferId b : op.type == kSwapOutOp ? op.inputs : op.outputs) bytes += buffers[b].bytes;
    op.cost_us = !link.usable() ? 0 : op.type == kSwapOutOp ? link.OutUs(bytes) : link.InUs(bytes);
  }
}

}  // namespace lms
