#include "cc/tf/variable_waits.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cc/tf/op_traits.h"
#include "cc/tf/tensor_sizes.h"
#include "cc/tf/variable_reads.h"
#include "tensorflow/core/framework/op.h"

namespace lms {
namespace {

// Copies of smaller variables are not worth an edge.
constexpr int64_t kLeastBytes = 64 << 10;
// Of nodes that depend on an update. Updates that more depends on (clipping that reads weights back, say) are left
// alone.
constexpr size_t kMostFollowers = 2000;
// A variable that is changed more often is left alone: who reads which of its values is not told by its handle.
constexpr size_t kMostUpdates = 8;

class WaitFinder {
 public:
  WaitFinder(const tensorflow::GraphDef& graph, const GraphIndex& index, const Deadline& deadline)
      : graph_(graph), index_(index), pace_(deadline) {}

  std::vector<VariableWait> Run() {
    for (int i = 0; i < index_.size(); ++i) {
      if (!RunsInEveryStep(index_[i]) || !Updates(i) || index_.Preserved(i)) continue;
      const int variable = Variable(index_[i].inputs[0]);
      if (variable >= 0 && VariableBytes(graph_.node(variable)) >= kLeastBytes) updates_[variable].push_back(i);
    }
    if (updates_.empty()) return {};
    std::vector<VariableWait> waits;
    for (int i = 0; i < index_.size(); ++i) {
      if (!RunsInEveryStep(index_[i]) || !IsVariableRead(graph_.node(i).op()) || index_[i].inputs.empty()) continue;
      const auto found = updates_.find(Variable(index_[i].inputs[0]));
      if (found == updates_.end() || found->second.size() > kMostUpdates) continue;
      const std::vector<int> readers = ReadersToWaitFor(graph_, index_, i);
      pace_.Step(10 * static_cast<int64_t>(readers.size()));
      for (const int update : found->second) {
        for (const int reader : readers) {
          if (reader != update && MayWait(update, reader)) waits.push_back({update, reader});
        }
      }
    }
    return waits;
  }

 private:
  bool Updates(int node) const {
    const std::string& op = graph_.node(node).op();
    if (IsVariableRead(op) || IsVariableQuery(op) || index_[node].inputs.empty()) return false;
    return op.rfind("Assign", 0) == 0 || op.rfind("ResourceApply", 0) == 0;
  }

  // The node that makes the handle, or -1.
  int Variable(TensorRef tensor) {
    for (int steps = 0; steps < index_.size(); ++steps) {
      pace_.Step();
      const std::string& op = graph_.node(tensor.node).op();
      if (op == "VarHandleOp" || op == "_Arg") return tensor.node;
      if (!IsPassThrough(graph_.node(tensor.node)) || index_[tensor.node].inputs.empty()) return -1;
      tensor = index_[tensor.node].inputs[0];
    }
    return -1;
  }

  bool MayWait(int update, int reader) {
    const std::vector<int>& controls = index_[update].controls;
    const std::vector<TensorRef>& inputs = index_[update].inputs;
    if (std::find(controls.begin(), controls.end(), reader) != controls.end()) return false;
    if (std::any_of(inputs.begin(), inputs.end(), [reader](const TensorRef& i) { return i.node == reader; })) {
      return false;
    }
    const std::unordered_set<int>* followers = Followers(update);
    return followers != nullptr && followers->count(reader) == 0;
  }

  // Nodes that depend on the update; nullptr where they are too many to tell.
  const std::unordered_set<int>* Followers(int update) {
    if (update == follower_of_) return too_many_ ? nullptr : &followers_;
    follower_of_ = update;
    too_many_ = false;
    followers_ = {};
    std::vector<int> next = {update};
    while (!next.empty() && !too_many_) {
      const int node = next.back();
      next.pop_back();
      pace_.Step(10 + 10 * static_cast<int64_t>(index_[node].readers.size()));
      for (const int reader : index_[node].readers) {
        if (followers_.insert(reader).second) next.push_back(reader);
      }
      too_many_ = followers_.size() > kMostFollowers;
    }
    return too_many_ ? nullptr : &followers_;
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  Pace pace_;
  std::unordered_map<int, std::vector<int>> updates_;  // by the node of the handle
  int follower_of_ = -1;
  bool too_many_ = false;
  std::unordered_set<int> followers_;
};

}  // namespace

std::vector<VariableWait> FindVariableWaits(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                            const Deadline& deadline) {
  return WaitFinder(graph, index, deadline).Run();
}

}  // namespace lms
