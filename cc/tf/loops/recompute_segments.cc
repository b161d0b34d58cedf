#include "cc/tf/loops/recompute_segments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/tf/graph/loop_variables.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/loops/body_copy.h"
#include "cc/tf/loops/loop_nodes.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {
namespace {

using tensorflow::DT_INT32;
using tensorflow::DT_VARIANT;
using tensorflow::NodeDef;

// One loop. Adds nodes behind those of the graph as it came, which keep their places.
class SegmentRewriter {
 public:
  SegmentRewriter(const LoopSegments& segments, const tensorflow::GraphDef& came, const GraphIndex& index,
                  const Loops& loops, tensorflow::GraphDef* graph)
      : segments_(segments),
        came_(came),
        index_(index),
        loops_(loops),
        graph_(*graph),
        nodes_(graph),
        first_(segments.loop.chains.front()),
        device_(came.node(first_.push).device()),
        small_(Small()),
        forward_(FrameOf(first_.enter, segments.loop.forward)),
        backward_(FrameOf(first_.back_enter, segments.loop.backward)) {}

  absl::Status Run() {
    if (small_.empty()) return absl::InternalError("a loop without a counter");
    MakeConstants();
    ChangeForward();
    CountDown();
    BeginWithin();
    BodyCopy copies(came_, index_, loops_, segments_.runs_again,
                    {[this](const TensorRef& tensor, const TensorRef& outside) { return HandIn(tensor, outside); },
                     [this] { return Pivot(); }},
                    &nodes_);
    for (const int counter : segments_.counters) copies.Bring({counter, 1}, within_counter_.now());
    for (size_t s = 0; s < segments_.states.size(); ++s) {
      copies.Bring(segments_.states[s].variable.now(), within_states_[s].now());
    }
    for (size_t i = 0; i < segments_.indexed.size(); ++i) copies.Bring(segments_.indexed[i].tensor, ByIndex(i));
    for (const ListChain& chain : segments_.loop.chains) {
      const std::string pushed = copies.ValueOf(index_[chain.push].inputs[1]);
      if (pushed.empty()) return CannotBeComputed(index_[chain.push].inputs[1]);
      FillWithin(chain, pushed);
    }
    for (size_t s = 0; s < segments_.states.size(); ++s) {
      const LoopVariable& variable = segments_.states[s].variable;
      const std::string next = copies.ValueOf(variable.next);
      if (next.empty()) return CannotBeComputed(variable.next);
      nodes_.EndVariable(within_states_[s], device_, next, segments_.states[s].dtype);
    }
    return absl::OkStatus();
  }

 private:
  const std::string& NameOf(int node) const { return came_.node(node).name(); }

  absl::Status CannotBeComputed(const TensorRef& tensor) const {
    return absl::InternalError(NameOf(tensor.node) + " cannot be computed in the gradient of its loop");
  }

  LoopNodes::LoopFrame FrameOf(int enter, int frame) const {
    return LoopNodes::FrameOf(came_.node(enter), NameOf(index_.frame(frame).loop_cond));
  }

  // The Switch of a counter, which the small nodes are named after: they take as much as it does. "": there is none.
  std::string Small() const {
    for (const int frame : {segments_.loop.backward, segments_.loop.forward}) {
      for (const int node : loops_.NodesIn(frame)) {
        LoopVariable variable;
        if (index_[node].frame == frame && ReadLoopVariable(came_, index_, loops_, node, &variable) &&
            CountsIterations(came_, index_, loops_, variable, DT_INT32)) {
          return NameOf(node);
        }
      }
    }
    return "";
  }

  std::string Whole(const char* op, const std::string& a, const std::string& b) {
    return nodes_.Op(small_, op, device_, {a, b}, {{"T", DT_INT32}});
  }

  // Numbers, where the lists enter the loop, and in both loops: those that something reads.
  void MakeConstants() {
    outside_ = NameOf(index_[first_.enter].inputs[0].node);
    const auto k = static_cast<int32_t>(segments_.length);
    zero_ = nodes_.Scalar(small_, device_, 0, outside_);
    const std::string one = nodes_.Scalar(small_, device_, 1, outside_);
    const std::string length = nodes_.Scalar(small_, device_, k, outside_);
    forward_one_ = nodes_.EnterConstant(small_, device_, one, DT_INT32, forward_);
    backward_one_ = nodes_.EnterConstant(small_, device_, one, DT_INT32, backward_);
    backward_length_ = nodes_.EnterConstant(small_, device_, length, DT_INT32, backward_);
    if (!segments_.states.empty()) {
      const std::string less = nodes_.Scalar(small_, device_, k - 1, outside_);
      kept_ = nodes_.Scalar(small_, device_, static_cast<int32_t>(segments_.states_kept), outside_);
      forward_length_ = nodes_.EnterConstant(small_, device_, length, DT_INT32, forward_);
      forward_less_ = nodes_.EnterConstant(small_, device_, less, DT_INT32, forward_);
    }
    if (!segments_.states.empty() || !segments_.indexed.empty()) {
      any_ = nodes_.Scalar(small_, device_, -1, outside_);
      backward_any_ = nodes_.EnterConstant(small_, device_, any_, DT_INT32, backward_);
    }
  }

  LoopNodes::Originals AllSmall() const { return {small_, small_, small_, small_}; }
  LoopNodes::Originals Like(const LoopVariable& variable) const {
    return {NameOf(variable.enter), NameOf(variable.merge), NameOf(variable.fork), NameOf(variable.end)};
  }
  LoopNodes::Originals LikeList() const {
    return {NameOf(first_.enter), NameOf(first_.merge), NameOf(first_.fork), NameOf(first_.next)};
  }

  std::string Exit(const std::string& original, const LoopNodes::Variable& variable, tensorflow::DataType type) {
    return nodes_.Op(original, "Exit", device_, {variable.fork}, {{"T", type}});
  }

  void ChangeForward() {
    const LoopNodes::Variable counter = nodes_.BeginVariable(AllSmall(), device_, zero_, DT_INT32, forward_);
    nodes_.EndVariable(counter, device_, Whole("AddV2", counter.now(), forward_one_), DT_INT32);
    trips_ = Exit(small_, counter, DT_INT32);
    if (!segments_.states.empty()) {
      const std::string place = Whole("FloorDiv", Whole("AddV2", counter.now(), forward_less_), forward_length_);
      for (const LoopSegments::State& state : segments_.states) KeepState(state, place);
    }
    for (const IndexedTensor& one : segments_.indexed) PushAll(one);
    for (const ListChain& chain : segments_.loop.chains) {
      // An empty list of its own: one that other lists begin with, too, would be taken for one with them.
      NodeDef maker = came_.node(chain.maker);
      maker.set_name(nodes_.NameFor(maker.name()));
      if (index_[chain.enter].inputs[0].node == chain.maker) {
        graph_.mutable_node(chain.enter)->set_input(0, nodes_.Add(std::move(maker)));
      }
      graph_.mutable_node(chain.next)->set_input(0, InputName(NameOf(chain.fork), 1));
      MakeNoOp(graph_.mutable_node(chain.push));
    }
  }

  void KeepState(const LoopSegments::State& state, const std::string& place) {
    const std::string list = nodes_.Op(NameOf(first_.maker), "TensorListReserve", device_, {any_, kept_},
                                       {{"element_dtype", state.dtype}, {"shape_type", DT_INT32}});
    const LoopNodes::Variable kept = nodes_.BeginVariable(LikeList(), device_, list, DT_VARIANT, forward_);
    const std::string set =
        nodes_.Op(NameOf(first_.push), "TensorListSetItem", device_,
                  {kept.now(), place, InputName(NameOf(state.variable.fork), 1)}, {{"element_dtype", state.dtype}});
    (*graph_.mutable_node(graph_.node_size() - 1)->mutable_attr())["resize_if_index_out_of_bounds"].set_b(true);
    nodes_.EndVariable(kept, device_, set, DT_VARIANT);
    kept_states_.push_back(Exit(NameOf(first_.exit), kept, DT_VARIANT));
  }

  void PushAll(const IndexedTensor& one) {
    const std::string list = nodes_.Op(NameOf(first_.maker), "EmptyTensorList", device_, {any_, any_},
                                       {{"element_dtype", one.dtype}, {"shape_type", DT_INT32}});
    const LoopNodes::Variable all = nodes_.BeginVariable(LikeList(), device_, list, DT_VARIANT, forward_);
    const std::string push =
        nodes_.Op(NameOf(first_.push), "TensorListPushBack", device_,
                  {all.now(), InputName(NameOf(one.tensor.node), one.tensor.port)}, {{"element_dtype", one.dtype}});
    nodes_.EndVariable(all, device_, push, DT_VARIANT);
    indexed_lists_.push_back(Exit(NameOf(first_.exit), all, DT_VARIANT));
  }

  // Does the loop begin with something of the region?
  bool EntersFrom(int frame, int region) const {
    const std::vector<int>& nodes = loops_.NodesIn(frame);
    return std::any_of(nodes.begin(), nodes.end(), [&](int node) {
      return IsEnter(came_.node(node)) && index_[node].frame == frame && !index_[node].inputs.empty() &&
             index_[index_[node].inputs[0].node].region == region;
    });
  }

  // Nothing is computed again before the gradient itself can begin: loops of other layers may have to run first.
  std::vector<std::string> WhatGradientBeginsWith() const {
    std::vector<std::string> controls;
    const int region = index_[index_[first_.enter].inputs[0].node].region;
    for (const int node : loops_.NodesIn(segments_.loop.backward)) {
      if (!IsEnter(came_.node(node)) || index_[node].frame != segments_.loop.backward) continue;
      if (index_[node].inputs.empty()) continue;
      const int input = index_[node].inputs[0].node;
      const bool after_a_loop = IsExit(came_.node(input)) && EntersFrom(index_[input].frame, region);
      if (index_[input].region != region && !after_a_loop) continue;
      if (came_.node(input).op() != "Const") controls.push_back("^" + NameOf(input));
    }
    std::sort(controls.begin(), controls.end());
    controls.erase(std::unique(controls.begin(), controls.end()), controls.end());
    return controls;
  }

  // The number of the iteration that the gradient's is of, from the last to the first.
  void CountDown() {
    left_ = nodes_.BeginVariable(AllSmall(), device_, trips_, DT_INT32, backward_, WhatGradientBeginsWith());
    now_ = Whole("Sub", left_.now(), backward_one_);
    nodes_.EndVariable(left_, device_, now_, DT_INT32);
  }

  // The same value in all iterations within. Frames wait for all that enters them, so it comes and goes with the rest.
  std::string EnterWithin(const std::string& original, const std::string& value, tensorflow::DataType type) {
    return nodes_.EnterConstant(original, device_, value, type, within_, {"^" + now_});
  }

  void BeginWithin() {
    within_.name = nodes_.NameFor(backward_.name);
    within_.parallel_iterations = 1;
    within_.cond = nodes_.NameFor(small_);
    const std::string segment = Whole("FloorDiv", now_, backward_length_);
    const std::string begin = Whole("Mul", segment, backward_length_);
    const std::string held = nodes_.Op(small_, "TensorListLength", device_, {InputName(NameOf(first_.back_fork), 1)});
    within_counter_ = nodes_.BeginVariable(AllSmall(), device_, Whole("AddV2", begin, held), DT_INT32, within_);
    const std::string end = EnterWithin(small_, left_.now(), DT_INT32);
    NodeDef cond;
    cond.set_name(within_.cond);
    cond.set_op("LoopCond");
    cond.set_device(device_);
    cond.add_input(Whole("Less", within_counter_.merge, end));
    (*cond.mutable_attr())[kMostTripsAttr].set_i(segments_.length);
    nodes_.Add(std::move(cond));
    const std::string one = EnterWithin(small_, backward_one_, DT_INT32);
    nodes_.EndVariable(within_counter_, device_, Whole("AddV2", within_counter_.now(), one), DT_INT32);
    for (size_t s = 0; s < segments_.states.size(); ++s) {
      const LoopSegments::State& state = segments_.states[s];
      const std::string list =
          nodes_.EnterConstant(NameOf(first_.enter), device_, kept_states_[s], DT_VARIANT, backward_);
      const std::string start = nodes_.Op(NameOf(state.variable.enter), "TensorListGetItem", device_,
                                          {list, segment, backward_any_}, {{"element_dtype", state.dtype}});
      within_states_.push_back(nodes_.BeginVariable(Like(state.variable), device_, start, state.dtype, within_));
    }
  }

  // In the loop within.
  std::string ByIndex(size_t i) {
    const IndexedTensor& one = segments_.indexed[i];
    const std::string list =
        nodes_.EnterConstant(NameOf(first_.enter), device_, indexed_lists_[i], DT_VARIANT, backward_);
    if (within_any_.empty()) within_any_ = EnterWithin(small_, backward_any_, DT_INT32);
    return nodes_.Op(NameOf(one.tensor.node), "TensorListGetItem", device_,
                     {EnterWithin(NameOf(first_.enter), list, DT_VARIANT), within_counter_.now(), within_any_},
                     {{"element_dtype", one.dtype}});
  }

  std::string HandIn(const TensorRef& tensor, const TensorRef& outside) {
    const NodeDef& node = came_.node(tensor.node);
    const tensorflow::DataType type = node.attr().at("T").type();
    const std::string there = nodes_.EnterConstant(node.name(), node.device(),
                                                   InputName(NameOf(outside.node), outside.port), type, backward_);
    return EnterWithin(node.name(), there, type);
  }

  std::string Pivot() {
    if (pivot_.empty()) pivot_ = nodes_.Op(small_, "Identity", device_, {within_counter_.now()}, {{"T", DT_INT32}});
    return pivot_;
  }

  // The gradient pops what the loop within has pushed.
  void FillWithin(const ListChain& chain, const std::string& pushed) {
    const tensorflow::DataType type = came_.node(chain.push).attr().at("element_dtype").type();
    const LoopNodes::Originals like{NameOf(chain.back_enter), NameOf(chain.back_merge), NameOf(chain.back_fork),
                                    NameOf(chain.back_next)};
    const LoopNodes::Variable list =
        nodes_.BeginVariable(like, device_, InputName(NameOf(chain.back_fork), 1), DT_VARIANT, within_);
    const std::string push =
        nodes_.Op(NameOf(chain.push), "TensorListPushBack", device_, {list.now(), pushed}, {{"element_dtype", type}});
    nodes_.EndVariable(list, device_, push, DT_VARIANT);
    graph_.mutable_node(chain.pop)->set_input(0, Exit(NameOf(chain.exit), list, DT_VARIANT));
  }

  const LoopSegments& segments_;
  const tensorflow::GraphDef& came_;
  const GraphIndex& index_;
  const Loops& loops_;
  tensorflow::GraphDef& graph_;
  LoopNodes nodes_;
  const ListChain& first_;
  const std::string device_;
  const std::string small_;
  const LoopNodes::LoopFrame forward_;
  const LoopNodes::LoopFrame backward_;
  LoopNodes::LoopFrame within_;
  std::string outside_;
  std::string zero_;
  std::string any_;
  std::string kept_;
  std::string forward_one_;
  std::string forward_length_;
  std::string forward_less_;
  std::string backward_one_;
  std::string backward_length_;
  std::string backward_any_;
  std::string within_any_;
  std::string trips_;                     // of the forward loop, in all
  std::vector<std::string> kept_states_;  // lists
  std::vector<std::string> indexed_lists_;
  LoopNodes::Variable left_;  // iterations, in the gradient
  std::string now_;           // the iteration that it is at
  LoopNodes::Variable within_counter_;
  std::vector<LoopNodes::Variable> within_states_;
  std::string pivot_;
};

}  // namespace

absl::Status RecomputeSegments(const std::vector<LoopSegments>& loops, const GraphIndex& index,
                               tensorflow::GraphDef* graph) {
  const tensorflow::GraphDef came = *graph;
  const Loops of_graph(came, index);
  for (const LoopSegments& segments : loops) {
    const absl::Status status = SegmentRewriter(segments, came, index, of_graph, graph).Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace lms
