#include "cc/tf/rewrite/places_node.h"

#include <unordered_map>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

// By node: is it in a loop?
std::vector<bool> InLoops(const tensorflow::GraphDef& graph) {
  std::unordered_map<std::string, std::vector<int>> readers;
  std::vector<int> open;
  std::vector<bool> within(graph.node_size(), false);
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& input : graph.node(i).input())
      readers[std::string(tensorflow::ParseTensorName(input).node())].push_back(i);
    if (!IsEnter(graph.node(i))) continue;
    within[i] = true;
    open.push_back(i);
  }
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int reader : readers[graph.node(node).name()]) {
      if (within[reader] || IsExit(graph.node(reader))) continue;
      within[reader] = true;
      open.push_back(reader);
    }
  }
  return within;
}

}  // namespace

void AddPlacesNode(int64_t number, const std::string& device, const std::unordered_set<std::string>& ops,
                   tensorflow::GraphDef* graph) {
  const std::vector<bool> in_loops = InLoops(*graph);
  std::string name;
  for (int i = 0; i < graph->node_size(); ++i) {
    tensorflow::NodeDef& node = *graph->mutable_node(i);
    if (in_loops[i] || ops.count(node.name()) == 0) continue;
    if (name.empty()) name = PlacesName(number, OriginalName(node.name()));
    node.add_input("^" + name);
  }
  if (name.empty()) return;
  tensorflow::NodeDef& node = *graph->add_node();
  node.set_name(name);
  node.set_op(kPlacesOp);
  node.set_device(device);
  (*node.mutable_attr())["number"].set_i(number);
}

}  // namespace lms
