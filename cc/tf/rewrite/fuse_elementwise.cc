#include "cc/tf/rewrite/fuse_elementwise.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/elementwise.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/stock/node_numbers.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace lms {
namespace {

using tensorflow::DeviceNameUtils;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr int kNobody = -1;
constexpr int kMostSteps = 16;       // of one node
constexpr char kParts[] = "_parts";  // an attribute: the nodes that were

bool IsOnCpu(const NodeDef& node) {
  DeviceNameUtils::ParsedName name;
  return DeviceNameUtils::ParseFullName(node.device(), &name) && name.has_type && name.type == tensorflow::DEVICE_CPU;
}

bool IsControl(const std::string& input) { return !input.empty() && input[0] == '^'; }

// Of the node that an input names; parts have one output.
std::string NodeOf(const std::string& input) { return std::string(tensorflow::ParseTensorName(input).node()); }

class Fuser {
 public:
  Fuser(GraphDef* graph, const OwnNodes& own)
      : graph_(*graph), own_(own), part_(graph->node_size(), false), reader_(graph->node_size(), kNobody) {
    for (int i = 0; i < graph_.node_size(); ++i) by_name_.emplace(graph_.node(i).name(), i);
    const auto& nodes = graph_.node();
    has_loops_ = std::any_of(nodes.begin(), nodes.end(), [](const NodeDef& node) { return IsEnter(node); });
    for (int i = 0; i < graph_.node_size(); ++i) part_[i] = MayBeAPart(graph_.node(i));
  }

  Fused Run() {
    if (std::count(part_.begin(), part_.end(), true) < 2) return {};
    FindReaders();
    FindPlaces();
    std::vector<int> before(graph_.node_size(), kNobody);  // the part that may be computed within it
    for (int i = 0; i < graph_.node_size(); ++i) {
      const int reader = part_[i] ? reader_[i] : kNobody;
      if (reader >= 0 && before[reader] == kNobody && MayPrecede(i, reader)) before[reader] = i;
    }
    Fused fused;
    std::vector<bool> taken(graph_.node_size(), false);
    for (auto last = in_order_.rbegin(); last != in_order_.rend(); ++last) {
      if (taken[*last]) continue;
      std::vector<int> chain{*last};
      while (before[chain.back()] != kNobody && static_cast<int>(chain.size()) < kMostSteps) {
        const int next = before[chain.back()];
        if (!IsWaitedForBehind(next, *last)) break;
        chain.push_back(next);
        taken[next] = true;
        fused.within.emplace(graph_.node(next).name(), graph_.node(*last).name());
        fused.saved_us += Saved(graph_.node(next));
      }
      if (chain.size() < 2) continue;
      std::reverse(chain.begin(), chain.end());
      *graph_.mutable_node(*last) = Made(chain);
    }
    WaitFor(fused.within);
    Remove(fused.within);
    return fused;
  }

 private:
  static constexpr int kSeveral = -2;

  bool IsCopy(const NodeDef& node) const { return RecomputeNumber(node.name()) != kNobody; }

  bool MayBeAPart(const NodeDef& node) const {
    if (!ElementwiseKindOf(node) || !IsOnCpu(node)) return false;
    if (IsCopy(node)) return true;
    // What loops draw and add up may depend on the order in which all runs. oneDNN makes biases a part of what they are
    // added to.
    return own_.result_bytes != nullptr && !has_loops_ && !IsOwnName(node.name()) && node.op() != "BiasAdd" &&
           own_.kept.count(node.name()) == 0;
  }

  // The one node that reads a part's result; kNobody or kSeveral. And who reads or waits for whom.
  void FindReaders() {
    followers_.resize(graph_.node_size());
    waiting_.resize(graph_.node_size());
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& input : graph_.node(i).input()) {
        const auto from = by_name_.find(NodeOf(input));
        if (from == by_name_.end() || ClosesLoop(graph_.node(from->second).op())) continue;
        followers_[from->second].push_back(i);
        if (!part_[from->second]) continue;
        if (IsControl(input)) {
          waiting_[from->second].push_back(i);
        } else {
          int& reader = reader_[from->second];
          reader = reader == kNobody || reader == i ? i : kSeveral;
        }
      }
    }
  }

  // One order in which all can run. What waits for parts comes as late in it as may be.
  void FindPlaces() {
    std::vector<int> waits_for(graph_.node_size(), 0);
    for (const std::vector<int>& followers : followers_) {
      for (const int follower : followers) ++waits_for[follower];
    }
    std::vector<bool> late(graph_.node_size(), false);
    for (const std::vector<int>& waiting : waiting_) {
      for (const int node : waiting) late[node] = true;
    }
    std::vector<int> ready, ready_late;
    const auto add = [&](int node) { (late[node] ? ready_late : ready).push_back(node); };
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (waits_for[i] == 0) add(i);
    }
    place_.assign(graph_.node_size(), kNobody);
    while (!ready.empty() || !ready_late.empty()) {
      std::vector<int>& from = ready.empty() ? ready_late : ready;
      const int node = from.back();
      from.pop_back();
      place_[node] = static_cast<int>(in_order_.size());
      in_order_.push_back(node);
      for (const int follower : followers_[node]) {
        if (--waits_for[follower] == 0) add(follower);
      }
    }
  }

  // Of one kind, and without more in memory.
  bool MayPrecede(int part, int reader) const {
    const NodeDef &one = graph_.node(part), &other = graph_.node(reader);
    if (!part_[reader] || one.device() != other.device() || one.attr().at("T").type() != other.attr().at("T").type()) {
      return false;
    }
    if (IsCopy(one) || IsCopy(other)) {
      return IsCopy(one) && RecomputeNumber(other.name()) == RecomputeNumber(one.name()) + 1;  // in the plan
    }
    return LargeInputs(one).size() == 1;
  }

  // Whoever waits for the part comes behind the node that it would become a part of.
  bool IsWaitedForBehind(int part, int last) const {
    return std::all_of(waiting_[part].begin(), waiting_[part].end(),
                       [&](int node) { return place_[node] > place_[last]; });
  }

  int64_t ResultBytes(const std::string& node) const { return own_.result_bytes(OriginalName(node)); }

  // The inputs, each once, that are as large as the result, where all others are small beside it; more than one where
  // that is not so, or not known.
  std::set<std::string> LargeInputs(const NodeDef& node) const {
    constexpr int kSmall = 64;
    const int64_t bytes = ResultBytes(node.name());
    std::set<std::string> large;
    for (const std::string& input : node.input()) {
      if (IsControl(input)) continue;
      const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
      const int64_t read = id.index() == 0 ? ResultBytes(std::string(id.node())) : bytes;
      const bool small = read > 0 && read * kSmall <= bytes;
      if (!small && (read != bytes || bytes <= 0 || IsSlice(std::string(id.node())))) return {"", input};
      if (!small) large.insert(input);
    }
    return large;
  }

  // May the node's result be a part of something larger, all of which is held as long?
  bool IsSlice(const std::string& node) const {
    auto found = by_name_.find(node);
    while (found != by_name_.end() && IsViewOfInput(graph_.node(found->second), 0)) {
      found = by_name_.find(NodeOf(graph_.node(found->second).input(0)));
    }
    return found == by_name_.end() || own_.may_be_slice(graph_.node(found->second));
  }

  // Of what such an op takes: its share of writing the result, and as much for the next one that reads it.
  double Saved(const NodeDef& node) const {
    if (own_.cost_us == nullptr) return 0;
    const auto large = static_cast<double>(std::max<size_t>(1, LargeInputs(node).size()));
    return own_.cost_us(OriginalName(node.name())) * 2 / (1 + large);
  }

  // One node for all of the chain, under the last one's name.
  NodeDef Made(const std::vector<int>& chain) const {
    const NodeDef& last = graph_.node(chain.back());
    NodeDef fused;
    fused.set_name(last.name());
    fused.set_op(kElementwiseOp);
    fused.set_device(last.device());
    std::vector<std::string> inputs, controls;
    std::vector<ElementwiseStep> program;
    std::string result;  // the name of what the step before gives
    for (const int part : chain) {
      const NodeDef& node = graph_.node(part);
      std::vector<int> operands;
      for (const std::string& input : node.input()) {
        if (IsControl(input)) {
          Place(input, &controls);
        } else {
          operands.push_back(NodeOf(input) == result ? kResultBefore : Place(input, &inputs));
        }
      }
      program.push_back({*ElementwiseKindOf(node), operands.front(), operands.back()});
      result = node.name();
    }
    for (const std::string& input : inputs) fused.add_input(input);
    for (const std::string& control : controls) fused.add_input(control);
    for (const auto& [name, value] : last.attr()) {
      if (name[0] == '_') (*fused.mutable_attr())[name] = value;
    }
    auto& attrs = *fused.mutable_attr();
    attrs["T"] = last.attr().at("T");
    attrs["N"].set_i(static_cast<int>(inputs.size()));
    attrs[kAsParts].set_b(own_.as_parts);
    tensorflow::SetAttrValue(AsNumbers(program), &attrs["program"]);
    for (const int part : chain) attrs[kParts].mutable_list()->add_s(graph_.node(part).SerializeAsString());
    return fused;
  }

  // Its place among the names, where it is added if need be.
  static int Place(const std::string& name, std::vector<std::string>* names) {
    const auto found = std::find(names->begin(), names->end(), name);
    if (found != names->end()) return static_cast<int>(found - names->begin());
    names->push_back(name);
    return static_cast<int>(names->size()) - 1;
  }

  void WaitFor(const std::unordered_map<std::string, std::string>& within) {
    for (NodeDef& node : *graph_.mutable_node()) {
      std::vector<std::string> inputs;
      bool changed = false;
      for (const std::string& input : node.input()) {
        const auto found = IsControl(input) ? within.find(NodeOf(input)) : within.end();
        changed = changed || found != within.end();
        const std::string now = found == within.end() ? input : "^" + found->second;
        if (IsControl(now)) {
          Place(now, &inputs);  // once
        } else {
          inputs.push_back(now);
        }
      }
      if (!changed) continue;
      node.clear_input();
      for (const std::string& input : inputs) node.add_input(input);
    }
  }

  void Remove(const std::unordered_map<std::string, std::string>& within) {
    int kept = 0;
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (within.count(graph_.node(i).name()) != 0) continue;
      if (kept != i) graph_.mutable_node()->SwapElements(kept, i);
      ++kept;
    }
    graph_.mutable_node()->DeleteSubrange(kept, graph_.node_size() - kept);
  }

  GraphDef& graph_;
  const OwnNodes& own_;
  bool has_loops_ = false;
  std::unordered_map<std::string, int> by_name_;
  std::vector<bool> part_;                             // per node: may it be a part of another, or have parts?
  std::vector<int> reader_;                            // per part
  std::vector<std::vector<int>> waiting_, followers_;  // per part; per node
  std::vector<int> place_, in_order_;                  // per node; nodes by place
};

}  // namespace

Fused FuseElementwise(GraphDef* graph, const OwnNodes& own) { return Fuser(graph, own).Run(); }

void PartElementwise(GraphDef* graph) {
  std::vector<NodeDef> more;
  for (NodeDef& node : *graph->mutable_node()) {
    const auto found = node.attr().find(kParts);
    if (node.op() != kElementwiseOp || found == node.attr().end()) continue;
    std::vector<NodeDef> parts;
    for (const std::string& text : found->second.list().s()) parts.emplace_back().ParseFromString(text);
    if (parts.empty()) continue;
    node = std::move(parts.back());
    parts.pop_back();
    std::move(parts.begin(), parts.end(), std::back_inserter(more));
  }
  for (NodeDef& node : more) *graph->add_node() = std::move(node);
}

}  // namespace lms
