#include "cc/tf/rewrite/rewrite.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cc/core/graph/node_names.h"
#include "cc/core/graph/walk.h"
#include "cc/core/order/order_keeper.h"
#include "cc/tf/graph/handed_copies.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/rewrite/effects.h"
#include "cc/tf/rewrite/instances.h"
#include "cc/tf/stock/layout_fusions.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

class Rewriter {
 public:
  Rewriter(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan, const RewriteOptions& options,
           tensorflow::GraphDef* graph, RewriteResult* result)
      : imported_(imported),
        index_(index),
        plan_(plan),
        options_(options),
        pace_(options.deadline),
        graph_(graph),
        out_(*result),
        fusions_(*graph, tensorflow::IsMKLEnabled()),
        instances_(imported, index, graph),
        moved_(MovedOps(imported.graph, plan)),
        swapped_out_(imported.graph.buffers.size(), -1),
        due_(plan.swap_ins.size(), false) {
    if (options.enforce_order || options.serialize_bytes > 0) {
      const int64_t limit = options.enforce_order ? options.order_limit_bytes : kNoLimit;
      std::vector<int> places;
      for (OpId op = 0; op < static_cast<OpId>(imported.graph.ops.size()); ++op) places.push_back(PlaceOf(op));
      order_.emplace(imported.graph, plan, limit, options.serialize_bytes, options.deadline, options.order_bytes,
                     std::move(places));
    }
    triggers_in_.reserve(imported.graph.ops.size());
    for (OpId op = 0; op < static_cast<OpId>(imported.graph.ops.size()); ++op) triggers_in_.push_back(TriggersIn(op));
    late_ = moved_;
    for (size_t i = 0; i < late_.size(); ++i) {
      const std::vector<OpId>& deps = imported.graph.ops[i].deps;
      if (IsFree(imported.graph, static_cast<OpId>(i)) &&
          std::any_of(deps.begin(), deps.end(), [this](OpId dep) { return late_[dep]; })) {
        late_[i] = true;
      }
    }
  }

  absl::Status Run() {
    FindUntimed();
    if (!out_.untimed.empty()) {
      return absl::FailedPreconditionError("no op to wait for before " + NameOf(out_.untimed[0]) + " runs again");
    }
    for (const Loops::Hold& hold : imported_.holds) {
      AddControl(Original(hold.node).name(), graph_->mutable_node(hold.gate));
    }
    absl::Status status;
    Walk(imported_.graph, plan_, [this, &status](const PlanEvent& event) {
      if (status.ok()) status = Apply(event);
    });
    if (!status.ok()) return status;
    for (const NodeWait& wait : imported_.bit_waits) {
      AddControl(Original(wait.waits_for).name(), graph_->mutable_node(wait.node));
    }
    for (const VariableWait& wait : imported_.variable_waits) {
      AddControl(Original(wait.reader).name(), graph_->mutable_node(wait.update));
    }
    for (const CollectiveWait& wait : imported_.collective_waits) {
      AddControl(Original(wait.waits_for).name(), graph_->mutable_node(wait.node));
    }
    KeepEffects(index_, imported_.node_of_op, options_.deadline, graph_);
    fusions_.Keep(graph_);
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  absl::Status Apply(const PlanEvent& event) {
    switch (event.kind) {
      case PlanEvent::Kind::kSwapIn:
        AddSwapIn(event.index);
        break;
      case PlanEvent::Kind::kStep:
        AddStep(event.index);
        break;
      case PlanEvent::Kind::kOp:
        NoteReads(event.index);
        if (!fusions_.Follows(imported_.node_of_op[event.index])) {
          instances_.Redirect(imported_.node_of_op[event.index]);
        }
        if (order_) KeepOrder(event.index);
        break;
      case PlanEvent::Kind::kMovedAway:
        break;
      case PlanEvent::Kind::kSwapOut:
        return AddSwapOut(event.index);
    }
    return absl::OkStatus();
  }

  const NodeDef& Original(int node) const { return graph_->node(node); }
  const std::string& NameOf(OpId op) const { return graph_->node(imported_.node_of_op[op]).name(); }

  void AddControl(const std::string& name, NodeDef* node) const {
    const std::string control = "^" + name;
    pace_.Step(20 + node->input_size());
    if (std::find(node->input().begin(), node->input().end(), control) == node->input().end()) node->add_input(control);
  }

  // The last op before `before` that makes one of its inputs: once it has run, what is recomputed is wanted.
  OpId Trigger(OpId before, int region) const {
    OpId trigger = kNone;
    for (const OpId dep : imported_.graph.ops[before].deps) {
      OpId producer = dep;
      // Look through ops that cannot carry an edge, towards what they wait for.
      while (producer != kNone && !CanTrigger(producer, region)) {
        const std::vector<OpId>& deps = imported_.graph.ops[producer].deps;
        pace_.Step(1 + static_cast<int64_t>(deps.size()));
        producer = deps.empty() ? kNone : *std::max_element(deps.begin(), deps.end());
      }
      trigger = std::max(trigger, producer);
    }
    return trigger;
  }

  bool CanTrigger(OpId op, int region) const { return triggers_in_[op] == region && !late_[op]; }

  // In the order: what runs before the data are there waits for nothing else.
  int PlaceOf(OpId op) const {
    const bool before = !imported_.before_data.empty() && imported_.before_data[imported_.node_of_op[op]];
    return before ? index_.regions() : RegionOf(op);
  }
  int RegionOf(OpId op) const { return index_[imported_.node_of_op[op]].region; }

  bool Planned(int region) const {
    return std::find(imported_.regions.begin(), imported_.regions.end(), region) != imported_.regions.end();
  }

  // The planned region in which copies may wait for the op; kNone where there is none. So they may for one that ends a
  // loop, or a branch, in it: what comes right behind has nothing else to wait for, and all before it would let copies
  // run before the loop does.
  int TriggersIn(OpId op) const {
    if (imported_.graph.ops[op].anchor) return RegionOf(op);
    const int node = imported_.node_of_op[op];
    const std::string& type = Original(node).op();
    if (type == "Merge") {
      const std::vector<TensorRef>& inputs = index_[node].inputs;
      const auto of_loop = [this](const TensorRef& input) { return IsEnter(Original(input.node)); };
      return Planned(RegionOf(op)) && std::none_of(inputs.begin(), inputs.end(), of_loop) ? RegionOf(op) : kNone;
    }
    if (type != "Exit") return kNone;
    for (const int reader : index_[node].readers) {
      if (index_[reader].live && Planned(index_[reader].region) && Original(reader).op() != "Merge") {
        return index_[reader].region;
      }
    }
    return kNone;
  }

  // Finds what the steps from `first` up to `end` wait for, which are all those before the op `before`: one op for each
  // region that they run in. None where all between belongs to other loops or branches.
  void FindTriggers(OpId before, size_t first, size_t end) {
    triggers_.clear();
    for (size_t i = end; i > first; --i) {
      const OpId latest_op = plan_.steps[i - 1].op;  // of its region, where it is the first that is met
      const int region = RegionOf(latest_op);
      const auto [found, is_new] = triggers_.emplace(region, kNone);
      if (!is_new) continue;
      OpId& trigger = found->second;
      trigger = Trigger(before, region);
      // Where the op's other inputs have long been there, take its place in the schedule instead.
      for (OpId op = before - 1; trigger <= latest_op && op > latest_op; --op) {
        pace_.Step();
        if (CanTrigger(op, region) && !imported_.graph.ops[op].inputs.empty()) trigger = op;
      }
    }
  }

  // Behind the last step that runs before the same op as this one.
  size_t EndOfSteps(size_t step) const {
    size_t end = step + 1;
    while (end < plan_.steps.size() && plan_.steps[end].before == plan_.steps[step].before) ++end;
    return end;
  }

  OpId TriggerOf(const RecomputeStep& step) const { return triggers_.at(RegionOf(step.op)); }

  void FindUntimed() {
    for (size_t first = 0, end = 0; first < plan_.steps.size(); first = end) {
      end = EndOfSteps(first);
      FindTriggers(plan_.steps[first].before, first, end);
      for (size_t i = first; i < end; ++i) {
        if (TriggerOf(plan_.steps[i]) == kNone) out_.untimed.push_back(plan_.steps[i].op);
      }
    }
  }

  // Lets the node of a step wait for the trigger and for what order asks for.
  void AddWaits(int step_index, NodeDef* node) {
    const OpId trigger = TriggerOf(plan_.steps[step_index]);
    AddControl(NameOf(trigger), node);
    if (!order_) return;
    KeepOrder(order_->EventOfStep(step_index), trigger, node);
  }

  void KeepOrder(OrderKeeper::EventId event, OpId trigger, NodeDef* node) {
    if (trigger != kNone) order_->AddWait(event, order_->EventOfOp(trigger));
    for (const OrderKeeper::EventId wait : order_->Waits(event)) AddControl(NameOfEvent(wait), node);
    order_->Passed(event);
  }

  const std::string& NameOfEvent(OrderKeeper::EventId event) const {
    const PlanEvent& e = order_->event(event);
    switch (e.kind) {
      case PlanEvent::Kind::kStep:
        return out_.step_nodes[e.index];
      case PlanEvent::Kind::kSwapOut:
        return out_.swap_out_nodes[e.index];
      case PlanEvent::Kind::kSwapIn:
        return out_.swap_in_nodes[e.index];
      default:
        return NameOf(e.index);
    }
  }

  // A node for a swap of the tensor, where its owner is.
  NodeDef SwapNode(const std::string& name, const char* op, const TensorRef& owner) const {
    const NodeDef& original = Original(owner.node);
    NodeDef node;
    node.set_name(name);
    node.set_op(op);
    node.set_device(original.device());
    const auto colocated = original.attr().find("_class");
    if (colocated != original.attr().end()) (*node.mutable_attr())["_class"] = colocated->second;
    return node;
  }

  absl::Status AddSwapOut(int swap) {
    ++place_;
    const BufferId b = plan_.swap_outs[swap].buffer;
    const TensorRef owner = instances_.Owner(b);
    if (owner.node < 0 || imported_.dtype_of_buffer[b] == tensorflow::DT_INVALID) {
      return absl::InternalError("no tensor to be swapped has the storage " + imported_.graph.buffers[b].name);
    }
    NodeDef node = SwapNode(SwapOutName(swap, Original(owner.node).name()), kSwapOutOp, owner);
    node.add_input(instances_.Resolve(owner));
    auto& attrs = *node.mutable_attr();
    attrs["T"].set_type(imported_.dtype_of_buffer[b]);
    attrs["tier"].set_s(options_.swap.tier);
    attrs["directory"].set_s(options_.swap.directory);
    attrs["limit"].set_i(options_.swap.limit_bytes);
    attrs["host_limit"].set_i(options_.swap.host_limit);
    attrs["deadline"].set_i(place_);
    attrs["behind"].set_b(false);
    if (IsQueued(node, imported_.graph.buffers[b].bytes)) {
      // Copies follow each other as they are handed over: in the order in which they are waited for.
      std::string& last = last_out_[{node.device(), PlaceOf(imported_.graph.buffers[b].producer)}];
      if (!last.empty()) AddControl(last, &node);
      last = node.name();
    }
    if (order_) order_->Passed(order_->EventOfSwapOut(swap));
    out_.swap_out_nodes.push_back(node.name());
    *graph_->add_node() = std::move(node);
    swapped_out_[b] = swap;
    return absl::OkStatus();
  }

  void AddSwapIn(int swap) {
    ++place_;
    const BufferId b = plan_.swap_ins[swap].buffer;
    const TensorRef owner = instances_.Owner(b);
    NodeDef node = SwapNode(SwapInName(swap, Original(owner.node).name()), kSwapInOp, owner);
    node.add_input(out_.swap_out_nodes[swapped_out_[b]]);
    auto& attrs = *node.mutable_attr();
    attrs["T"].set_type(imported_.dtype_of_buffer[b]);
    // Sizes that were taken for granted must not become facts: later passes fold what they know of a shape.
    attrs["shape"].mutable_shape()->set_unknown_rank(true);
    attrs["host_limit"].set_i(options_.swap.host_limit);
    attrs["deadline"].set_i(place_);
    const OpId trigger = SwapInTrigger(plan_.swap_ins[swap].before, index_[owner.node].region);
    if (trigger != kNone) AddControl(NameOf(trigger), &node);
    if (order_) KeepOrder(order_->EventOfSwapIn(swap), trigger, &node);
    out_.swap_in_nodes.push_back(node.name());
    out_.swap_in_triggers.push_back(trigger == kNone ? "" : NameOf(trigger));
    *graph_->add_node() = std::move(node);
    instances_.MadeBySwapIn(b, swap);
    swap_in_at_.push_back(graph_->node_size() - 1);
  }

  // The last op before `before` that does something of its own in the step: reads of variables, and what has only
  // resident inputs, may have run long before.
  OpId SwapInTrigger(OpId before, int region) const {
    for (OpId op = before - 1; op >= 0; --op) {
      pace_.Step();
      const std::vector<BufferId>& inputs = imported_.graph.ops[op].inputs;
      const auto made = [this](BufferId b) { return !imported_.graph.buffers[b].resident; };
      if (CanTrigger(op, region) && std::any_of(inputs.begin(), inputs.end(), made)) return op;
    }
    return kNone;
  }

  // The op, or a recomputation of it, runs now: swap-ins that nobody has read before are due by now.
  void NoteReads(OpId op) {
    ++place_;
    for (const BufferId b : imported_.graph.ops[op].inputs) {
      const int swap = instances_.SwapInOf(b);
      if (swap < 0 || due_[swap]) continue;
      due_[swap] = true;
      (*graph_->mutable_node(swap_in_at_[swap])->mutable_attr())["deadline"].set_i(place_);
    }
  }

  void AddStep(int step_index) {
    const RecomputeStep& step = plan_.steps[step_index];
    const bool is_first = step_index == 0 || plan_.steps[step_index - 1].before != step.before;
    if (is_first) FindTriggers(step.before, step_index, EndOfSteps(step_index));
    const int original = imported_.node_of_op[step.op];
    NoteReads(step.op);
    out_.step_triggers.push_back(NameOf(TriggerOf(step)));
    std::vector<std::string> inputs;
    for (const TensorRef& input : index_[original].inputs) inputs.push_back(instances_.Resolve(input));
    if (step.moves) {
      NodeDef* node = graph_->mutable_node(original);
      for (size_t i = 0; i < inputs.size(); ++i) node->set_input(static_cast<int>(i), inputs[i]);
      AddWaits(step_index, node);
      OrderBeforeWrites(step.op, node->name());
      out_.step_nodes.push_back(node->name());
      // It is the original that runs here: its tensors keep their names.
      return;
    }
    NodeDef copy = Original(original);
    copy.set_name(RecomputeName(step_index, copy.name()));
    copy.clear_input();
    for (const std::string& input : inputs) copy.add_input(input);
    AddWaits(step_index, &copy);
    OrderBeforeWrites(step.op, copy.name());
    out_.step_nodes.push_back(copy.name());
    *graph_->add_node() = std::move(copy);
    for (const BufferId b : step.provides) instances_.MadeByStep(b, step_index);
  }

  // The update of a variable that the copy reads comes after it: the copy has the right value in any case (it reads the
  // tensor that the step read), but an update while that is held copies the variable. No edge leads into another loop,
  // or from a branch out of it.
  void OrderBeforeWrites(OpId op, const std::string& copy) {
    for (const BufferId b : imported_.graph.ops[op].inputs) {
      for (const OpId writer : imported_.graph.buffers[b].overwritten_by) {
        const int node = imported_.node_of_op[writer];
        if (index_.Implies(index_[node].region, RegionOf(op))) AddControl(copy, graph_->mutable_node(node));
      }
    }
  }

  void KeepOrder(OpId op) {
    const int node = imported_.node_of_op[op];
    const OrderKeeper::EventId event = order_->EventOfOp(op);
    const MemOp& mem_op = imported_.graph.ops[op];
    // What a read of a variable gives may depend on when it runs.
    if (mem_op.anchor && !index_.Preserved(node) && !IsVariableRead(mem_op.type)) {
      for (const OrderKeeper::EventId wait : order_->Waits(event)) AddOrderEdge(op, wait);
    }
    order_->Passed(event);
  }

  void AddOrderEdge(OpId op, OrderKeeper::EventId wait) {
    const std::string name = NameOfEvent(wait);
    AddControl(name, graph_->mutable_node(imported_.node_of_op[op]));
    out_.order_edges.push_back({op, name});
  }

  const ImportedGraph& imported_;
  const GraphIndex& index_;
  const Plan& plan_;
  const RewriteOptions& options_;
  mutable Pace pace_;
  tensorflow::GraphDef* graph_;
  RewriteResult& out_;
  const Fusions fusions_;  // of the graph as it came

  std::optional<OrderKeeper> order_;
  Instances instances_;
  std::vector<bool> moved_;       // per op: runs at a step's place, not at its own
  std::vector<bool> late_;        // moved, or a view of something moved: nothing earlier may wait for it
  std::vector<int> triggers_in_;  // per op: a region, or kNone
  std::map<int, OpId> triggers_;  // by region: of the steps that are being added
  std::vector<int> swapped_out_;  // per buffer: its swap-out, once that is there
  std::map<std::pair<std::string, int>, std::string> last_out_;  // by device and place: of those that are queued
  std::vector<int> swap_in_at_;                                  // per swap-in that is there: its node's index
  std::vector<bool> due_;                                        // per swap-in: it has a reader
  int64_t place_ = 0;                                            // in the order of events
};

}  // namespace

absl::Status RewriteGraph(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan,
                          const RewriteOptions& options, tensorflow::GraphDef* graph, RewriteResult* result) {
  const std::string wrong = ValidatePlan(imported.graph, plan);
  if (!wrong.empty()) return absl::InternalError(wrong);
  return Rewriter(imported, index, plan, options, graph, result).Run();
}

}  // namespace lms
