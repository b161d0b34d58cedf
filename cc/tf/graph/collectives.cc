#include "cc/tf/graph/collectives.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

// Collectives of one device and one region: they run together, so they have an order.
class Chains {
 public:
  Chains(const tensorflow::GraphDef& graph, const GraphIndex& index) : graph_(graph), index_(index) {
    for (int i = 0; i < index.size(); ++i) {
      if (index[i].live && IsCollective(graph.node(i).op())) chain_at_[PlaceOf(i)] = 0;
    }
    std::set<std::string> devices;
    for (auto& [place, chain] : chain_at_) {
      chain = static_cast<int>(chains_.size());
      chains_.push_back({place.second, {}});
      devices.insert(place.first);
    }
    devices_ = devices.size();
  }

  Collectives Find() {
    if (chains_.empty()) return {};
    std::string problem = Fill();
    if (problem.empty()) problem = WhyNotMatched();
    if (problem.empty()) problem = WhatHasNoOrder();
    return problem.empty() ? Matched() : Problem(problem);
  }

 private:
  struct Chain {
    int region;
    std::vector<int> parts;
  };
  static constexpr size_t kMostChains = 1000;
  static constexpr size_t kMostCounts = 30000000;

  std::pair<std::string, int> PlaceOf(int node) const { return {graph_.node(node).device(), index_[node].region}; }

  // Per chain: how many of it are on the longest way to the node, with the node itself. As it is a chain: how many
  // there is any way from.
  int* Passed(int node) { return &passed_[static_cast<size_t>(node) * chains_.size()]; }

  std::string InNoOrder(int a, int b) const {
    return graph_.node(a).name() + " and " + graph_.node(b).name() + " are in no order on their device";
  }

  std::string Fill() {
    if (chains_.size() > kMostChains || chains_.size() > kMostCounts / index_.size()) {
      return "too many branches have collective operations";
    }
    passed_.assign(chains_.size() * index_.size(), 0);
    for (const int node : TopologicalOrder(graph_, index_)) {
      int* const own = Passed(node);
      const auto take = [&](int before) {
        if (IsNextIteration(graph_.node(before))) return;
        const int* const theirs = Passed(before);
        for (size_t c = 0; c < chains_.size(); ++c) own[c] = std::max(own[c], theirs[c]);
      };
      for (const TensorRef& input : index_[node].inputs) take(input.node);
      for (const int control : index_[node].controls) take(control);
      if (!IsCollective(graph_.node(node).op())) continue;
      const int chain = chain_at_.at(PlaceOf(node));
      std::vector<int>& parts = chains_[chain].parts;
      const size_t place = own[chain]++;
      if (place < parts.size()) return InNoOrder(parts[place], node);
      parts.push_back(node);
    }
    return "";
  }

  // Chains are sorted by their devices, and within one by regions: those of each device are as those of the first.
  std::string WhyNotMatched() {
    regions_ = chains_.size() / devices_;
    for (size_t c = 0; c < chains_.size(); ++c) {
      const Chain& first = chains_[c % regions_];
      if (chains_.size() % devices_ != 0 || chains_[c].region != first.region) {
        return "devices take part in collective operations in different branches or loops";
      }
      if (chains_[c].parts.size() != first.parts.size()) {
        return "devices take part in different numbers of collective operations";
      }
      for (size_t i = 0; i < first.parts.size(); ++i) {
        if (SameKind(graph_.node(first.parts[i]), graph_.node(chains_[c].parts[i]))) continue;
        return graph_.node(first.parts[i]).name() + " and " + graph_.node(chains_[c].parts[i]).name() +
               " have the same place on their devices but are not of one kind";
      }
    }
    return "";
  }

  // Of chains of a device that may run together each part comes before or after each of the other's, on all devices
  // alike.
  std::string WhatHasNoOrder() {
    for (size_t c = 0; c < chains_.size(); ++c) {
      const size_t device = c / regions_;
      for (size_t r = 0; r < regions_; ++r) {
        const size_t other = device * regions_ + r;
        if (other == c || index_.Exclusive(chains_[c].region, chains_[other].region)) continue;
        for (size_t i = 0; i < chains_[c].parts.size(); ++i) {
          const int part = chains_[c].parts[i];
          const size_t before = Passed(part)[other];
          const int of_first = chains_[c % regions_].parts[i];
          if (static_cast<size_t>(Passed(of_first)[r]) != before) {
            return graph_.node(of_first).name() + " and " + graph_.node(part).name() +
                   " have not the same place on their devices";
          }
          if (before == chains_[other].parts.size()) continue;
          const int next = chains_[other].parts[before];
          if (Passed(next)[c] <= static_cast<int>(i)) return InNoOrder(part, next);
        }
      }
    }
    return "";
  }

  Collectives Matched() {
    // What a part comes after has passed fewer.
    std::vector<std::tuple<int64_t, int, size_t>> order;  // how many, the part of the first device, its chain
    for (size_t r = 0; r < regions_; ++r) {
      for (const int part : chains_[r].parts) {
        order.emplace_back(std::accumulate(Passed(part), Passed(part) + chains_.size(), int64_t{0}), part, r);
      }
    }
    std::sort(order.begin(), order.end());
    Collectives found;
    std::vector<std::vector<int>> number(regions_);  // of the instances of each chain
    for (const auto& [passed, first, r] : order) {
      std::vector<int> parts;
      for (size_t c = r; c < chains_.size(); c += regions_) parts.push_back(chains_[c].parts[number[r].size()]);
      number[r].push_back(static_cast<int>(found.instances.size()));
      found.instances.push_back(std::move(parts));
    }
    for (const auto& [passed, first, r] : order) {
      std::vector<int> last;
      for (size_t other = 0; other < regions_; ++other) {
        const int before = Passed(first)[other] - (other == r ? 1 : 0);
        if (before == 0 || index_.Exclusive(chains_[r].region, chains_[other].region)) continue;
        last.push_back(number[other][before - 1]);
      }
      std::sort(last.begin(), last.end());
      found.last_before.push_back(std::move(last));
    }
    return found;
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  std::map<std::pair<std::string, int>, int> chain_at_;  // by device and region
  std::vector<Chain> chains_;
  size_t devices_ = 0;
  size_t regions_ = 0;  // with any
  std::vector<int> passed_;
};

}  // namespace

bool IsCollective(const std::string& op_type) {
  return op_type == "CollectiveReduceV2" || op_type == "CollectiveReduceScatterV2" || op_type == "CollectiveGatherV2" ||
         op_type == "CollectiveAllToAllV2";
}

Collectives FindCollectives(const tensorflow::GraphDef& graph, const GraphIndex& index) {
  return Chains(graph, index).Find();
}

std::vector<CollectiveWait> CollectiveWaits(const Collectives& collectives, const GraphIndex& index) {
  std::vector<CollectiveWait> waits;
  for (size_t i = 0; i < collectives.instances.size(); ++i) {
    for (size_t device = 0; device < collectives.instances[i].size(); ++device) {
      const auto part_of = [&](int instance) { return collectives.instances[instance][device]; };
      const int part = collectives.instances[i][device];
      // The last of each chain that always runs with it, without those that another one of these waits for.
      std::vector<int> chosen;
      const std::vector<int>& last = collectives.last_before[i];
      for (auto before = last.rbegin(); before != last.rend(); ++before) {
        const int region = index[part_of(*before)].region;
        if (!index.Implies(index[part].region, region)) continue;
        const auto waits_for_it = [&](int later) {
          const std::vector<int>& earlier = collectives.last_before[later];
          return index.Implies(index[part_of(later)].region, region) &&
                 std::binary_search(earlier.begin(), earlier.end(), *before);
        };
        if (std::any_of(chosen.begin(), chosen.end(), waits_for_it)) continue;
        chosen.push_back(*before);
        waits.push_back({part, part_of(*before)});
      }
    }
  }
  return waits;
}

bool SameOrder(const Collectives& a, const Collectives& b) {
  // In each its own way through branches that exclude each other.
  const auto order = [](const Collectives& collectives) {
    std::map<std::vector<int>, std::set<std::vector<int>>> of;
    for (size_t i = 0; i < collectives.instances.size(); ++i) {
      std::set<std::vector<int>>& before = of[collectives.instances[i]];
      for (const int last : collectives.last_before[i]) before.insert(collectives.instances[last]);
    }
    return of;
  };
  return a.problem.empty() && b.problem.empty() && order(a) == order(b);
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
