#include "cc/tf/loops/check_loops.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/loop_variables.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/same_op.h"
#include "cc/tf/loops/compare_nodes.h"
#include "cc/tf/loops/list_chains.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

class LoopComparison {
 public:
  LoopComparison(const GraphDef& before, const GraphIndex& old_index, const GraphDef& after,
                 const GraphIndex& new_index, const Deadline& deadline)
      : before_(before),
        old_(old_index),
        after_(after),
        new_(new_index),
        pace_(deadline),
        old_loops_(before, old_index),
        new_loops_(after, new_index) {
    for (const GradientLoop& loop : FindGradientLoops(before, old_index, old_loops_)) {
      for (const ListChain& chain : loop.chains) {
        old_chains_[chain.pop] = chain;
        for (const int node : {chain.enter, chain.next, chain.back_next, chain.push, chain.pop}) of_list_.insert(node);
      }
    }
    for (const GradientLoop& loop : FindGradientLoops(after, new_index, new_loops_)) {
      for (const ListChain& chain : loop.chains) new_chains_[chain.pop] = chain;
    }
  }

  absl::Status Check() {
    return CompareNodes(
        before_, after_, [this](int node) { return CheckOld(node); }, [this](int node) { return CheckNew(node); });
  }

 private:
  // Of a list, which the gradient does without.
  static bool MayDoNothing(const NodeDef& node) {
    return node.op() == "TensorListPushBack" || node.op() == "TensorListPopBack";
  }

  absl::Status CheckOld(int node) {
    pace_.Step(10);
    const NodeDef& was = before_.node(node);
    const NodeDef& is = after_.node(node);
    const bool list = of_list_.count(node) != 0;
    if (list && MayDoNothing(was) && is.op() == "NoOp" && is.input_size() == 0) return absl::OkStatus();
    // What a list holds may be of another type.
    if (list ? was.op() != is.op() || was.device() != is.device() : !SameButInputs(was, is)) {
      return Unsound("node " + was.name() + " was changed");
    }
    absl::Status stays = CheckStays(before_, old_, new_, node);
    if (!stays.ok()) return stays;
    // Lists are looked at as a whole, by what is taken out of them.
    return list || ReadsTheSame(node) ? absl::OkStatus()
                                      : Unsound("node " + was.name() + " has other inputs than before");
  }

  bool ReadsTheSame(int node) {
    const std::vector<TensorRef>& read = old_[node].inputs;
    const std::vector<TensorRef>& reads = new_[node].inputs;
    if (read.size() != reads.size()) return false;
    for (size_t i = 0; i < read.size(); ++i) {
      const auto chain = read[i].port == 1 ? old_chains_.find(read[i].node) : old_chains_.end();
      if (chain == old_chains_.end() ? !(read[i] == reads[i]) : !BringsElement(reads[i], chain->second)) return false;
    }
    return true;
  }

  bool BringsElement(const TensorRef& tensor, const ListChain& chain) {
    return Equal(tensor, old_[chain.push].inputs[1], old_[chain.push].frame, old_[chain.pop].frame);
  }

  // In the gradient's loop of the new graph: is it, in each iteration, what `then` was in the forward loop's?
  bool Equal(const TensorRef& now, const TensorRef& then, int forward, int backward) {
    const auto key = std::make_tuple(now.node, now.port, then.node, then.port);
    const auto known = equal_.find(key);
    if (known != equal_.end()) return known->second;
    pace_.Step(10);
    return equal_[key] = Compare(now, then, forward, backward);
  }

  bool Compare(const TensorRef& now, const TensorRef& then, int forward, int backward) {
    constexpr int kMostDepth = 5000;  // of ops that lead to one
    const NodeDef& is = after_.node(now.node);
    if (InFrameOf(now.node) != backward || depth_ > kMostDepth) return false;
    const auto chain = new_chains_.find(now.node);
    if (chain != new_chains_.end() && now.port == 1) {
      const int push = chain->second.push;
      return InFrameOf(push) == forward && new_[push].inputs[1] == then;
    }
    if (!IsLoopName(is.name())) return false;
    if (IsEnter(is)) {
      // The same value in all iterations of both.
      const TensorRef outside = OutsideOf(before_, old_, old_loops_, then);
      return outside.node >= 0 && outside == OutsideOf(after_, new_, new_loops_, now);
    }
    const NodeDef& was = before_.node(then.node);
    if (now.port != then.port || old_[then.node].frame != forward || OriginalName(is.name()) != was.name())
      return false;
    if (!SameButInputs(was, is) || (is.op() != "Const" && !WhyNotRecomputable(is).empty())) return false;
    const std::vector<TensorRef>& read = old_[then.node].inputs;
    const std::vector<TensorRef>& reads = new_[now.node].inputs;
    if (read.size() != reads.size()) return false;
    ++depth_;
    bool equal = true;
    for (size_t i = 0; equal && i < read.size(); ++i) equal = Equal(reads[i], read[i], forward, backward);
    --depth_;
    return equal;
  }

  // Of the old graph: that in which the node of the new graph runs.
  int InFrameOf(int node) const {
    const Frame& frame = new_.frame(std::max(0, new_[node].frame));
    return frame.loop_cond >= 0 && frame.loop_cond < old_.size() ? old_[frame.loop_cond].frame : -1;
  }

  absl::Status CheckNew(int node) const {
    const NodeDef& is = after_.node(node);
    if (!IsLoopName(is.name())) return Unsound("a node of a foreign name was added: " + is.name());
    if (old_.Find(OriginalName(is.name())) < 0) return Unsound(is.name() + " copies no node");
    const bool makes_list = is.op() == "EmptyTensorList" || is.op() == "Const";
    if (!makes_list && InFrameOf(node) < 0) return Unsound(is.name() + " is in no loop");
    if (!new_[node].live) return Unsound("the added node " + is.name() + " never runs");
    return absl::OkStatus();
  }

  const GraphDef& before_;
  const GraphIndex& old_;
  const GraphDef& after_;
  const GraphIndex& new_;
  Pace pace_;
  const Loops old_loops_;
  const Loops new_loops_;
  std::map<int, ListChain> old_chains_;  // by the pop
  std::map<int, ListChain> new_chains_;
  std::set<int> of_list_;  // nodes of the old graph through which a list goes, and that may change
  std::map<std::tuple<int, int, int, int>, bool> equal_;
  int depth_ = 0;
};

}  // namespace

absl::Status CheckLoops(const GraphDef& before, const GraphIndex& old_index, const GraphDef& after,
                        const GraphIndex& new_index, const Deadline& deadline) {
  return LoopComparison(before, old_index, after, new_index, deadline).Check();
}

}  // namespace lms
