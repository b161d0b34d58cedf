#include "cc/tf/rewrite_recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cc/tf/node_names.h"
#include "cc/tf/op_traits.h"
#include "cc/tf/order_keeper.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

std::string TensorName(const std::string& node, int port) {
  return port == 0 ? node : node + ":" + std::to_string(port);
}

void AddControl(const std::string& name, NodeDef* node) {
  const std::string control = "^" + name;
  if (std::find(node->input().begin(), node->input().end(), control) == node->input().end()) node->add_input(control);
}

class Rewriter {
 public:
  Rewriter(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan, bool enforce_order,
           int64_t order_limit_bytes, tensorflow::GraphDef* graph, RewriteResult* result)
      : imported_(imported),
        index_(index),
        plan_(plan),
        graph_(graph),
        out_(*result),
        newest_(imported.graph.buffers.size(), -1),
        moved_(imported.graph.ops.size(), false) {
    if (enforce_order) order_.emplace(imported.graph, plan, order_limit_bytes);
    if (enforce_order && order_limit_bytes > 0) FindHolders();
    for (const RecomputeStep& step : plan.steps) moved_[step.op] = moved_[step.op] || step.moves;
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
    for (const Loops::Hold& hold : imported_.holds) {
      AddControl(Original(hold.node).name(), graph_->mutable_node(hold.gate));
    }
    size_t next = 0;
    for (OpId op = 0; op < static_cast<OpId>(imported_.graph.ops.size()); ++op) {
      size_t end = next;
      while (end < plan_.steps.size() && plan_.steps[end].before == op) ++end;
      if (end > next) {
        absl::Status status = OpenClosure(op, plan_.steps[end - 1].op);
        if (!status.ok()) return status;
      }
      for (; next < end; ++next) AddStep(static_cast<int>(next));
      if (moved_[op]) continue;
      const int node = imported_.node_of_op[op];
      Redirect(node, graph_->mutable_node(node));
      if (order_) KeepOrder(op);
    }
    for (const VariableWait& wait : imported_.variable_waits) {
      AddControl(Original(wait.reader).name(), graph_->mutable_node(wait.update));
    }
    return absl::OkStatus();
  }

 private:
  const NodeDef& Original(int node) const { return graph_->node(node); }
  const std::string& NameOf(OpId op) const { return graph_->node(imported_.node_of_op[op]).name(); }

  // The last op before `before` that makes one of its inputs: once it has run, what is recomputed is wanted.
  OpId Trigger(OpId before) const {
    OpId trigger = kNone;
    for (const OpId dep : imported_.graph.ops[before].deps) {
      OpId producer = dep;
      // Look through ops that cannot carry an edge, towards what they wait for.
      while (producer != kNone && !CanTrigger(producer)) {
        const std::vector<OpId>& deps = imported_.graph.ops[producer].deps;
        producer = deps.empty() ? kNone : *std::max_element(deps.begin(), deps.end());
      }
      trigger = std::max(trigger, producer);
    }
    return trigger;
  }

  bool CanTrigger(OpId op) const { return imported_.graph.ops[op].anchor && !late_[op]; }

  // Finds what the recomputations before `before` wait for; `latest_op` is the last op among them.
  absl::Status OpenClosure(OpId before, OpId latest_op) {
    trigger_ = Trigger(before);
    // Where the op's other inputs have long been there, take its place in the schedule instead.
    for (OpId op = before - 1; trigger_ <= latest_op && op > latest_op; --op) {
      if (CanTrigger(op) && !imported_.graph.ops[op].inputs.empty()) trigger_ = op;
    }
    if (trigger_ == kNone) {
      return absl::FailedPreconditionError("no op to wait for before " + imported_.graph.ops[before].name);
    }
    return absl::OkStatus();
  }

  // Lets the node of a step wait for the trigger and for what order asks for.
  void AddWaits(int step_index, NodeDef* node) {
    AddControl(NameOf(trigger_), node);
    if (!order_) return;
    const OrderKeeper::EventId event = order_->EventOfStep(step_index);
    order_->AddWait(event, order_->EventOfOp(trigger_));
    for (const OrderKeeper::EventId wait : order_->Waits(event)) AddControl(NameOfEvent(wait), node);
    order_->Passed(event);
  }

  const std::string& NameOfEvent(OrderKeeper::EventId event) const {
    const OrderKeeper::Event& e = order_->event(event);
    return e.step == kNone ? NameOf(e.op) : out_.step_nodes[e.step];
  }

  void AddStep(int step_index) {
    const RecomputeStep& step = plan_.steps[step_index];
    const int original = imported_.node_of_op[step.op];
    out_.step_triggers.push_back(NameOf(trigger_));
    std::vector<std::string> inputs;
    for (const TensorRef& input : index_[original].inputs) inputs.push_back(Resolve(input));
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
    for (const BufferId b : step.provides) newest_[b] = step_index;
  }

  // The update of a variable that the copy reads comes after it: the copy has the right value in any case (it reads the
  // tensor that the step read), but an update while that is held copies the variable. No edge leads into another loop,
  // or from a branch out of it.
  void OrderBeforeWrites(OpId op, const std::string& copy) {
    for (const BufferId b : imported_.graph.ops[op].inputs) {
      for (const OpId writer : imported_.graph.buffers[b].overwritten_by) {
        const int node = imported_.node_of_op[writer];
        if (index_.Implies(index_[node].region, imported_.region)) AddControl(copy, graph_->mutable_node(node));
      }
    }
  }

  BufferId BufferOf(const TensorRef& tensor) const {
    const std::vector<BufferId>& ports = imported_.buffer_of_port[tensor.node];
    return tensor.port < static_cast<int>(ports.size()) ? ports[tensor.port] : kNone;
  }

  // The tensor under the name of its newest instance: itself, an output of a recomputation, or a view of one.
  std::string Resolve(const TensorRef& tensor) {
    const BufferId b = BufferOf(tensor);
    if (b == kNone || newest_[b] < 0) return TensorName(Original(tensor.node).name(), tensor.port);
    const int step = newest_[b];
    const NodeDef& node = Original(tensor.node);
    const int shared = SharedInput(node, tensor.port);
    if (shared < 0) return TensorName(RecomputeName(step, node.name()), tensor.port);
    const std::vector<TensorRef>& inputs = index_[tensor.node].inputs;
    if (IsPassThrough(node)) return Resolve(inputs[shared]);
    const auto [view, is_new] = views_.emplace(std::make_pair(step, tensor.node), RecomputeName(step, node.name()));
    if (is_new) {
      NodeDef copy = node;
      copy.set_name(view->second);
      copy.clear_input();
      copy.add_input(Resolve(inputs[0]));
      for (size_t i = 1; i < inputs.size(); ++i) {
        copy.add_input(TensorName(Original(inputs[i].node).name(), inputs[i].port));
      }
      *graph_->add_node() = std::move(copy);
    }
    return view->second;
  }

  // Points the inputs of a node at the newest instances. A view reads nothing and stays with its original.
  void Redirect(int node_index, NodeDef* node) {
    const std::vector<TensorRef>& inputs = index_[node_index].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const BufferId b = BufferOf(inputs[i]);
      if (b == kNone || newest_[b] < 0 || IsViewOfInput(*node, static_cast<int>(i))) continue;
      node->set_input(static_cast<int>(i), Resolve(inputs[i]));
    }
  }

  // Per op: the reader before it of each input for which it matters who else holds it.
  void FindHolders() {
    const MemGraph& graph = imported_.graph;
    holders_.resize(graph.ops.size());
    std::vector<OpId> last(graph.buffers.size(), kNone);
    for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
      if (!graph.ops[op].anchor) continue;
      for (const BufferId b : graph.ops[op].inputs) {
        if (!graph.buffers[b].no_more_readers) continue;
        if (last[b] != kNone) holders_[op].push_back(last[b]);
        last[b] = op;
      }
    }
  }

  void KeepOrder(OpId op) {
    const int node = imported_.node_of_op[op];
    const OrderKeeper::EventId event = order_->EventOfOp(op);
    const MemOp& mem_op = imported_.graph.ops[op];
    // What a read of a variable gives may depend on when it runs.
    if (mem_op.anchor && !index_.Preserved(node) && !IsVariableRead(mem_op.type)) {
      if (!holders_.empty()) {
        for (const OpId holder : holders_[op]) Hold(op, order_->EventOfOp(holder));
      }
      for (const OrderKeeper::EventId wait : order_->Waits(event)) AddOrderEdge(op, wait);
    }
    order_->Passed(event);
  }

  void Hold(OpId op, OrderKeeper::EventId holder) {
    order_->AddWait(order_->EventOfOp(op), holder);
    AddOrderEdge(op, holder);
  }

  void AddOrderEdge(OpId op, OrderKeeper::EventId wait) {
    const std::string name = NameOfEvent(wait);
    AddControl(name, graph_->mutable_node(imported_.node_of_op[op]));
    out_.order_edges.push_back({op, name});
  }

  const ImportedGraph& imported_;
  const GraphIndex& index_;
  const Plan& plan_;
  tensorflow::GraphDef* graph_;
  RewriteResult& out_;

  std::optional<OrderKeeper> order_;
  std::vector<int> newest_;  // per buffer: the step that made its newest instance, or -1 for the original
  std::vector<bool> moved_;  // per op: runs at a step's place, not at its own
  std::vector<bool> late_;   // moved, or a view of something moved: nothing earlier may wait for it
  std::vector<std::vector<OpId>> holders_;            // see FindHolders(); empty where order is the executor's own
  std::map<std::pair<int, int>, std::string> views_;  // (step, view node) -> copy of the view
  OpId trigger_ = kNone;                              // of the closure that is being added
};

}  // namespace

absl::Status RewriteForRecompute(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan,
                                 bool enforce_order, tensorflow::GraphDef* graph, RewriteResult* result,
                                 int64_t order_limit_bytes) {
  const std::string wrong = ValidatePlan(imported.graph, plan);
  if (!wrong.empty()) return absl::InternalError(wrong);
  return Rewriter(imported, index, plan, enforce_order, order_limit_bytes, graph, result).Run();
}

}  // namespace lms
