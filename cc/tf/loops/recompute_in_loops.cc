#include "cc/tf/loops/recompute_in_loops.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

std::string InputName(const std::string& node, int port) {
  return port == 0 ? node : node + ":" + std::to_string(port);
}

// One loop after the other. Adds nodes behind those of the graph as it came, which keep their places.
class LoopRewriter {
 public:
  LoopRewriter(const tensorflow::GraphDef& came, const GraphIndex& index, tensorflow::GraphDef* graph)
      : came_(came), index_(index), loops_(came, index), graph_(*graph) {}

  absl::Status Run(const LoopCut& cut) {
    cut_ = &cut;
    made_.clear();
    copies_of_.clear();
    pivot_.clear();
    counter_ = Counter();
    if (counter_ < 0) return absl::InternalError("a gradient's loop without a counter");
    std::vector<bool> replaced(cut.loop.chains.size(), false);
    for (const NewElement& element : cut.new_elements) {
      if (!element.new_list) replaced[element.chain] = true;
    }
    // What lists bring, before any copy is made of it.
    for (size_t c = 0; c < cut.loop.chains.size(); ++c) {
      const ListChain& chain = cut.loop.chains[c];
      const TensorRef pushed = index_[chain.push].inputs[1];
      if (!cut.dropped[c]) made_.emplace(KeyOf(pushed), InputName(graph_.node(chain.pop).name(), 1));
    }
    for (const NewElement& element : cut.new_elements) {
      const ListChain& chain = cut.loop.chains[element.chain];
      const std::string pop = element.new_list ? AddList(chain, element) : graph_.node(chain.pop).name();
      made_.emplace(KeyOf(element.tensor), InputName(pop, 1));
    }
    for (size_t c = 0; c < cut.loop.chains.size(); ++c) {
      if (!cut.dropped[c]) continue;
      const absl::Status status = Reroute(cut.loop.chains[c]);
      if (!status.ok()) return status;
    }
    for (const NewElement& element : cut.new_elements) {
      if (!element.new_list) HandOn(cut.loop.chains[element.chain], element);
    }
    for (size_t c = 0; c < cut.loop.chains.size(); ++c) {
      if (cut.dropped[c] && !replaced[c]) LeaveEmpty(cut.loop.chains[c]);
    }
    return absl::OkStatus();
  }

 private:
  using Key = std::pair<int, int>;
  static Key KeyOf(const TensorRef& tensor) { return {tensor.node, tensor.port}; }

  std::string NameFor(int original) { return LoopName(added_++, graph_.node(original).name()); }

  // The Switch of the gradient's counter, or of any small variable of its loop; -1: there is none.
  int Counter() const {
    const int cond = index_.frame(cut_->loop.backward).loop_cond;
    for (const int node : loops_.NodesIn(cut_->loop.backward)) {
      if (came_.node(node).op() != "Switch" || index_[node].inputs.size() != 2) continue;
      const auto type = came_.node(node).attr().find("T");
      const bool whole = type != came_.node(node).attr().end() &&
                         (type->second.type() == tensorflow::DT_INT32 || type->second.type() == tensorflow::DT_INT64);
      if (whole && index_[node].inputs[1].node == cond && index_[node].inputs[0].port == 0) return node;
    }
    return -1;
  }

  // A node that runs in each iteration of the gradient, whatever else does: for copies that wait for nothing else of
  // it.
  const std::string& Pivot() {
    if (!pivot_.empty()) return pivot_;
    pivot_ = NameFor(counter_);
    NodeDef node;
    node.set_name(pivot_);
    node.set_op("Identity");
    node.set_device(came_.node(counter_).device());
    node.add_input(InputName(came_.node(counter_).name(), 1));
    (*node.mutable_attr())["T"] = came_.node(counter_).attr().at("T");
    *graph_.add_node() = std::move(node);
    return pivot_;
  }

  // The same value in all iterations of the gradient, too.
  std::string BringIn(const TensorRef& tensor, const TensorRef& outside) {
    const NodeDef& back_enter = graph_.node(cut_->loop.chains.front().back_enter);
    NodeDef node;
    node.set_name(NameFor(tensor.node));
    node.set_op("Enter");
    node.set_device(graph_.node(tensor.node).device());
    node.add_input(InputName(graph_.node(outside.node).name(), outside.port));
    auto& attrs = *node.mutable_attr();
    attrs["T"] = graph_.node(tensor.node).attr().at("T");
    attrs["frame_name"] = back_enter.attr().at("frame_name");
    attrs["is_constant"].set_b(true);
    if (const auto found = back_enter.attr().find("parallel_iterations"); found != back_enter.attr().end()) {
      attrs["parallel_iterations"] = found->second;
    }
    const std::string name = node.name();
    *graph_.add_node() = std::move(node);
    return name;
  }

  // The input by which the gradient's body reads the value; "": it cannot. Iterative, as bodies may be long.
  std::string ValueOf(const TensorRef& wanted) {
    std::vector<TensorRef> pending{wanted};
    while (!pending.empty()) {
      const TensorRef tensor = pending.back();
      if (made_.count(KeyOf(tensor)) != 0) {
        pending.pop_back();
        continue;
      }
      if (cut_->runs_again[tensor.node]) {
        bool ready = true;
        for (const TensorRef& input : index_[tensor.node].inputs) {
          if (made_.count(KeyOf(input)) != 0) continue;
          if (input.node == tensor.node) return "";
          ready = false;
          pending.push_back(input);
        }
        if (ready) Copy(tensor);
        continue;
      }
      const TensorRef outside = OutsideOf(came_, index_, loops_, tensor);
      if (outside.node < 0) return "";
      made_.emplace(KeyOf(tensor), BringIn(tensor, outside));
      pending.pop_back();
    }
    return made_.at(KeyOf(wanted));
  }

  // All inputs of the op are there. An output that a list brings is read from there.
  void Copy(const TensorRef& tensor) {
    std::string& name = copies_of_.emplace(tensor.node, "").first->second;
    if (name.empty()) {
      NodeDef copy = graph_.node(tensor.node);
      name = NameFor(tensor.node);
      copy.set_name(name);
      copy.clear_input();
      bool in_iteration = false;
      for (const TensorRef& input : index_[tensor.node].inputs) {
        const std::string& value = made_.at(KeyOf(input));
        copy.add_input(value);
        in_iteration = in_iteration || OutsideOf(came_, index_, loops_, input).node < 0;
      }
      // What reads constants of the loop alone would run once more than its body does.
      if (!in_iteration) copy.add_input("^" + Pivot());
      *graph_.add_node() = std::move(copy);
    }
    made_.emplace(KeyOf(tensor), InputName(name, tensor.port));
  }

  // What read an element of the list reads the value that is computed again.
  absl::Status Reroute(const ListChain& chain) {
    const TensorRef pushed = index_[chain.push].inputs[1];
    const std::string value = ValueOf(pushed);
    if (value.empty()) {
      return absl::InternalError(graph_.node(pushed.node).name() + " cannot be computed in the gradient of its loop");
    }
    const TensorRef element{chain.pop, 1};
    for (const int reader : index_[chain.pop].readers) {
      const std::vector<TensorRef>& inputs = index_[reader].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == element) graph_.mutable_node(reader)->set_input(static_cast<int>(i), value);
      }
    }
    return absl::OkStatus();
  }

  // A shape that says nothing of itself.
  static NodeDef AnyShape(const std::string& name, const std::string& device, const std::string& waits_for) {
    NodeDef node;
    node.set_name(name);
    node.set_op("Const");
    node.set_device(device);
    node.add_input("^" + waits_for);
    auto& attrs = *node.mutable_attr();
    attrs["dtype"].set_type(tensorflow::DT_INT32);
    tensorflow::TensorProto& value = *attrs["value"].mutable_tensor();
    value.set_dtype(tensorflow::DT_INT32);
    value.mutable_tensor_shape();
    value.add_int_val(-1);
    return node;
  }

  // An empty list for these elements, where that of the chain is made. Returns its name.
  std::string AddMaker(const ListChain& chain, const NewElement& element) {
    const NodeDef& like = came_.node(chain.maker);
    NodeDef shape = AnyShape(NameFor(index_[chain.maker].inputs[0].node), like.device(), like.name());
    NodeDef maker = like;
    maker.set_name(NameFor(chain.maker));
    maker.set_input(0, shape.name());
    (*maker.mutable_attr())["element_dtype"].set_type(element.dtype);
    std::string name = maker.name();
    *graph_.add_node() = std::move(shape);
    *graph_.add_node() = std::move(maker);
    return name;
  }

  // The shape that an element is asked to have when it is popped. Returns its name.
  std::string AddPoppedShape(const ListChain& chain) {
    NodeDef any = AnyShape(NameFor(index_[chain.pop].inputs[1].node), came_.node(chain.pop).device(), Pivot());
    std::string name = any.name();
    *graph_.add_node() = std::move(any);
    return name;
  }

  // The list, with other elements.
  void HandOn(const ListChain& chain, const NewElement& element) {
    const std::string tensor = InputName(came_.node(element.tensor.node).name(), element.tensor.port);
    graph_.mutable_node(chain.enter)->set_input(0, AddMaker(chain, element));
    NodeDef* const push = graph_.mutable_node(chain.push);
    push->set_input(1, tensor);
    (*push->mutable_attr())["element_dtype"].set_type(element.dtype);
    const std::string shape = AddPoppedShape(chain);
    NodeDef* const pop = graph_.mutable_node(chain.pop);
    pop->set_input(1, shape);
    (*pop->mutable_attr())["element_dtype"].set_type(element.dtype);
  }

  // A copy of a node that a list goes through. Only data inputs are others.
  void AddLike(int node, const std::string& name, const std::vector<std::string>& inputs,
               tensorflow::DataType element = tensorflow::DT_INVALID) {
    NodeDef copy = came_.node(node);
    copy.set_name(name);
    for (size_t i = 0; i < inputs.size(); ++i) copy.set_input(static_cast<int>(i), inputs[i]);
    if (element != tensorflow::DT_INVALID) (*copy.mutable_attr())["element_dtype"].set_type(element);
    *graph_.add_node() = std::move(copy);
  }

  // Of the way of a list through one loop: its nodes.
  struct Way {
    int enter;
    int merge;
    int fork;
    int step;  // a push, or a pop
    int next;
  };
  struct Ends {
    std::string fork;
    std::string step;
  };

  // A new list goes the same way through the loop. `item`: what the step reads beside the list.
  Ends AddWay(const Way& like, const std::string& list, const std::string& item, tensorflow::DataType element) {
    const std::string enter = NameFor(like.enter);
    const std::string merge = NameFor(like.merge);
    const std::string next = NameFor(like.next);
    Ends ends{NameFor(like.fork), NameFor(like.step)};
    AddLike(like.enter, enter, {list});
    const bool enter_first = index_[like.merge].inputs[0].node == like.enter;
    AddLike(like.merge, merge, enter_first ? std::vector<std::string>{enter, next} : std::vector{next, enter});
    AddLike(like.fork, ends.fork, {merge});
    AddLike(like.step, ends.step, {InputName(ends.fork, 1), item}, element);
    AddLike(like.next, next, {ends.step});
    return ends;
  }

  // A list of its own, which goes the way of the chain. Returns the name of its pop.
  std::string AddList(const ListChain& chain, const NewElement& element) {
    const std::string pushed = InputName(came_.node(element.tensor.node).name(), element.tensor.port);
    const Way forward{chain.enter, chain.merge, chain.fork, chain.push, chain.next};
    const std::string exit = NameFor(chain.exit);
    AddLike(chain.exit, exit, {AddWay(forward, AddMaker(chain, element), pushed, element.dtype).fork});
    const Way backward{chain.back_enter, chain.back_merge, chain.back_fork, chain.pop, chain.back_next};
    return AddWay(backward, exit, AddPoppedShape(chain), element.dtype).step;
  }

  // The list, with no elements at all.
  void LeaveEmpty(const ListChain& chain) {
    graph_.mutable_node(chain.next)->set_input(0, InputName(graph_.node(chain.fork).name(), 1));
    graph_.mutable_node(chain.back_next)->set_input(0, InputName(graph_.node(chain.back_fork).name(), 1));
    for (const int node : {chain.push, chain.pop}) {
      NodeDef nothing;
      nothing.set_name(graph_.node(node).name());
      nothing.set_device(graph_.node(node).device());
      nothing.set_op("NoOp");
      *graph_.mutable_node(node) = std::move(nothing);
    }
  }

  const tensorflow::GraphDef& came_;
  const GraphIndex& index_;
  const Loops loops_;
  tensorflow::GraphDef& graph_;
  int added_ = 0;
  // Of the loop at hand:
  const LoopCut* cut_ = nullptr;
  std::map<Key, std::string> made_;       // tensors of the forward body, as inputs in the gradient's
  std::map<int, std::string> copies_of_;  // nodes of the forward body
  int counter_ = -1;
  std::string pivot_;
};

}  // namespace

absl::Status RecomputeInLoops(const ListCut& cut, const GraphIndex& index, tensorflow::GraphDef* graph) {
  const tensorflow::GraphDef came = *graph;
  LoopRewriter rewriter(came, index, graph);
  for (const LoopCut& loop : cut.loops) {
    const absl::Status status = rewriter.Run(loop);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace lms
