#include "cc/tf/loops/segments.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/loops/body_ops.h"

namespace lms {
namespace {

// What the gradient's body can be handed of one tensor of the forward body.
enum class Way {
  kSame,     // in all iterations
  kCounter,  // the number of the iteration
  kState,
  kAgain,  // its op runs again
  kIndexed,
  kNone,
};

class SegmentFinder {
 public:
  SegmentFinder(const tensorflow::GraphDef& graph, const GraphIndex& index, BodyOps* body, const GradientLoop& loop,
                Pace* pace)
      : graph_(graph), index_(index), body_(*body), loop_(loop), pace_(*pace) {}

  // False where there is nothing to gain.
  bool Find(LoopSegments* found) {
    for (const ListChain& chain : loop_.chains) {
      const TensorRef& pushed = index_[chain.push].inputs[1];
      if (body_.BytesOf(pushed) > 0) Explore(pushed);
    }
    GiveUpWhatLeadsNowhere();
    found->loop = loop_;
    found->loop.chains.clear();
    found->trips = body_.Trips(loop_.forward);
    found->runs_again.assign(graph_.node_size(), false);
    std::set<TensorKey> pushed_again;
    std::set<TensorKey> counted;  // what a tensor is in one iteration another one may be in the next
    double elements = 0;
    for (const ListChain& chain : loop_.chains) {
      const TensorRef& pushed = index_[chain.push].inputs[1];
      const auto way = ways_.find(KeyOf(pushed));
      if (way == ways_.end() || (way->second != Way::kState && way->second != Way::kAgain)) {
        stay_.insert(KeyOf(body_.StorageOf(pushed)));
        continue;
      }
      found->loop.chains.push_back(chain);
      pushed_again.insert(KeyOf(pushed));
    }
    if (found->loop.chains.empty()) return false;
    Collect(pushed_again, found);
    for (const TensorKey& key : pushed_again) {
      const TensorRef pushed{key.first, key.second};
      const TensorKey storage = KeyOf(body_.StorageOf(pushed));
      if (stay_.count(storage) == 0 && counted.insert(storage).second) elements += body_.BytesOf(pushed);
    }
    double states = 0;
    for (const LoopSegments::State& state : found->states) states += body_.BytesOf(state.variable.now());
    double indexed = 0;
    for (const IndexedTensor& one : found->indexed) {
      if (stay_.insert(KeyOf(body_.StorageOf(one.tensor))).second) indexed += body_.BytesOf(one.tensor);
    }
    ChooseLength(states, elements, found);
    const auto trips = static_cast<double>(found->trips);
    const double saved = trips * (elements - indexed) - Held(*found, states, elements, found->length);
    if (saved <= 0) return false;
    found->bytes = static_cast<int64_t>(saved);
    double once = 0;
    for (int node = 0; node < index_.size(); ++node) {
      if (found->runs_again[node]) once += body_.CostOf(node);
    }
    // The state after the last iteration of a segment is made as well.
    found->cost_us = once * (trips + static_cast<double>(Segments(*found, found->length)));
    return true;
  }

 private:
  static int64_t Segments(const LoopSegments& found, int64_t length) { return (found.trips + length - 1) / length; }

  // The last state that is stored takes a place of its own where it begins no segment.
  static int64_t Kept(const LoopSegments& found, int64_t length) { return (found.trips - 1 + length - 1) / length + 1; }

  static double Held(const LoopSegments& found, double states, double elements, int64_t length) {
    return static_cast<double>(Kept(found, length)) * states + static_cast<double>(length) * elements;
  }

  static void ChooseLength(double states, double elements, LoopSegments* found) {
    const double best = elements > 0 ? std::sqrt(static_cast<double>(found->trips) * states / elements) : 1;
    found->length = 1;
    double least = Held(*found, states, elements, 1);
    const auto around = static_cast<int64_t>(best);
    for (int64_t length = std::max<int64_t>(1, around - 2); length <= std::min(found->trips, around + 3); ++length) {
      const double held = Held(*found, states, elements, length);
      if (held < least) {
        least = held;
        found->length = length;
      }
    }
    found->states_kept = Kept(*found, found->length);
  }

  // Finds the ways of the tensor and of all that it needs.
  void Explore(const TensorRef& wanted) {
    std::vector<TensorRef> pending{wanted};
    while (!pending.empty()) {
      const TensorRef tensor = pending.back();
      pending.pop_back();
      if (!ways_.emplace(KeyOf(tensor), Way::kNone).second) continue;
      pace_.Step(10);
      ways_[KeyOf(tensor)] = WayOf(tensor);
      for (const TensorRef& needed : NeededBy(tensor)) pending.push_back(needed);
    }
  }

  Way WayOf(const TensorRef& tensor) {
    if (body_.SameInAll(tensor).node >= 0) return Way::kSame;
    LoopVariable variable;
    if (tensor.port == 1 && index_[tensor.node].frame == loop_.forward &&
        ReadLoopVariable(graph_, index_, body_.loops(), tensor.node, &variable)) {
      variables_[tensor.node] = variable;
      if (CountsIterations(graph_, index_, body_.loops(), variable, tensorflow::DT_INT32)) return Way::kCounter;
      return body_.MayBePushed(tensor, loop_) ? Way::kState : Way::kNone;
    }
    return body_.MayRunAgain(tensor.node, loop_) ? Way::kAgain : IndexedIfPossible(tensor);
  }

  Way IndexedIfPossible(const TensorRef& tensor) const {
    return body_.MayBePushed(tensor, loop_) ? Way::kIndexed : Way::kNone;
  }

  std::vector<TensorRef> NeededBy(const TensorRef& tensor) const {
    switch (ways_.at(KeyOf(tensor))) {
      case Way::kAgain:
        return index_[tensor.node].inputs;
      case Way::kState:
        return {variables_.at(tensor.node).next};
      default:
        return {};
    }
  }

  // What needs something that cannot be there is brought by the number of its iteration instead, or cannot be there
  // either.
  void GiveUpWhatLeadsNowhere() {
    std::map<TensorKey, std::vector<TensorKey>> needed_by;
    std::vector<TensorKey> lost;
    for (const auto& [key, way] : ways_) {
      pace_.Step(1);
      if (way == Way::kNone) lost.push_back(key);
      for (const TensorRef& needed : NeededBy({key.first, key.second})) needed_by[KeyOf(needed)].push_back(key);
    }
    while (!lost.empty()) {
      const TensorKey gone = lost.back();
      lost.pop_back();
      for (const TensorKey& key : needed_by[gone]) {
        pace_.Step(1);
        Way& way = ways_.at(key);
        if (way != Way::kAgain && way != Way::kState) continue;  // given up already
        way = IndexedIfPossible({key.first, key.second});
        if (way == Way::kNone) lost.push_back(key);
      }
    }
  }

  // What is needed of the tensors that are pushed again.
  void Collect(const std::set<TensorKey>& wanted, LoopSegments* found) {
    std::vector<TensorKey> pending(wanted.begin(), wanted.end());
    std::set<TensorKey> seen(wanted);
    while (!pending.empty()) {
      const TensorRef tensor{pending.back().first, pending.back().second};
      pending.pop_back();
      switch (ways_.at(KeyOf(tensor))) {
        case Way::kState:
          found->states.push_back({variables_.at(tensor.node), body_.TypeOf(tensor)});
          break;
        case Way::kCounter:
          found->counters.push_back(tensor.node);
          break;
        case Way::kAgain:
          found->runs_again[tensor.node] = true;
          break;
        case Way::kIndexed:
          found->indexed.push_back({tensor, body_.TypeOf(tensor)});
          break;
        default:
          break;
      }
      for (const TensorRef& needed : NeededBy(tensor)) {
        if (seen.insert(KeyOf(needed)).second) pending.push_back(KeyOf(needed));
      }
    }
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  BodyOps& body_;
  const GradientLoop& loop_;
  Pace& pace_;
  std::map<TensorKey, Way> ways_;
  std::map<int, LoopVariable> variables_;  // by the Switch
  std::set<TensorKey> stay_;               // storage that lists hold of every iteration, whatever becomes of others
};

}  // namespace

std::vector<LoopSegments> FindLoopSegments(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                           const TensorSizes& sizes, const std::vector<NodeTypes>& types,
                                           const std::string& device, const Deadline& deadline) {
  BodyOps body(graph, index, sizes, types, device);
  Pace pace(deadline);
  std::vector<LoopSegments> found;
  for (const GradientLoop& loop : body.LoopsToChange()) {
    if (body.Trips(loop.forward) < 2) continue;
    LoopSegments segments;
    if (SegmentFinder(graph, index, &body, loop, &pace).Find(&segments)) found.push_back(std::move(segments));
  }
  return found;
}

}  // namespace lms
