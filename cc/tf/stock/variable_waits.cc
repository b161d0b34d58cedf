#include "cc/tf/stock/variable_waits.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/variable_reads.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/op.h"

namespace lms {
namespace {

// Copies of smaller variables are not worth an edge.
constexpr int64_t kLeastBytes = 64 << 10;
// Of nodes that depend on an update. Updates that more depends on (clipping that reads weights back, say) are left
// alone.
constexpr size_t kMostFollowers = 2000;
// An update that depends on no more nodes than these needs nothing of the step, and may run at its very beginning.
constexpr size_t kMostSources = 64;
// A variable that is changed more often is left alone: who reads which of its values is not told by its handle.
constexpr size_t kMostUpdates = 8;

class WaitFinder {
 public:
  WaitFinder(const tensorflow::GraphDef& graph, const GraphIndex& index, const Deadline& deadline,
             std::vector<bool> left_alone = {})
      : graph_(graph), index_(index), pace_(deadline), left_alone_(std::move(left_alone)) {}

  std::vector<VariableWait> Run() {
    for (int i = 0; i < index_.size(); ++i) {
      // A function's own updates (those not in a function that it calls) are all preserved, as its control outputs.
      if (!RunsInEveryStep(index_[i]) || !Updates(i) || index_.Fetched(i) || LeftAlone(i)) continue;
      const int variable = Variable(index_[i].inputs[0]);
      if (variable < 0) continue;
      all_updates_[variable].push_back(i);
      if (VariableBytes(graph_.node(variable)) >= kLeastBytes) updates_[variable].push_back(i);
    }
    std::vector<VariableWait> waits;
    for (int i = 0; i < index_.size(); ++i) {
      const auto found =
          index_[i].inputs.empty() ? all_updates_.end() : all_updates_.find(Variable(index_[i].inputs[0]));
      if (found == all_updates_.end() || found->second.size() < 2) continue;
      if (std::find(found->second.begin(), found->second.end(), i) != found->second.end()) {
        Postpone(i, found->second, &waits);
      }
    }
    if (updates_.empty()) return waits;
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

  std::vector<bool> BeforeData() {
    std::vector<bool> before(index_.size(), false);
    for (int i = 0; i < index_.size(); ++i) {
      if (!RunsInEveryStep(index_[i]) || !Updates(i)) continue;
      pace_.Step(kMostSources);
      const std::vector<int> sources = Sources(i);
      const auto element = [this](int node) {
        const std::string& op = graph_.node(node).op();
        return Advances(op);
      };
      if (sources.empty() || std::any_of(sources.begin(), sources.end(), element)) continue;
      before[i] = true;
      for (const int node : sources) before[node] = true;
    }
    return before;
  }

 private:
  bool LeftAlone(int node) const { return !left_alone_.empty() && left_alone_[node]; }

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

  // An update that needs nothing of the step (weight decay, say) is made to wait for what the next update of the
  // variable needs: else what the step computes of the variable until then could not be computed again.
  void Postpone(int update, const std::vector<int>& updates, std::vector<VariableWait>* waits) {
    const std::vector<int> sources = Sources(update);
    if (sources.empty()) return;
    const std::unordered_set<int>* followers = Followers(update);
    if (followers == nullptr) return;
    std::vector<int> wanted;
    for (const int other : updates) {
      if (followers->count(other) == 0) continue;
      for (const TensorRef& input : index_[other].inputs) {
        const int node = input.node;
        if (!CanBeWaitedFor(node) || followers->count(node) != 0 ||
            std::count(wanted.begin(), wanted.end(), node) != 0) {
          continue;
        }
        if (std::find(sources.begin(), sources.end(), node) == sources.end()) wanted.push_back(node);
      }
    }
    if (wanted.empty()) return;
    // What only the update reads waits as well: made at once, it would be held all the time. Not what decides which
    // branch runs, or ends one: control flow gets no other inputs.
    std::vector<int> late = {update};
    for (const int node : sources) {  // readers come before what they read
      const std::vector<int>& readers = index_[node].readers;
      const bool own = std::all_of(readers.begin(), readers.end(), [&late](int reader) {
        return std::find(late.begin(), late.end(), reader) != late.end();
      });
      const bool control_flow = IsControlFlow(graph_.node(node).op());
      if (own && CanBeWaitedFor(node) && !control_flow && !index_.Preserved(node)) late.push_back(node);
    }
    for (const int node : late) {
      for (const int reader : wanted) {
        const std::vector<int>& controls = index_[node].controls;
        if (std::find(controls.begin(), controls.end(), reader) == controls.end()) waits->push_back({node, reader});
      }
    }
  }

  // An op of every step, and none that there is from the start or that reads a variable. (Gradients of biases may
  // become a part of another node: layout_fusions.)
  bool CanBeWaitedFor(int node) const {
    const std::string& op = graph_.node(node).op();
    return RunsInEveryStep(index_[node]) && !(index_[node].inputs.empty() && index_[node].controls.empty()) &&
           !IsVariableRead(op) && op != "Const" && op != "BiasAddGrad";
  }

  // Nodes that the update depends on, nearest first; none where they are many.
  std::vector<int> Sources(int update) const {
    std::vector<int> sources;
    std::unordered_set<int> seen = {update};
    const auto add = [&](int node) {
      if (seen.insert(node).second) sources.push_back(node);
    };
    for (size_t next = 0; next <= sources.size(); ++next) {
      const int node = next == 0 ? update : sources[next - 1];
      for (const TensorRef& input : index_[node].inputs) add(input.node);
      for (const int control : index_[node].controls) add(control);
      if (sources.size() > kMostSources) return {};
    }
    return sources;
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
  std::unordered_map<int, std::vector<int>> all_updates_;  // by the node of the handle
  std::unordered_map<int, std::vector<int>> updates_;      // those of large variables
  Pace pace_;
  const std::vector<bool> left_alone_;
  int follower_of_ = -1;
  bool too_many_ = false;
  std::unordered_set<int> followers_;
};

}  // namespace

std::vector<VariableWait> FindVariableWaits(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                            const Deadline& deadline, const std::vector<bool>& before_data) {
  return WaitFinder(graph, index, deadline, before_data).Run();
}

std::vector<bool> RunBeforeData(const tensorflow::GraphDef& graph, const GraphIndex& index, const Deadline& deadline) {
  return WaitFinder(graph, index, deadline).BeforeData();
}

}  // namespace lms
