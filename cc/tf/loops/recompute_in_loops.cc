#include "cc/tf/loops/recompute_in_loops.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph/loops.h"
#include "cc/tf/loops/body_copy.h"
#include "cc/tf/loops/loop_nodes.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

// One loop after the other. Adds nodes behind those of the graph as it came, which keep their places.
class LoopRewriter {
 public:
  LoopRewriter(const tensorflow::GraphDef& came, const GraphIndex& index, tensorflow::GraphDef* graph)
      : came_(came), index_(index), loops_(came, index), graph_(*graph), nodes_(graph) {}

  absl::Status Run(const LoopCut& cut) {
    cut_ = &cut;
    pivot_.clear();
    counter_ = Counter();
    if (counter_ < 0) return absl::InternalError("a gradient's loop without a counter");
    BodyCopy copies(came_, index_, loops_, cut.runs_again,
                    {[this](const TensorRef& tensor, const TensorRef& outside) { return HandIn(tensor, outside); },
                     [this] { return Pivot(); }},
                    &nodes_);
    std::vector<bool> replaced(cut.loop.chains.size(), false);
    for (const NewElement& element : cut.new_elements) {
      if (!element.new_list) replaced[element.chain] = true;
    }
    // What lists bring, before any copy is made of it.
    for (size_t c = 0; c < cut.loop.chains.size(); ++c) {
      const ListChain& chain = cut.loop.chains[c];
      const TensorRef pushed = index_[chain.push].inputs[1];
      if (!cut.dropped[c]) copies.Bring(pushed, InputName(graph_.node(chain.pop).name(), 1));
    }
    for (const NewElement& element : cut.new_elements) {
      const ListChain& chain = cut.loop.chains[element.chain];
      const std::string pop = element.new_list ? AddList(chain, element) : graph_.node(chain.pop).name();
      copies.Bring(element.tensor, InputName(pop, 1));
    }
    for (size_t c = 0; c < cut.loop.chains.size(); ++c) {
      if (!cut.dropped[c]) continue;
      const absl::Status status = Reroute(cut.loop.chains[c], &copies);
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
  std::string NameFor(int original) { return nodes_.NameFor(came_.node(original).name()); }

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

  // A node that runs in each iteration of the gradient, whatever else does.
  const std::string& Pivot() {
    if (!pivot_.empty()) return pivot_;
    const NodeDef& counter = came_.node(counter_);
    return pivot_ = nodes_.Op(counter.name(), "Identity", counter.device(), {InputName(counter.name(), 1)},
                              {{"T", counter.attr().at("T").type()}});
  }

  // The same value in all iterations of the gradient, too.
  std::string HandIn(const TensorRef& tensor, const TensorRef& outside) {
    const NodeDef& node = came_.node(tensor.node);
    const LoopNodes::LoopFrame frame = LoopNodes::FrameOf(came_.node(cut_->loop.chains.front().back_enter), "");
    return nodes_.EnterConstant(node.name(), node.device(), InputName(came_.node(outside.node).name(), outside.port),
                                node.attr().at("T").type(), frame);
  }

  // What read an element of the list reads the value that is computed again.
  absl::Status Reroute(const ListChain& chain, BodyCopy* copies) {
    const TensorRef pushed = index_[chain.push].inputs[1];
    const std::string value = copies->ValueOf(pushed);
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

  // A shape that says nothing of itself. Returns its name.
  std::string AnyShape(int original, const std::string& device, const std::string& waits_for) {
    return nodes_.Scalar(came_.node(original).name(), device, -1, waits_for);
  }

  // An empty list for these elements, where that of the chain is made. Returns its name.
  std::string AddMaker(const ListChain& chain, const NewElement& element) {
    const NodeDef& like = came_.node(chain.maker);
    const std::string shape = AnyShape(index_[chain.maker].inputs[0].node, like.device(), like.name());
    NodeDef maker = like;
    maker.set_name(NameFor(chain.maker));
    maker.set_input(0, shape);
    (*maker.mutable_attr())["element_dtype"].set_type(element.dtype);
    return nodes_.Add(std::move(maker));
  }

  // The shape that an element is asked to have when it is popped. Returns its name.
  std::string AddPoppedShape(const ListChain& chain) {
    return AnyShape(index_[chain.pop].inputs[1].node, came_.node(chain.pop).device(), Pivot());
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
    nodes_.Add(std::move(copy));
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
    for (const int node : {chain.push, chain.pop}) MakeNoOp(graph_.mutable_node(node));
  }

  const tensorflow::GraphDef& came_;
  const GraphIndex& index_;
  const Loops loops_;
  tensorflow::GraphDef& graph_;
  LoopNodes nodes_;
  // Of the loop at hand:
  const LoopCut* cut_ = nullptr;
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
