#include "cc/tf/graph/collectives.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cc/tf/graph/loops.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

// The live nodes, each after what it reads and waits for in its iteration; shorter where there is a cycle.
std::vector<int> TopologicalOrder(const tensorflow::GraphDef& graph, const GraphIndex& index) {
  std::vector<int> missing(index.size(), 0);
  std::vector<std::vector<int>> next(index.size());
  std::vector<int> order;
  for (int i = 0; i < index.size(); ++i) {
    if (!index[i].live) continue;
    const auto add = [&](int before) {
      if (IsNextIteration(graph.node(before)) || !index[before].live) return;
      next[before].push_back(i);
      ++missing[i];
    };
    for (const TensorRef& input : index[i].inputs) add(input.node);
    for (const int control : index[i].controls) add(control);
    if (missing[i] == 0) order.push_back(i);
  }
  for (size_t at = 0; at < order.size(); ++at) {
    for (const int node : next[order[at]]) {
      if (--missing[node] == 0) order.push_back(node);
    }
  }
  return order;
}

// Do two nodes take part in the same kind of exchange?
bool SameKind(const NodeDef& a, const NodeDef& b) {
  if (a.op() != b.op()) return false;
  for (const char* name : {"T", "merge_op", "final_op", "communication_hint"}) {
    const auto of_a = a.attr().find(name);
    const auto of_b = b.attr().find(name);
    const bool none = of_a == a.attr().end();
    if (none != (of_b == b.attr().end())) return false;
    if (!none && !tensorflow::AreAttrValuesEqual(of_a->second, of_b->second)) return false;
  }
  return true;
}

Collectives Problem(const std::string& text) {
  Collectives none;
  none.problem = text;
  return none;
}

}  // namespace

bool IsCollective(const std::string& op_type) {
  return op_type == "CollectiveReduceV2" || op_type == "CollectiveReduceScatterV2" || op_type == "CollectiveGatherV2" ||
         op_type == "CollectiveAllToAllV2";
}

Collectives FindCollectives(const tensorflow::GraphDef& graph, const GraphIndex& index) {
  std::map<std::string, int> number_of;  // of each device that has any
  for (int i = 0; i < index.size(); ++i) {
    if (index[i].live && IsCollective(graph.node(i).op())) number_of.emplace(graph.node(i).device(), 0);
  }
  if (number_of.empty()) return {};
  int devices = 0;
  for (auto& [device, number] : number_of) number = devices++;

  // Per node and device: how many of its collectives are on the longest way to the node. Those of one device are in one
  // order if no two are equally far.
  std::vector<int> passed(static_cast<size_t>(index.size()) * devices, 0);
  std::vector<std::vector<int>> parts(devices);
  for (const int node : TopologicalOrder(graph, index)) {
    int* const own = &passed[static_cast<size_t>(node) * devices];
    const auto take = [&](int before) {
      if (IsNextIteration(graph.node(before))) return;
      const int* const theirs = &passed[static_cast<size_t>(before) * devices];
      for (int d = 0; d < devices; ++d) own[d] = std::max(own[d], theirs[d]);
    };
    for (const TensorRef& input : index[node].inputs) take(input.node);
    for (const int control : index[node].controls) take(control);
    if (!IsCollective(graph.node(node).op())) continue;
    const int device = number_of.at(graph.node(node).device());
    const size_t place = own[device]++;
    if (place < parts[device].size()) {
      return Problem(graph.node(parts[device][place]).name() + " and " + graph.node(node).name() +
                     " are in no order on their device");
    }
    parts[device].push_back(node);
  }

  Collectives found;
  found.instances.resize(parts[0].size());
  for (const std::vector<int>& of_device : parts) {
    if (of_device.size() != parts[0].size()) {
      return Problem("devices take part in different numbers of collective operations");
    }
    for (size_t i = 0; i < of_device.size(); ++i) {
      const int first = parts[0][i];
      if (!SameKind(graph.node(first), graph.node(of_device[i])) || index[first].region != index[of_device[i]].region) {
        return Problem(graph.node(first).name() + " and " + graph.node(of_device[i]).name() +
                       " have the same place on their devices but are not of one kind");
      }
      found.instances[i].push_back(of_device[i]);
    }
  }
  return found;
}

std::vector<CollectiveWait> CollectiveWaits(const Collectives& collectives, const GraphIndex& index) {
  std::vector<CollectiveWait> waits;
  for (size_t i = 1; i < collectives.instances.size(); ++i) {
    const std::vector<int>& before = collectives.instances[i - 1];
    const std::vector<int>& parts = collectives.instances[i];
    for (size_t device = 0; device < parts.size(); ++device) {
      const int region = index[parts[device]].region;
      if (region >= 0 && index[before[device]].region == region) waits.push_back({parts[device], before[device]});
    }
  }
  return waits;
}

void AddBarriers(const Collectives& collectives, const std::vector<OpId>& op_of_node, MemGraph* graph) {
  if (collectives.instances.empty()) return;
  std::vector<const std::vector<int>*> instance_of(graph->ops.size(), nullptr);
  for (const std::vector<int>& instance : collectives.instances) {
    for (const int node : instance) instance_of[op_of_node[node]] = &instance;
  }
  const auto add = [](OpId dep, std::vector<OpId>* deps) {
    if (std::find(deps->begin(), deps->end(), dep) == deps->end()) deps->push_back(dep);
  };
  for (MemOp& op : graph->ops) {
    const std::vector<OpId> own = op.deps;
    for (const OpId dep : own) {
      if (instance_of[dep] == nullptr) continue;
      for (const int node : *instance_of[dep]) add(op_of_node[node], &op.deps);
    }
  }
  for (const std::vector<int>& instance : collectives.instances) {
    std::vector<OpId> all;
    for (const int node : instance) {
      for (const OpId dep : graph->ops[op_of_node[node]].deps) add(dep, &all);
    }
    for (const int node : instance) graph->ops[op_of_node[node]].deps = all;
  }
}

}  // namespace lms
