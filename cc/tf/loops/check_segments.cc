#include "cc/tf/loops/check_segments.h"

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
#include "cc/tf/loops/segments.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr int kMostDepth = 5000;  // of ops that lead to one

// Reads what a graph says about its loops.
class LoopReader {
 public:
  LoopReader(const GraphDef& graph, const GraphIndex& index) : graph_(graph), index_(index), loops_(graph, index) {}

  const Loops& loops() const { return loops_; }
  bool Is(int node, const char* op) const { return graph_.node(node).op() == op; }

  // The input; node -1 where there is none.
  TensorRef Input(int node, size_t input) const {
    return index_[node].inputs.size() > input ? index_[node].inputs[input] : TensorRef{-1, 0};
  }

  // One that gets its next value whenever the loop goes on.
  bool Variable(int fork, LoopVariable* variable) const {
    if (fork < 0 || !ReadLoopVariable(graph_, index_, loops_, fork, variable)) return false;
    const int region = index_[variable->end].region;
    if (region < 0 || index_[fork].region < 0) return false;
    const std::set<Condition>& body = index_.region(region).conditions;
    const std::set<Condition>& loop = index_.region(index_[fork].region).conditions;
    return body.size() == loop.size() + 1 && std::includes(body.begin(), body.end(), loop.begin(), loop.end());
  }

  // What the tensor is outside of its loop, where it is a constant of that; node -1 where it is none.
  TensorRef Outside(const TensorRef& tensor) const {
    return tensor.node < 0 ? tensor : OutsideOf(graph_, index_, loops_, tensor);
  }

  // The variable of which the tensor is the value after the loop.
  bool VariableOfExit(const TensorRef& tensor, LoopVariable* variable) const {
    if (tensor.node < 0 || !IsExit(graph_.node(tensor.node))) return false;
    const TensorRef fork = Input(tensor.node, 0);
    return fork.node >= 0 && fork.port == 0 && Variable(fork.node, variable);
  }

  // A whole number that is known, there or outside of loops; -1 where it is none.
  int64_t Number(const TensorRef& tensor) const {
    return tensor.node < 0 ? -1 : NumberOf(graph_, index_, loops_, tensor);
  }

  // op(a, b) of whole numbers: what it reads.
  bool Whole(const TensorRef& tensor, const char* op, TensorRef* a, TensorRef* b) const {
    if (tensor.node < 0 || tensor.port != 0 || !Is(tensor.node, op) || index_[tensor.node].inputs.size() != 2) {
      return false;
    }
    const auto type = graph_.node(tensor.node).attr().find("T");
    if (type == graph_.node(tensor.node).attr().end() || type->second.type() != tensorflow::DT_INT32) return false;
    *a = index_[tensor.node].inputs[0];
    *b = index_[tensor.node].inputs[1];
    return true;
  }

  bool Counts(const LoopVariable& variable) const {
    return CountsIterations(graph_, index_, loops_, variable, tensorflow::DT_INT32);
  }

  // Does the node run whenever the body of its loop does?
  bool InBody(int node, const LoopVariable& variable) const {
    return index_[node].live && index_[node].region >= 0 && index_[node].region == index_[variable.end].region &&
           loops_.MayBePlanned(index_[node].region);
  }

 private:
  const GraphDef& graph_;
  const GraphIndex& index_;
  const Loops loops_;
};

// The loop within a gradient, as far as it counts.
struct Within {
  int forward = -1;  // frames of the new graph
  int backward = -1;
  int frame = -1;
  TensorRef now;        // in the gradient: the number of its iteration
  TensorRef iteration;  // within: likewise
  int64_t length = 0;   // of a segment
  TensorRef segment;    // in the gradient
};

class SegmentComparison {
 public:
  SegmentComparison(const GraphDef& before, const GraphIndex& old_index, const GraphDef& after,
                    const GraphIndex& new_index, const Deadline& deadline)
      : before_(before),
        old_(old_index),
        after_(after),
        new_(new_index),
        pace_(deadline),
        was_(before, old_index),
        is_(after, new_index) {
    for (const GradientLoop& loop : FindGradientLoops(before, old_index, was_.loops())) {
      for (const ListChain& chain : loop.chains) {
        for (const int node : {chain.enter, chain.push, chain.next, chain.pop}) of_chain_[node] = chain;
      }
    }
  }

  absl::Status Check() {
    return CompareNodes(
        before_, after_, [this](int node) { return CheckOld(node); }, [this](int node) { return CheckNew(node); });
  }

 private:
  absl::Status CheckOld(int node) {
    pace_.Step(10);
    const NodeDef& was = before_.node(node);
    const NodeDef& is = after_.node(node);
    const auto chain = of_chain_.find(node);
    const bool changed = chain != of_chain_.end() && Changed(chain->second);
    if (changed && node == chain->second.push) {
      return is.op() == "NoOp" && is.input_size() == 0 ? absl::OkStatus() : Unsound(was.name() + " still pushes");
    }
    if (!SameButInputs(was, is)) return Unsound("node " + was.name() + " was changed");
    absl::Status stays = CheckStays(before_, old_, new_, node);
    if (!stays.ok()) return stays;
    std::vector<TensorRef> reads = new_[node].inputs;
    if (changed && node == chain->second.enter) {
      // It may begin with another empty list.
      const bool empty =
          !reads.empty() && (reads[0].node == chain->second.maker || IsCopy(reads[0].node, chain->second.maker));
      if (empty) reads = old_[node].inputs;
    } else if (changed && node == chain->second.next) {
      // Nothing is pushed.
      if (reads.empty() || !(reads[0] == TensorRef{chain->second.fork, 1})) {
        return Unsound("the list of " + was.name() + " does not stay empty");
      }
      reads[0] = {chain->second.push, 0};
    } else if (changed) {
      if (!Filled(chain->second, reads[0])) return Unsound(was.name() + " may take out something else");
      reads[0] = {chain->second.back_fork, 1};
    }
    return reads == old_[node].inputs ? absl::OkStatus() : Unsound("node " + was.name() + " has other inputs");
  }

  // Was the node added as a copy of the other one, with the same inputs?
  bool IsCopy(int node, int original) const {
    return node >= old_.size() && SameButInputs(before_.node(original), after_.node(node)) &&
           new_[node].inputs == old_[original].inputs;
  }

  // Does the list come out of a loop within?
  bool Changed(const ListChain& chain) const {
    const TensorRef list = is_.Input(chain.pop, 0);
    return list.node >= old_.size() && new_[chain.pop].inputs.size() == old_[chain.pop].inputs.size();
  }

  // Does the list, at each pop, end with the element that was pushed in the iteration of the same number?
  bool Filled(const ListChain& chain, const TensorRef& list) {
    LoopVariable variable;
    if (!is_.VariableOfExit(list, &variable)) return false;
    const TensorRef& push = variable.next;
    if (push.node < 0 || !is_.Is(push.node, "TensorListPushBack") || push.port != 0) return false;
    if (!is_.InBody(push.node, variable)) return false;
    // One that holds what it held when the gradient's iteration began, and one element more for each iteration within.
    if (!(is_.Input(variable.enter, 0) == TensorRef{chain.back_fork, 1})) return false;
    if (!(is_.Input(push.node, 0) == variable.now()) || !SameElements({push.node, chain.pop})) return false;
    const Within* const within = WithinOf(new_[push.node].frame, chain);
    return within != nullptr && Equal(is_.Input(push.node, 1), old_[chain.push].inputs[1], *within);
  }

  // How the loop counts, read once; null where it does not count as it must.
  const Within* WithinOf(int frame, const ListChain& chain) {
    const auto [found, is_new] = within_.try_emplace(frame);
    Within& within = found->second;
    if (is_new && !ReadWithin(frame, chain, &within)) within.frame = -1;
    const bool same = within.forward == new_[chain.fork].frame && within.backward == new_[chain.back_fork].frame;
    return within.frame >= 0 && same ? &within : nullptr;
  }

  bool ReadWithin(int frame, const ListChain& chain, Within* within) const {
    within->frame = frame;
    within->forward = new_[chain.fork].frame;
    within->backward = new_[chain.back_fork].frame;
    if (frame <= 0 || new_.frame(frame).parent != within->backward) return false;
    // It goes round while its counter is less than a number that is the same in all of its iterations.
    const int cond = new_.frame(frame).loop_cond;
    TensorRef counter;
    TensorRef end;
    if (cond < 0 || !is_.Whole(is_.Input(cond, 0), "Less", &counter, &end)) return false;
    LoopVariable iterations;
    if (!VariableOfMerge(counter, &iterations) || !StepsUp(iterations)) return false;
    within->iteration = iterations.now();
    // It begins with the iteration of the segment that the list ends with: e * k + length.
    TensorRef begin;
    TensorRef held;
    TensorRef length;
    if (!is_.Whole(is_.Input(iterations.enter, 0), "AddV2", &begin, &held)) return false;
    if (held.node < 0 || !is_.Is(held.node, "TensorListLength") || !HeldByFilled(is_.Input(held.node, 0), frame)) {
      return false;
    }
    if (!is_.Whole(begin, "Mul", &within->segment, &length)) return false;
    within->length = is_.Number(length);
    TensorRef again;
    if (within->length < 1 || !is_.Whole(within->segment, "FloorDiv", &within->now, &again)) return false;
    if (is_.Number(again) != within->length) return false;
    // The gradient's iterations count down from the forward loop's.
    TensorRef left;
    TensorRef one;
    LoopVariable down;
    if (!is_.Whole(within->now, "Sub", &left, &one) || is_.Number(one) != 1) return false;
    if (!is_.Variable(left.node, &down) || left.port != 1 || !(down.next == within->now)) return false;
    if (new_[down.fork].frame != within->backward || !(is_.Outside(end) == left)) return false;
    LoopVariable up;
    if (!is_.VariableOfExit(is_.Input(down.enter, 0), &up)) return false;
    if (new_[up.end].region != new_[chain.next].region || new_[down.end].region != new_[chain.back_next].region) {
      return false;
    }
    return new_[up.fork].frame == within->forward && is_.Counts(up);
  }

  // Is it a list that is filled in the frame, as it is when the gradient's iteration begins? All of these are as long:
  // they begin empty, get one element in each iteration within, and are popped once.
  bool HeldByFilled(const TensorRef& list, int frame) const {
    for (const auto& [node, chain] : of_chain_) {
      if (node != chain.pop || !(list == TensorRef{chain.back_fork, 1}) || !Changed(chain)) continue;
      LoopVariable variable;
      return is_.VariableOfExit(is_.Input(chain.pop, 0), &variable) && new_[variable.fork].frame == frame;
    }
    return false;
  }

  bool VariableOfMerge(const TensorRef& merge, LoopVariable* variable) const {
    if (merge.node < 0 || merge.port != 0 || !is_.Is(merge.node, "Merge")) return false;
    const std::vector<int>& readers = new_[merge.node].readers;
    return std::any_of(readers.begin(), readers.end(),
                       [&](int reader) { return is_.Variable(reader, variable) && variable->merge == merge.node; });
  }

  bool StepsUp(const LoopVariable& variable) const {
    TensorRef a;
    TensorRef b;
    return is_.Whole(variable.next, "AddV2", &a, &b) && a == variable.now() && is_.Number(b) == 1;
  }

  // Within the gradient: is it, in each iteration, what `then` was in the forward loop's of the same number?
  bool Equal(const TensorRef& now, const TensorRef& then, const Within& within) {
    if (now.node < 0 || then.node < 0) return false;
    // Of two variables it may be asked on the way round: they are equal if they begin so and go on so.
    const auto [known, is_new] = equal_.try_emplace(std::make_tuple(now.node, now.port, then.node, then.port), true);
    if (!is_new) return known->second;
    pace_.Step(10);
    const bool equal = depth_ < kMostDepth && Compare(now, then, within);
    // What was taken for equal on the way may rest on it.
    if (!equal) failed_ = true;
    return equal && !failed_;
  }

  bool Compare(const TensorRef& now, const TensorRef& then, const Within& within) {
    const NodeDef& is = after_.node(now.node);
    if (new_[now.node].frame != within.frame || !IsLoopName(is.name())) return false;
    if (old_[then.node].frame < 0 || new_[then.node].frame != within.forward) return false;
    LoopVariable variable;
    if (now.port == 1 && is_.Variable(now.node, &variable)) return SameVariable(now, variable, then, within);
    if (is.op() == "TensorListGetItem" && BringsByIndex(now, then, within)) return true;
    if (IsEnter(is)) {
      // The same value in all iterations of all three loops.
      const TensorRef outside = was_.Outside(then);
      return outside.node >= 0 && is_.Outside(is_.Outside(now)) == outside;
    }
    const NodeDef& was = before_.node(then.node);
    if (now.port != then.port || OriginalName(is.name()) != was.name() || !SameButInputs(was, is)) return false;
    if (is.op() != "Const" && !WhyNotRecomputable(is).empty()) return false;
    const std::vector<TensorRef>& read = old_[then.node].inputs;
    const std::vector<TensorRef>& reads = new_[now.node].inputs;
    if (read.size() != reads.size()) return false;
    ++depth_;
    bool equal = true;
    for (size_t i = 0; equal && i < read.size(); ++i) equal = Equal(reads[i], read[i], within);
    --depth_;
    return equal;
  }

  bool SameVariable(const TensorRef& now, const LoopVariable& variable, const TensorRef& then, const Within& within) {
    LoopVariable original;
    if (then.port != 1 || !was_.Variable(then.node, &original)) return false;
    if (now == within.iteration) return was_.Counts(original);
    ++depth_;
    const bool equal =
        BeginsAsStored(is_.Input(variable.enter, 0), then, within) && Equal(variable.next, original.next, within);
    --depth_;
    return equal;
  }

  // Is it, at the beginning of a segment, what the forward loop's `then` was in its first iteration?
  bool BeginsAsStored(const TensorRef& start, const TensorRef& then, const Within& within) const {
    if (start.node < 0 || !is_.Is(start.node, "TensorListGetItem")) return false;
    if (!(is_.Input(start.node, 1) == within.segment)) return false;
    LoopVariable list;
    if (!is_.VariableOfExit(is_.Outside(is_.Input(start.node, 0)), &list)) return false;
    if (new_[list.fork].frame != within.forward) return false;
    const TensorRef& set = list.next;
    if (set.node < 0 || !is_.Is(set.node, "TensorListSetItem") || set.port != 0) return false;
    if (!is_.InBody(set.node, list) || !(is_.Input(set.node, 0) == list.now())) return false;
    if (!(is_.Input(set.node, 2) == then)) return false;
    const int maker = is_.Input(list.enter, 0).node;
    if (maker < 0 || !is_.Is(maker, "TensorListReserve") || !SameElements({maker, set.node, start.node})) return false;
    // It gets as long as it has to.
    const auto resize = after_.node(set.node).attr().find("resize_if_index_out_of_bounds");
    if (resize == after_.node(set.node).attr().end() || !resize->second.b()) return false;
    // At (t + k - 1) / k: of the iterations that store there the last one is that of a whole number of segments.
    TensorRef sum;
    TensorRef length;
    TensorRef counter;
    TensorRef less;
    if (!is_.Whole(is_.Input(set.node, 1), "FloorDiv", &sum, &length) || is_.Number(length) != within.length) {
      return false;
    }
    if (!is_.Whole(sum, "AddV2", &counter, &less) || is_.Number(less) != within.length - 1) return false;
    LoopVariable counts;
    return counter.port == 1 && is_.Variable(counter.node, &counts) && is_.Counts(counts);
  }

  // Is it element t, in iteration t, of a list of all that `then` was?
  bool BringsByIndex(const TensorRef& now, const TensorRef& then, const Within& within) const {
    LoopVariable list;
    if (!(is_.Input(now.node, 1) == within.iteration)) return false;
    if (!is_.VariableOfExit(is_.Outside(is_.Outside(is_.Input(now.node, 0))), &list)) return false;
    if (new_[list.fork].frame != within.forward) return false;
    const int maker = is_.Input(list.enter, 0).node;
    const TensorRef& push = list.next;
    return maker >= 0 && is_.Is(maker, "EmptyTensorList") && push.node >= 0 &&
           is_.Is(push.node, "TensorListPushBack") && is_.InBody(push.node, list) &&
           SameElements({maker, push.node, now.node}) && is_.Input(push.node, 0) == list.now() &&
           is_.Input(push.node, 1) == then;
  }

  // Outside of all loops, in one that was there, or in one that was found to fill lists.
  bool InKnownFrame(int node) const {
    if (new_[node].region < 0 || new_[node].frame < 0) return false;
    if (new_[node].frame == 0) return true;
    const int cond = new_.frame(new_[node].frame).loop_cond;
    if (cond < 0) return false;
    const auto within = within_.find(new_[node].frame);
    return cond < old_.size() || (within != within_.end() && within->second.frame >= 0);
  }

  // Lists of the same type.
  bool SameElements(const std::vector<int>& nodes) const {
    const auto type = [this](int node) {
      const auto found = after_.node(node).attr().find("element_dtype");
      return found == after_.node(node).attr().end() ? tensorflow::DT_INVALID : found->second.type();
    };
    return std::all_of(nodes.begin(), nodes.end(), [&](int node) { return type(node) == type(nodes.front()); });
  }

  // All that it does is to count, to keep what is pushed, or to compute again.
  absl::Status CheckNew(int node) const {
    static const std::set<std::string>* const kOps = new std::set<std::string>{"AddV2",
                                                                               "Const",
                                                                               "EmptyTensorList",
                                                                               "Enter",
                                                                               "Exit",
                                                                               "FloorDiv",
                                                                               "Less",
                                                                               "LoopCond",
                                                                               "Merge",
                                                                               "Mul",
                                                                               "NextIteration",
                                                                               "Sub",
                                                                               "TensorListGetItem",
                                                                               "TensorListPushBack",
                                                                               "TensorListLength",
                                                                               "Switch",
                                                                               "Identity",
                                                                               "TensorListReserve",
                                                                               "TensorListSetItem"};
    const NodeDef& is = after_.node(node);
    if (!IsLoopName(is.name())) return Unsound("a node of a foreign name was added: " + is.name());
    if (!new_[node].live) return Unsound("the added node " + is.name() + " never runs");
    if (!InKnownFrame(node)) return Unsound("the added node " + is.name() + " is in a loop of its own");
    if (kOps->count(is.op()) == 0 && !WhyNotRecomputable(is).empty()) {
      return Unsound("the added node " + is.name() + " must not run twice");
    }
    return absl::OkStatus();
  }

  const GraphDef& before_;
  const GraphIndex& old_;
  const GraphDef& after_;
  const GraphIndex& new_;
  Pace pace_;
  const LoopReader was_;
  const LoopReader is_;
  std::map<int, ListChain> of_chain_;  // by enter, push, next and pop, of the old graph
  std::map<int, Within> within_;       // by frame
  std::map<std::tuple<int, int, int, int>, bool> equal_;
  bool failed_ = false;
  int depth_ = 0;
};

}  // namespace

absl::Status CheckSegments(const GraphDef& before, const GraphIndex& old_index, const GraphDef& after,
                           const GraphIndex& new_index, const Deadline& deadline) {
  return SegmentComparison(before, old_index, after, new_index, deadline).Check();
}

}  // namespace lms
