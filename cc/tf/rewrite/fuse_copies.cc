#include "cc/tf/rewrite/fuse_copies.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/elementwise.h"
#include "cc/tf/graph/own_ops.h"
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
constexpr int kMostSteps = 16;         // of one node
constexpr char kCopies[] = "_copies";  // an attribute: the nodes that were

bool IsOnCpu(const NodeDef& node) {
  DeviceNameUtils::ParsedName name;
  return DeviceNameUtils::ParseFullName(node.device(), &name) && name.has_type && name.type == tensorflow::DEVICE_CPU;
}

bool IsControl(const std::string& input) { return !input.empty() && input[0] == '^'; }

// Of the node that an input names; the copies have one output.
std::string NodeOf(const std::string& input) { return std::string(tensorflow::ParseTensorName(input).node()); }

class Fuser {
 public:
  explicit Fuser(GraphDef* graph)
      : graph_(*graph), number_(graph->node_size(), kNobody), reader_(graph->node_size(), kNobody) {
    for (int i = 0; i < graph_.node_size(); ++i) {
      const NodeDef& node = graph_.node(i);
      const int number = RecomputeNumber(node.name());
      if (number == kNobody || !ElementwiseKindOf(node) || !IsOnCpu(node)) continue;
      number_[i] = number;
      copies_.emplace(node.name(), i);
    }
  }

  int Run() {
    if (copies_.size() < 2) return 0;
    FindReaders();
    std::vector<int> before(graph_.node_size(), kNobody);  // per copy: the one that is computed within it
    for (const auto& [name, copy] : copies_) {
      const int reader = reader_[copy];
      if (reader >= 0 && before[reader] == kNobody && MayPrecede(copy, reader)) before[reader] = copy;
    }
    std::unordered_map<std::string, std::string> within;  // by the name of a node that goes: the node that it is in now
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (before[i] == kNobody || Precedes(i, before)) continue;
      std::vector<int> chain{i};
      while (before[chain.back()] != kNobody && static_cast<int>(chain.size()) < kMostSteps) {
        chain.push_back(before[chain.back()]);
        within.emplace(graph_.node(chain.back()).name(), graph_.node(i).name());
      }
      std::reverse(chain.begin(), chain.end());
      *graph_.mutable_node(i) = Fused(chain);
    }
    WaitFor(within);
    return Remove(within);
  }

 private:
  static constexpr int kSeveral = -2;

  // The one node that reads a copy's result; kNobody or kSeveral. And who reads or waits for whom.
  void FindReaders() {
    std::unordered_map<std::string, int> by_name;
    for (int i = 0; i < graph_.node_size(); ++i) by_name.emplace(graph_.node(i).name(), i);
    followers_.resize(graph_.node_size());
    waiting_.resize(graph_.node_size());
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& input : graph_.node(i).input()) {
        const auto from = by_name.find(NodeOf(input));
        if (from == by_name.end()) continue;
        followers_[from->second].push_back(i);
        if (number_[from->second] == kNobody) continue;
        if (IsControl(input)) {
          waiting_[from->second].push_back(i);
        } else {
          int& reader = reader_[from->second];
          reader = reader == kNobody || reader == i ? i : kSeveral;
        }
      }
    }
  }

  // One right after the other in the plan, and of one kind otherwise. What waits for the first, as the update of a
  // variable that it reads, will wait for the second: nothing that is computed again may come behind that.
  bool MayPrecede(int copy, int reader) const {
    const NodeDef &one = graph_.node(copy), &other = graph_.node(reader);
    return number_[reader] != kNobody && number_[reader] == number_[copy] + 1 && one.device() == other.device() &&
           one.attr().at("T").type() == other.attr().at("T").type() &&
           std::all_of(waiting_[copy].begin(), waiting_[copy].end(), [this](int node) { return IsNearTheEnd(node); });
  }

  // Few nodes, and no copies, come behind it.
  bool IsNearTheEnd(int node) const {
    constexpr size_t kFew = 64;
    std::vector<int> found{node};
    for (size_t i = 0; i < found.size(); ++i) {
      if (found.size() > kFew || RecomputeNumber(graph_.node(found[i]).name()) != kNobody) return false;
      for (const int follower : followers_[found[i]]) {
        if (std::find(found.begin(), found.end(), follower) == found.end()) found.push_back(follower);
      }
    }
    return true;
  }

  bool Precedes(int copy, const std::vector<int>& before) const {
    return reader_[copy] >= 0 && before[reader_[copy]] == copy;
  }

  // One node for all of the chain, under the last one's name.
  NodeDef Fused(const std::vector<int>& chain) const {
    const NodeDef& last = graph_.node(chain.back());
    NodeDef fused;
    fused.set_name(last.name());
    fused.set_op(kElementwiseOp);
    fused.set_device(last.device());
    std::vector<std::string> inputs, controls;
    std::vector<ElementwiseStep> program;
    std::string result;  // the name of what the step before gives
    for (const int copy : chain) {
      const NodeDef& node = graph_.node(copy);
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
    tensorflow::SetAttrValue(AsNumbers(program), &attrs["program"]);
    for (const int copy : chain) attrs[kCopies].mutable_list()->add_s(graph_.node(copy).SerializeAsString());
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

  int Remove(const std::unordered_map<std::string, std::string>& within) {
    int kept = 0;
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (within.count(graph_.node(i).name()) != 0) continue;
      if (kept != i) graph_.mutable_node()->SwapElements(kept, i);
      ++kept;
    }
    const int gone = graph_.node_size() - kept;
    graph_.mutable_node()->DeleteSubrange(kept, gone);
    return gone;
  }

  GraphDef& graph_;
  std::vector<int> number_;  // per node: its place in the plan, where it is a copy that may be fused
  std::vector<int> reader_;  // per such copy
  std::vector<std::vector<int>> waiting_, followers_;  // per such copy; per node
  std::unordered_map<std::string, int> copies_;
};

}  // namespace

int FuseCopies(GraphDef* graph) { return Fuser(graph).Run(); }

void PartCopies(GraphDef* graph) {
  std::vector<NodeDef> more;
  for (NodeDef& node : *graph->mutable_node()) {
    const auto copies = node.attr().find(kCopies);
    if (node.op() != kElementwiseOp || copies == node.attr().end()) continue;
    std::vector<NodeDef> parts;
    for (const std::string& text : copies->second.list().s()) parts.emplace_back().ParseFromString(text);
    if (parts.empty()) continue;
    node = std::move(parts.back());
    parts.pop_back();
    std::move(parts.begin(), parts.end(), std::back_inserter(more));
  }
  for (NodeDef& node : more) *graph->add_node() = std::move(node);
}

}  // namespace lms
