#include "cc/tf/rewrite_recompute.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cc/tf/node_names.h"
#include "cc/tf/op_traits.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

std::string TensorName(const std::string& node, int port) {
  return port == 0 ? node : node + ":" + std::to_string(port);
}

class Rewriter {
 public:
  Rewriter(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan, bool enforce_order,
           tensorflow::GraphDef* graph, RewriteResult* result)
      : imported_(imported), index_(index), plan_(plan), enforce_order_(enforce_order), graph_(graph), out_(*result) {}

  absl::Status Run() {
    if (enforce_order_) FindReleases();
    newest_.assign(imported_.graph.buffers.size(), -1);
    const OpId n = static_cast<OpId>(imported_.graph.ops.size());
    size_t next = 0;
    for (OpId op = 0; op < n; ++op) {
      const size_t first = next;
      while (next < plan_.steps.size() && plan_.steps[next].before == op) {
        absl::Status status = AddStep(next, first);
        if (!status.ok()) return status;
        ++next;
      }
      if (any_moved_) Redirect(graph_->mutable_node(imported_.node_of_op[op]), imported_.node_of_op[op]);
      if (enforce_order_) NoteReleases(op);
    }
    return absl::OkStatus();
  }

 private:
  // Buffers of at least this share of all that is evicted are worth waiting for.
  static constexpr double kLargeRelease = 1.0 / 256;

  const NodeDef& Original(int node) const { return graph_->node(node); }

  // Which op reads each instance last, so that its memory is free afterwards? Large ones only.
  void FindReleases() {
    int64_t evicted = 0;
    for (const RecomputeStep& step : plan_.steps) {
      for (const BufferId b : step.provides) evicted += imported_.graph.buffers[b].bytes;
    }
    large_bytes_ = std::max<int64_t>(1, static_cast<int64_t>(kLargeRelease * static_cast<double>(evicted)));
    releases_.assign(imported_.graph.ops.size(), false);
    std::vector<OpId> last_reader(imported_.graph.buffers.size(), kNone);
    const auto release = [&](BufferId b) {
      if (last_reader[b] != kNone) releases_[last_reader[b]] = true;
    };
    size_t next = 0;
    for (OpId i = 0; i < static_cast<OpId>(imported_.graph.ops.size()); ++i) {
      for (; next < plan_.steps.size() && plan_.steps[next].before == i; ++next) {
        for (const BufferId b : plan_.steps[next].provides) {
          if (Large(b)) release(b);
          last_reader[b] = kNone;
        }
      }
      for (const BufferId b : imported_.graph.ops[i].inputs) {
        if (Large(b)) last_reader[b] = i;
      }
    }
    for (size_t b = 0; b < last_reader.size(); ++b) {
      if (!imported_.graph.buffers[b].escapes) release(static_cast<BufferId>(b));
    }
  }

  bool Large(BufferId b) const {
    return !imported_.graph.buffers[b].resident && imported_.graph.buffers[b].bytes >= large_bytes_;
  }

  void NoteReleases(OpId op) {
    if (releases_[op] && imported_.graph.ops[op].anchor) pending_releases_.push_back(op);
  }

  // The last op before `before` that makes one of its inputs: once it has run, the result of the step is wanted.
  OpId Trigger(OpId before, OpId at_least) const {
    OpId trigger = kNone;
    for (const OpId dep : imported_.graph.ops[before].deps) {
      OpId producer = dep;
      // Look through ops that cannot carry an edge, towards what they wait for.
      while (producer != kNone && !imported_.graph.ops[producer].anchor) {
        const std::vector<OpId>& deps = imported_.graph.ops[producer].deps;
        producer = deps.empty() ? kNone : *std::max_element(deps.begin(), deps.end());
      }
      trigger = std::max(trigger, producer);
    }
    if (trigger > at_least) return trigger;
    // Its other inputs have long been there: take its place in the schedule instead.
    for (OpId op = before - 1; op > at_least; --op) {
      if (imported_.graph.ops[op].anchor && !imported_.graph.ops[op].inputs.empty()) return op;
    }
    return kNone;
  }

  // Those of `ops` that `trigger` does not itself wait for.
  std::vector<OpId> NotImplied(const std::vector<OpId>& ops, OpId trigger) const {
    if (ops.empty()) return {};
    const OpId earliest = *std::min_element(ops.begin(), ops.end());
    std::vector<bool> implied(imported_.graph.ops.size(), false);
    std::vector<OpId> pending{trigger};
    implied[trigger] = true;
    while (!pending.empty()) {
      const OpId op = pending.back();
      pending.pop_back();
      for (const OpId dep : imported_.graph.ops[op].deps) {
        if (dep < earliest || implied[dep]) continue;
        implied[dep] = true;
        pending.push_back(dep);
      }
    }
    std::vector<OpId> rest;
    for (const OpId op : ops) {
      if (!implied[op]) rest.push_back(op);
    }
    return rest;
  }

  absl::Status AddStep(size_t step_index, size_t first_of_group) {
    const RecomputeStep& step = plan_.steps[step_index];
    const int original = imported_.node_of_op[step.op];
    NodeDef copy = Original(original);
    copy.set_name(RecomputeName(static_cast<int>(step_index), Original(original).name()));
    copy.clear_input();
    for (const TensorRef& input : index_[original].inputs) {
      copy.add_input(Resolve(input));
    }
    const OpId trigger = Trigger(step.before, step.op);
    if (trigger == kNone) {
      return absl::FailedPreconditionError("no op to wait for before " + imported_.graph.ops[step.before].name);
    }
    std::vector<OpId> waits{trigger};
    if (step_index == first_of_group) {
      group_waits_ = NotImplied(pending_releases_, trigger);
      pending_releases_.clear();
    }
    for (const OpId op : group_waits_) {
      if (op > step.op) waits.push_back(op);
    }
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    for (const OpId op : waits) copy.add_input("^" + Original(imported_.node_of_op[op]).name());
    const std::string name = copy.name();
    *graph_->add_node() = std::move(copy);
    out_.step_nodes.push_back(name);
    out_.step_triggers.push_back(Original(imported_.node_of_op[trigger]).name());
    OrderBeforeWrites(step.op, name);
    for (const BufferId b : step.provides) newest_[b] = static_cast<int>(step_index);
    any_moved_ = true;
    return absl::OkStatus();
  }

  // A variable that the copy reads must still hold the value of the step.
  void OrderBeforeWrites(OpId op, const std::string& copy) {
    for (const BufferId b : imported_.graph.ops[op].inputs) {
      for (const OpId writer : imported_.graph.buffers[b].overwritten_by) {
        NodeDef* node = graph_->mutable_node(imported_.node_of_op[writer]);
        const std::string control = "^" + copy;
        if (std::find(node->input().begin(), node->input().end(), control) == node->input().end()) {
          node->add_input(control);
        }
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
    const TensorRef& input = index_[tensor.node].inputs[shared];
    if (IsPassThrough(node)) return Resolve(input);
    const auto [view, is_new] = views_.emplace(std::make_pair(step, tensor.node), RecomputeName(step, node.name()));
    if (is_new) {
      NodeDef copy = node;
      copy.set_name(view->second);
      copy.clear_input();
      copy.add_input(Resolve(input));
      for (size_t i = 1; i < index_[tensor.node].inputs.size(); ++i) {
        const TensorRef& other = index_[tensor.node].inputs[i];
        copy.add_input(TensorName(Original(other.node).name(), other.port));
      }
      *graph_->add_node() = std::move(copy);
    }
    return view->second;
  }

  // Points the inputs of an op at the newest instances. A view reads nothing and stays with its original.
  void Redirect(NodeDef* node, int node_index) {
    for (size_t i = 0; i < index_[node_index].inputs.size(); ++i) {
      const TensorRef& input = index_[node_index].inputs[i];
      const BufferId b = BufferOf(input);
      if (b == kNone || newest_[b] < 0 || IsViewOfInput(*node, static_cast<int>(i))) continue;
      node->set_input(static_cast<int>(i), Resolve(input));
    }
  }

  const ImportedGraph& imported_;
  const GraphIndex& index_;
  const Plan& plan_;
  const bool enforce_order_;
  tensorflow::GraphDef* graph_;
  RewriteResult& out_;

  std::vector<int> newest_;  // per buffer: the step that made its newest instance, or -1
  std::map<std::pair<int, int>, std::string> views_;  // (step, view node) -> copy of the view
  bool any_moved_ = false;
  int64_t large_bytes_ = 1;
  std::vector<bool> releases_;           // per op: frees something large
  std::vector<OpId> pending_releases_;   // such ops since the last recomputation
  std::vector<OpId> group_waits_;        // those that the current closure waits for
};

}  // namespace

absl::Status RewriteForRecompute(const ImportedGraph& imported, const GraphIndex& index, const Plan& plan,
                                 bool enforce_order, tensorflow::GraphDef* graph, RewriteResult* result) {
  const std::string wrong = ValidatePlan(imported.graph, plan);
  if (!wrong.empty()) return absl::InternalError(wrong);
  return Rewriter(imported, index, plan, enforce_order, graph, result).Run();
}

}  // namespace lms
