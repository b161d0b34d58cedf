#include "cc/tf/rewrite/split_swaps.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/handed_copies.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// An attribute of a swap-out: does it leave the waiting to a LmsSwapWait?
constexpr char kBehind[] = "behind";

class Splitter {
 public:
  Splitter(const GraphIndex& index, const Deadline& deadline, GraphDef* graph)
      : index_(index), pace_(deadline), graph_(graph), originals_(graph->node_size()), part_(originals_, Part::kNone) {}

  void Run() {
    if (!FindParts()) return;
    for (int node = 0; node < originals_; ++node) {
      if (index_[node].live) SplitFor(node);
    }
    for (int node = 0; node < originals_; ++node) {
      if (part_[node] == Part::kOut) (*graph_->mutable_node(node)->mutable_attr())[kBehind].set_b(true);
      if (part_[node] == Part::kIn) graph_->mutable_node(node)->set_op(kSwapFetchOp);
    }
  }

 private:
  enum class Part { kNone, kOut, kIn };

  bool FindParts() {
    bool found = false;
    for (int node = 0; node < originals_; ++node) {
      if (!IsHandedOver(*graph_, index_, node)) continue;
      part_[node] = graph_->node(node).op() == kSwapOutOp ? Part::kOut : Part::kIn;
      found = true;
    }
    return found;
  }

  void SplitFor(int reader) {
    const std::vector<int> outs = CopiesWaitedFor(*graph_, index_, reader);
    std::vector<int> ins;
    for (const TensorRef& input : index_[reader].inputs) {
      if (part_[input.node] == Part::kIn && std::find(ins.begin(), ins.end(), input.node) == ins.end()) {
        ins.push_back(input.node);
      }
    }
    if (outs.empty() && ins.empty()) return;
    const std::vector<int> before = Before(reader);
    if (!outs.empty()) AddWait(reader, outs, before);
    for (const int in : ins) {
      Replace(reader, graph_->node(in).name(), SamePlace(in, reader) ? AddFetched(in, before) : EarlyFetched(in));
    }
  }

  bool SamePlace(int a, int b) const { return InOnePlace(*graph_, index_, a, b); }

  // What the node waits for, and, of a view, what its only reader waits for: nodes that something can wait for. No view
  // that leads to the same reader alone: two such would wait for each other.
  std::vector<int> Before(int node) const {
    std::vector<int> before;
    const auto add = [&](int from) {
      pace_.Step();
      if (part_[from] != Part::kNone || !SamePlace(from, node) || IsControlFlow(graph_->node(from).op())) return;
      if (ReaderOfView(from) >= 0) return;
      if (std::find(before.begin(), before.end(), from) == before.end()) before.push_back(from);
    };
    for (int at = node; at >= 0; at = ReaderOfView(at)) {
      for (const TensorRef& input : index_[at].inputs) add(input.node);
      for (const int control : index_[at].controls) add(control);
    }
    return before;
  }

  // The only node that a view leads to; -1 where there are others, or where it is none.
  int ReaderOfView(int node) const {
    if (!IsViewOfInput(graph_->node(node), 0) || index_.Preserved(node)) return -1;
    int only = -1;
    for (const int reader : index_[node].readers) {
      if (only >= 0 && reader != only) return -1;
      only = reader;
    }
    return only >= 0 && SamePlace(node, only) ? only : -1;
  }

  NodeDef* AddNode(const std::string& name, const char* op, int place) {
    NodeDef* const node = graph_->add_node();
    node->set_name(name + "/" + std::to_string(added_++) + "/" + OriginalName(graph_->node(place).name()));
    node->set_op(op);
    node->set_device(graph_->node(place).device());
    const auto colocated = graph_->node(place).attr().find("_class");
    if (colocated != graph_->node(place).attr().end()) (*node->mutable_attr())["_class"] = colocated->second;
    return node;
  }

  void AddControls(const std::vector<int>& nodes, NodeDef* node) const {
    for (const int from : nodes) node->add_input("^" + graph_->node(from).name());
  }

  void AddWait(int reader, const std::vector<int>& outs, const std::vector<int>& before) {
    NodeDef* const wait = AddNode("lms/swap_wait", kSwapWaitOp, outs.front());
    (*wait->mutable_attr())["N"].set_i(static_cast<int64_t>(outs.size()));
    for (const int out : outs) wait->add_input(graph_->node(out).name());
    AddControls(before, wait);
    for (const int out : outs) Replace(reader, "^" + graph_->node(out).name(), "^" + wait->name());
  }

  std::string AddFetched(int in, const std::vector<int>& before) {
    NodeDef* const fetched = AddNode("lms/swap_fetched", kSwapFetchedOp, in);
    (*fetched->mutable_attr())["T"] = graph_->node(in).attr().at("T");
    fetched->add_input(graph_->node(in).name());
    AddControls(before, fetched);
    return fetched->name();
  }

  // For readers elsewhere: one that waits for nothing else.
  std::string EarlyFetched(int in) {
    std::string& name = early_[in];
    if (name.empty()) name = AddFetched(in, {});
    return name;
  }

  // Lets the node read `by` instead; once, where that is a control input.
  void Replace(int reader, const std::string& input, const std::string& by) {
    NodeDef* const node = graph_->mutable_node(reader);
    std::vector<std::string> inputs;
    for (const std::string& is : node->input()) {
      const bool replaced = is == input || is == input + ":0";
      const std::string& name = replaced ? by : is;
      const bool again = name[0] == '^' && std::find(inputs.begin(), inputs.end(), name) != inputs.end();
      if (!again) inputs.push_back(name);
    }
    node->clear_input();
    for (std::string& name : inputs) node->add_input(std::move(name));
  }

  const GraphIndex& index_;
  mutable Pace pace_;
  GraphDef* const graph_;
  const int originals_;
  std::vector<Part> part_;
  std::map<int, std::string> early_;  // by swap-in
  int added_ = 0;
};

// What is read instead of a part of a swap: the swap-in for a LmsSwapFetched, the swap-outs for a LmsSwapWait.
class WholeSwaps {
 public:
  explicit WholeSwaps(const GraphDef& graph) {
    for (const NodeDef& node : graph.node()) {
      if (IsPart(node)) parts_[node.name()] = {node.input().begin(), node.input().end()};
    }
  }
  static bool IsPart(const NodeDef& node) { return node.op() == kSwapWaitOp || node.op() == kSwapFetchedOp; }

  // The node's inputs, without parts; controls last and once.
  std::vector<std::string> Inputs(const NodeDef& node) const {
    std::vector<std::string> inputs;
    std::vector<std::string> controls;
    for (const std::string& input : node.input()) {
      const bool control = input[0] == '^';
      const auto part = parts_.find(NodeOf(input));
      if (part == parts_.end()) {
        (control ? controls : inputs).push_back(input);
        continue;
      }
      for (const std::string& of : part->second) {
        if (of[0] != '^') (control ? controls : inputs).push_back(control ? "^" + NodeOf(of) : of);
      }
    }
    std::sort(controls.begin(), controls.end());
    controls.erase(std::unique(controls.begin(), controls.end()), controls.end());
    inputs.insert(inputs.end(), controls.begin(), controls.end());
    return inputs;
  }

  // Is the node, without parts, that one of the graph before its swaps were split?
  bool Same(const NodeDef& node, const NodeDef& was) const {
    const bool same_op = node.op() == was.op() || (node.op() == kSwapFetchOp && was.op() == kSwapInOp);
    if (!same_op || node.name() != was.name() || node.device() != was.device()) return false;
    const bool same_inputs =
        std::equal(node.input().begin(), node.input().end(), was.input().begin(), was.input().end());
    if (!same_inputs && Inputs(node) != Inputs(was)) return false;
    return SameAttrs(node, was);
  }

 private:
  static bool SameAttrs(const NodeDef& node, const NodeDef& was) {
    const auto behind = [](const NodeDef& of) { return of.op() == kSwapOutOp ? of.attr().count(kBehind) : 0; };
    if (node.attr_size() - behind(node) != was.attr_size() - behind(was)) return false;
    return std::all_of(was.attr().begin(), was.attr().end(), [&node](const auto& attr) {
      if (node.op() == kSwapOutOp && attr.first == kBehind) return true;
      const auto other = node.attr().find(attr.first);
      return other != node.attr().end() && tensorflow::AreAttrValuesEqual(attr.second, other->second);
    });
  }

  static std::string NodeOf(const std::string& input) { return std::string(tensorflow::ParseTensorName(input).node()); }

  std::map<std::string, std::vector<std::string>> parts_;  // by name: their inputs
};

}  // namespace

void JoinSwaps(GraphDef* graph) {
  const WholeSwaps whole(*graph);
  for (NodeDef& node : *graph->mutable_node()) {
    std::vector<std::string> inputs = whole.Inputs(node);
    node.clear_input();
    for (std::string& input : inputs) node.add_input(std::move(input));
    if (node.op() == kSwapFetchOp) node.set_op(kSwapInOp);
    if (node.op() == kSwapOutOp) (*node.mutable_attr())[kBehind].set_b(false);
  }
  auto* const nodes = graph->mutable_node();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(), WholeSwaps::IsPart), nodes->end());
}

bool IsSplitOf(const GraphDef& split, const GraphDef& graph) {
  const WholeSwaps whole(split);
  int place = 0;
  for (const NodeDef& node : split.node()) {
    if (WholeSwaps::IsPart(node)) continue;
    if (place == graph.node_size() || !whole.Same(node, graph.node(place))) return false;
    ++place;
  }
  return place == graph.node_size();
}

absl::Status SplitSwaps(const Deadline& deadline, tensorflow::grappler::GrapplerItem* item) {
  GraphIndex index;
  absl::Status status = index.Build(*item, deadline);
  if (status.ok()) Splitter(index, deadline, &item->graph).Run();
  return status;
}

}  // namespace lms
