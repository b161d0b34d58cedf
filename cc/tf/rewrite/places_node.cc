#include "cc/tf/rewrite/places_node.h"

#include <set>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/own_ops.h"

namespace lms {

void AddPlacesNode(int64_t number, const std::string& device, const std::unordered_set<std::string>& ops,
                   const GraphIndex& index, tensorflow::GraphDef* graph) {
  std::set<int> waiting;
  std::set<int> loops;  // that no other is around
  for (int i = 0; i < index.size(); ++i) {
    if (ops.count(graph->node(i).name()) == 0) continue;
    int frame = index[i].frame;
    if (frame == 0) waiting.insert(i);
    if (frame <= 0) continue;
    while (index.frame(frame).parent > 0) frame = index.frame(frame).parent;
    loops.insert(frame);
  }
  for (int i = 0; i < index.size(); ++i) {
    const tensorflow::NodeDef& node = graph->node(i);
    if (IsEnter(node) && loops.count(index[i].frame) > 0 && node.device() == device) waiting.insert(i);
  }
  if (waiting.empty()) return;
  const std::string name = PlacesName(number, OriginalName(graph->node(*waiting.begin()).name()));
  for (const int i : waiting) graph->mutable_node(i)->add_input("^" + name);
  tensorflow::NodeDef& node = *graph->add_node();
  node.set_name(name);
  node.set_op(kPlacesOp);
  node.set_device(device);
  (*node.mutable_attr())["number"].set_i(number);
}

}  // namespace lms
