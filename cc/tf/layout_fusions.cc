#include "cc/tf/layout_fusions.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace lms {

namespace {

// Gradients of filters that the gradient of a bias might go into.
std::vector<int> FiltersOf(const tensorflow::GraphDef& graph, const GraphIndex& index, int node) {
  std::vector<int> filters;
  if (graph.node(node).op() != "BiasAddGrad" || index[node].inputs.size() != 1 || !index[node].live) return filters;
  const TensorRef gradient = index[node].inputs[0];
  for (const int reader : index[gradient.node].readers) {
    const NodeIndex& filter = index[reader];
    if (graph.node(reader).op() != "Conv2DBackpropFilter" || !filter.live || filter.inputs.size() != 3) continue;
    if (filter.inputs[2] == gradient) filters.push_back(reader);
  }
  return filters;
}

}  // namespace

std::vector<int> FusedInto(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn) {
  std::vector<int> into(index.size());
  std::iota(into.begin(), into.end(), 0);
  for (int i = 0; onednn && i < index.size(); ++i) {
    const std::vector<int> filters = FiltersOf(graph, index, i);
    if (!filters.empty()) into[i] = filters.back();
  }
  return into;
}

std::vector<OtherFusion> OtherFusions(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn) {
  std::vector<OtherFusion> others;
  for (int i = 0; onednn && i < index.size(); ++i) {
    const std::vector<int> filters = FiltersOf(graph, index, i);
    for (const int filter : filters) {
      if (filter != filters.back()) others.push_back({i, filter});
    }
  }
  return others;
}

std::vector<bool> MayBeFused(const tensorflow::GraphDef& graph, const GraphIndex& index, bool onednn) {
  std::vector<bool> may_be(index.size(), false);
  const std::vector<int> into = FusedInto(graph, index, onednn);
  for (int i = 0; onednn && i < index.size(); ++i) {
    const std::vector<int>& readers = index[i].readers;
    const bool padding = graph.node(i).op() == "Pad" && std::any_of(readers.begin(), readers.end(), [&](int reader) {
                           const std::string& type = graph.node(reader).op();
                           return type == "Conv2D" || type == "_FusedConv2D";
                         });
    may_be[i] = into[i] != i || padding;
  }
  return may_be;
}

}  // namespace lms
