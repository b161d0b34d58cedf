#include "cc/tf/rewrite/effects.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/op_traits.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

class EffectKeeper {
 public:
  EffectKeeper(const GraphIndex& index, const Deadline& deadline, tensorflow::GraphDef* graph)
      : index_(index), pace_(deadline), graph_(*graph), live_(graph->node_size(), false) {
    for (int i = index.size(); i < graph_.node_size(); ++i) {
      const NodeDef& node = graph_.node(i);
      added_.emplace(node.name(), i);
      const int original = index.Find(OriginalName(node.name()));
      if (original >= 0 && graph_.node(original).op() == node.op()) copies_[original].push_back(i);
    }
    for (int i = 0; i < index.size(); ++i) {
      if (index[i].root) FollowInputs(i);
    }
  }

  void Keep(const std::vector<int>& order) {
    // The last one first: what another one waits for runs with it.
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (live_[*node] || !index_[*node].live || WhyNotRecomputable(graph_.node(*node)).empty()) continue;
      const int stand_in = StandIn(*node);
      if (stand_in < 0) continue;  // the verifier says that it is lost
      graph_.mutable_node(stand_in)->add_input("^" + graph_.node(*node).name());
      FollowInputs(*node);
    }
  }

 private:
  int Find(const std::string& name) const {
    const auto added = added_.find(name);
    return added != added_.end() ? added->second : index_.Find(name);
  }

  // The node runs, and with it what it depends on.
  void FollowInputs(int start) {
    if (live_[start]) return;
    live_[start] = true;
    std::vector<int> open{start};
    while (!open.empty()) {
      const NodeDef& node = graph_.node(open.back());
      open.pop_back();
      pace_.Step(20 + 20 * static_cast<int64_t>(node.input_size()));
      for (const std::string& input : node.input()) {
        const int from = Find(std::string(tensorflow::ParseTensorName(input).node()));
        if (from < 0 || live_[from]) continue;
        live_[from] = true;
        open.push_back(from);
      }
    }
  }

  // What runs in place of the nodes that depended on this one, nearest first; -1: nothing does.
  int StandIn(int effect) {
    std::vector<int> left_out{effect};
    std::unordered_set<int> seen{effect};
    for (size_t next = 0; next < left_out.size(); ++next) {
      for (const int reader : index_[left_out[next]].readers) {
        pace_.Step(20);
        if (!index_[reader].live || !seen.insert(reader).second) continue;
        if (live_[reader]) return reader;
        const int copy = LiveCopy(reader);
        if (copy >= 0) return copy;
        left_out.push_back(reader);
      }
    }
    return -1;
  }

  // The first recomputation of the node that runs, or copy of it as a view; -1: none does.
  int LiveCopy(int original) const {
    const auto copies = copies_.find(original);
    if (copies == copies_.end()) return -1;
    for (const int copy : copies->second) {
      if (live_[copy]) return copy;
    }
    return -1;
  }

  const GraphIndex& index_;
  Pace pace_;
  tensorflow::GraphDef& graph_;
  std::unordered_map<std::string, int> added_;        // by name
  std::unordered_map<int, std::vector<int>> copies_;  // by the original, in the order of the plan
  std::vector<bool> live_;                            // by node of the rewritten graph
};

}  // namespace

void KeepEffects(const GraphIndex& index, const std::vector<int>& order, const Deadline& deadline,
                 tensorflow::GraphDef* graph) {
  if (graph->node_size() == index.size()) return;  // nobody reads anything else
  EffectKeeper(index, deadline, graph).Keep(order);
}

}  // namespace lms
