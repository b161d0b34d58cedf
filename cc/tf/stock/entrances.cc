#include "cc/tf/stock/entrances.h"

#include <functional>
#include <set>

#include "cc/tf/graph/op_traits.h"

namespace lms {
namespace {

// Live nodes from that one on, as long as `goes_on` says so of each.
void FollowReaders(const GraphIndex& index, int from, Pace* pace, const std::function<bool(int)>& goes_on) {
  std::vector<int> pending{from};
  std::set<int> seen{from};
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    for (const int reader : index[node].readers) {
      pace->Step();
      if (index[reader].live && seen.insert(reader).second && goes_on(reader)) pending.push_back(reader);
    }
  }
}

}  // namespace

bool LeadsIn(const tensorflow::NodeDef& node, int input) {
  return IsEnter(node) || (node.op() == "Switch" && input == 0);
}

Entrance LookInto(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops, int node,
                  Pace* pace) {
  Entrance entrance;
  FollowReaders(index, node, pace, [&](int reader) {
    const tensorflow::NodeDef& def = graph.node(reader);
    if (IsNextIteration(def) || IsExit(def)) return false;
    const bool hands_on = def.op() == "Merge" || def.op() == "Switch" || IsPassThrough(def);
    if (!hands_on) entrance.readers.push_back(reader);
    return hands_on;
  });
  if (IsEnter(graph.node(node))) {
    entrance.held = !loops.Changes(node);
    if (!IsConstantEnter(graph.node(node))) entrance.gates = loops.Gates(index[node].frame);
    for (const int i : loops.NodesIn(index[node].frame)) {
      if (index[i].live && index[i].frame == index[node].frame && IsExit(graph.node(i))) entrance.ways_out.push_back(i);
    }
    return entrance;
  }
  FollowReaders(index, node, pace, [&](int reader) {
    const bool within = index[reader].region != index[node].region;
    if (!within && graph.node(reader).op() == "Merge") entrance.ways_out.push_back(reader);
    return within;
  });
  return entrance;
}

}  // namespace lms
