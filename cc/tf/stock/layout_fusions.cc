#include "cc/tf/stock/layout_fusions.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/sizes/cpu_kernels.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace lms {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

// The pass leaves what is on other devices alone.
bool OnCpu(const NodeDef& node) { return DeviceType(node.device()) == "CPU"; }

bool SameWaits(const GraphIndex& index, int a, int b) {
  const std::set<int> of_a(index[a].controls.begin(), index[a].controls.end());
  return of_a == std::set<int>(index[b].controls.begin(), index[b].controls.end());
}

bool IsConvolution(const NodeDef& node) {
  if ((node.op() != "Conv2D" && node.op() != "_FusedConv2D") || !OnCpu(node)) return false;
  const auto padding = node.attr().find("padding");
  return padding != node.attr().end() && padding->second.s() == "VALID";
}

// Gradients of filters that the gradient of a bias might go into.
std::vector<int> FiltersOf(const GraphDef& graph, const GraphIndex& index, int node) {
  std::vector<int> filters;
  const NodeDef& bias = graph.node(node);
  if (bias.op() != "BiasAddGrad" || !OnCpu(bias) || index[node].inputs.size() != 1 || !index[node].live) return filters;
  const TensorRef gradient = index[node].inputs[0];
  for (const int reader : index[gradient.node].readers) {
    const NodeIndex& filter = index[reader];
    if (graph.node(reader).op() != "Conv2DBackpropFilter" || !filter.live || filter.inputs.size() != 3) continue;
    if (filter.inputs[2] == gradient && OnCpu(graph.node(reader))) filters.push_back(reader);
  }
  return filters;
}

}  // namespace

std::vector<int> FusedInto(const GraphDef& graph, const GraphIndex& index, bool onednn) {
  std::vector<int> into(index.size());
  std::iota(into.begin(), into.end(), 0);
  for (int i = 0; onednn && i < index.size(); ++i) {
    for (const int filter : FiltersOf(graph, index, i)) {
      if (index[i].region == index[filter].region && SameWaits(index, i, filter)) into[i] = filter;
    }
  }
  return into;
}

std::vector<OtherFusion> OtherFusions(const GraphDef& graph, const GraphIndex& index, bool onednn) {
  std::vector<OtherFusion> others;
  const std::vector<int> into = FusedInto(graph, index, onednn);
  for (int i = 0; onednn && i < index.size(); ++i) {
    for (const int filter : FiltersOf(graph, index, i)) {
      if (filter != into[i]) others.push_back({i, filter});
    }
  }
  return others;
}

int HandedNotesBy(const GraphDef& graph, const GraphIndex& index, int node, bool onednn) {
  const NodeDef& gradient = graph.node(node);
  const bool volumes = gradient.op() == "MaxPool3DGrad";
  if (!onednn || (!volumes && gradient.op() != "MaxPoolGrad") || index[node].inputs.size() < 3) return -1;
  const auto type = gradient.attr().find("T");
  if (type == gradient.attr().end() || !CpuKernels::Here(1).OneDnn(type->second.type())) return -1;
  const TensorRef result = index[node].inputs[1];
  const NodeDef& forward = graph.node(result.node);
  if (forward.op() != (volumes ? "MaxPool3D" : "MaxPool") || result.port != 0) return -1;
  return OnCpu(gradient) && OnCpu(forward) ? result.node : -1;
}

std::vector<bool> MayBeFused(const GraphDef& graph, const GraphIndex& index, bool onednn) {
  std::vector<bool> may_be(index.size(), false);
  for (int i = 0; onednn && i < index.size(); ++i) {
    const std::vector<int>& readers = index[i].readers;
    const bool padding = graph.node(i).op() == "Pad" && std::any_of(readers.begin(), readers.end(), [&](int reader) {
                           const NodeDef& node = graph.node(reader);
                           return (node.op() == "Conv2D" || node.op() == "_FusedConv2D") && OnCpu(node);
                         });
    may_be[i] = padding || !FiltersOf(graph, index, i).empty();
  }
  return may_be;
}

namespace {

std::set<std::string> Waits(const NodeDef& node) {
  std::set<std::string> waits;
  for (const std::string& input : node.input()) {
    if (!input.empty() && input[0] == '^') waits.insert(input);
  }
  return waits;
}

void AddWaits(const std::set<std::string>& waits, NodeDef* node) {
  const std::set<std::string> own = Waits(*node);
  for (const std::string& wait : waits) {
    if (own.count(wait) == 0) node->add_input(wait);
  }
}

// "a:1" and "^a" are a's.
std::string NodeOf(const std::string& input) {
  return input[0] == '^' ? input.substr(1) : input.substr(0, input.find(':'));
}

// Of each padding, by its number: the convolution that reads it, if nothing else does.
std::vector<std::pair<int, int>> LonePaddings(const GraphDef& graph) {
  constexpr int kNobody = -1, kSeveral = -2;
  struct Padding {
    int node;
    int reader = kNobody;
  };
  std::unordered_map<std::string, Padding> paddings;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (graph.node(i).op() == "Pad") paddings[graph.node(i).name()] = {i};
  }
  std::vector<std::pair<int, int>> lone;
  if (paddings.empty()) return lone;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& input : graph.node(i).input()) {
      if (input.empty() || input[0] == '^') continue;
      const auto found = paddings.find(NodeOf(input));
      if (found == paddings.end()) continue;
      found->second.reader = found->second.reader == kNobody ? i : kSeveral;
    }
  }
  for (const auto& [name, padding] : paddings) {
    if (padding.reader >= 0 && IsConvolution(graph.node(padding.reader)))
      lone.emplace_back(padding.node, padding.reader);
  }
  std::sort(lone.begin(), lone.end());
  return lone;
}

}  // namespace

Fusions::Fusions(const GraphDef& graph, bool onednn) : onednn_(onednn) {
  if (!onednn) return;
  std::unordered_map<std::string, std::vector<int>> filters;  // by what they read
  for (int i = 0; i < graph.node_size(); ++i) {
    const NodeDef& node = graph.node(i);
    if (node.op() == "Conv2DBackpropFilter" && node.input_size() > 2 && OnCpu(node))
      filters[node.input(2)].push_back(i);
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    const NodeDef& node = graph.node(i);
    if (node.op() != "BiasAddGrad" || node.input_size() == 0 || !OnCpu(node)) continue;
    int into = -1;
    for (const int filter : filters[node.input(0)]) {
      if (Waits(node) == Waits(graph.node(filter))) into = filter;
    }
    if (into < 0) continue;
    pairs_.push_back({i, into});
    followers_.insert(i);
  }
  for (const auto& [padding, convolution] : LonePaddings(graph)) {
    if (Waits(graph.node(padding)) != Waits(graph.node(convolution))) continue;
    of_padding_[graph.node(padding).name()] = graph.node(convolution).name();
  }
}

// The same two, or copies of them.
bool Fusions::Joined(const std::string& padding, const std::string& convolution) const {
  const auto found = of_padding_.find(padding);
  if (found != of_padding_.end() && found->second == convolution) return true;
  const auto original = of_padding_.find(OriginalName(padding));
  return original != of_padding_.end() && original->second == OriginalName(convolution);
}

void Fusions::Keep(GraphDef* rewritten) const {
  for (const OtherFusion& pair : pairs_) {
    // It reads what the filter's reads, if that is computed again, too.
    rewritten->mutable_node(pair.node)->set_input(0, rewritten->node(pair.into).input(2));
    AddWaits(Waits(rewritten->node(pair.into)), rewritten->mutable_node(pair.node));
    AddWaits(Waits(rewritten->node(pair.node)), rewritten->mutable_node(pair.into));
  }
  if (!onednn_) return;
  for (const auto& [padding, convolution] : LonePaddings(*rewritten)) {
    const NodeDef& pad = rewritten->node(padding);
    NodeDef* const conv = rewritten->mutable_node(convolution);
    if (Joined(pad.name(), conv->name())) {
      AddWaits(Waits(pad), conv);
      AddWaits(Waits(*conv), rewritten->mutable_node(padding));
    } else if (Waits(pad) == Waits(*conv)) {
      AddWaits({"^" + NodeOf(pad.input(0))}, conv);
    }
  }
}

}  // namespace lms
