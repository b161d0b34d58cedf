#include "cc/tf/loops/kept_lists.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "cc/core/search/keep_cut.h"
#include "cc/tf/loops/body_ops.h"

namespace lms {
namespace {

constexpr int kMostCuts = 12;
// Of a loop that goes round nobody knows how often.
constexpr int64_t kSomeTrips = 32;

class ListPlanner {
 public:
  ListPlanner(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index, const TensorSizes& sizes,
              const std::vector<NodeTypes>& types, const std::string& device, const Deadline& deadline)
      : graph_(item.graph), index_(index), pace_(deadline), body_(item.graph, index, sizes, types, device) {}

  std::vector<ListCut> Cuts() {
    for (GradientLoop& loop : body_.LoopsToChange()) AddLoop(std::move(loop));
    if (parts_.empty()) return {};
    const std::vector<KeepCut> cuts = KeepCuts(problem_, kMostCuts);
    std::vector<ListCut> found;
    for (const KeepCut& cut : cuts) {
      ListCut list_cut = CutOf(cut);
      if (!list_cut.loops.empty() && list_cut.bytes > 0) found.push_back(std::move(list_cut));
    }
    return found;
  }

 private:
  // One loop's part of the problem.
  struct Part {
    GradientLoop loop;
    int64_t known_trips;  // 0: not known
    int64_t trips;
    std::map<TensorKey, int> tensors;              // of the problem
    std::unordered_map<int, int> ops;              // likewise, by node
    std::map<TensorKey, std::vector<int>> pushed;  // chains, by what they push
  };

  int AddTensor(const TensorRef& tensor, Part* part, std::vector<TensorRef>* pending) {
    const auto [found, is_new] = part->tensors.emplace(KeyOf(tensor), static_cast<int>(problem_.tensors.size()));
    if (!is_new) return found->second;
    problem_.tensors.emplace_back();
    pending->push_back(tensor);
    return found->second;
  }

  void Describe(const TensorRef& tensor, Part* part, std::vector<TensorRef>* pending) {
    pace_.Step(10);
    const int id = part->tensors.at(KeyOf(tensor));
    const bool pushed = part->pushed.count(KeyOf(tensor)) != 0;
    if (!pushed && body_.SameInAll(tensor).node >= 0) {
      invariant_.insert(id);
      return;  // it takes no bytes
    }
    KeepProblem::Tensor& described = problem_.tensors[id];
    described.bytes = body_.BytesOf(tensor) * static_cast<double>(part->trips);
    described.keepable = pushed || (body_.MayBePushed(tensor, part->loop) && graph_.node(tensor.node).op() != "Const");
    if (!body_.MayRunAgain(tensor.node, part->loop)) return;
    const auto [op, is_new] = part->ops.emplace(tensor.node, static_cast<int>(problem_.ops.size()));
    described.producer = op->second;
    if (!is_new) return;
    problem_.ops.emplace_back();
    problem_.ops.back().cost_us = body_.CostOf(tensor.node) * static_cast<double>(part->trips);
    for (const TensorRef& input : index_[tensor.node].inputs) {
      const int input_id = AddTensor(input, part, pending);
      problem_.ops[op->second].inputs.push_back(input_id);
    }
  }

  void AddLoop(GradientLoop loop) {
    Part part;
    part.known_trips = body_.Trips(loop.forward);
    part.trips = part.known_trips > 0 ? part.known_trips : kSomeTrips;
    part.loop = std::move(loop);
    std::vector<TensorRef> pending;
    for (size_t c = 0; c < part.loop.chains.size(); ++c) {
      part.pushed[KeyOf(index_[part.loop.chains[c].push].inputs[1])].push_back(static_cast<int>(c));
    }
    for (const ListChain& chain : part.loop.chains) {
      const TensorRef& pushed = index_[chain.push].inputs[1];
      problem_.wanted.push_back(AddTensor(pushed, &part, &pending));
    }
    while (!pending.empty()) {
      const TensorRef tensor = pending.back();
      pending.pop_back();
      Describe(tensor, &part, &pending);
    }
    parts_.push_back(std::move(part));
  }

  // Is the list made right before it enters the loop? Then another one can be made there.
  bool MadeThere(const ListChain& chain) const { return index_[chain.enter].inputs[0].node == chain.maker; }

  // Of one loop: false where nothing of it is dropped, or what copies need cannot be handed on.
  bool CutLoop(const KeepCut& cut, const Part& part, LoopCut* loop_cut, ListCut* list_cut) const {
    loop_cut->loop = part.loop;
    loop_cut->trips = part.known_trips;
    loop_cut->dropped.assign(part.loop.chains.size(), false);
    loop_cut->runs_again.assign(graph_.node_size(), false);
    std::vector<int> free_chains;
    double saved = 0;
    for (const auto& [key, chains] : part.pushed) {
      const int id = part.tensors.at(key);
      if (cut.kept[id]) continue;
      saved += problem_.tensors[id].bytes;
      for (const int chain : chains) {
        loop_cut->dropped[chain] = true;
        if (MadeThere(part.loop.chains[chain])) free_chains.push_back(chain);
      }
    }
    if (std::count(loop_cut->dropped.begin(), loop_cut->dropped.end(), true) == 0) return false;
    const auto like = std::find_if(part.loop.chains.begin(), part.loop.chains.end(),
                                   [this](const ListChain& chain) { return MadeThere(chain); });
    for (const auto& [key, id] : part.tensors) {
      if (!cut.kept[id] || part.pushed.count(key) != 0 || invariant_.count(id) != 0) continue;
      if (like == part.loop.chains.end()) return false;
      const TensorRef tensor{key.first, key.second};
      const bool new_list = free_chains.empty();
      const int chain = new_list ? static_cast<int>(like - part.loop.chains.begin()) : free_chains.back();
      loop_cut->new_elements.push_back({chain, new_list, tensor, body_.TypeOf(tensor)});
      if (!new_list) free_chains.pop_back();
      saved -= problem_.tensors[id].bytes;
    }
    for (const auto& [node, op] : part.ops) {
      if (!cut.recomputed[op]) continue;
      loop_cut->runs_again[node] = true;
      list_cut->cost_us += problem_.ops[op].cost_us;
    }
    if (part.known_trips > 0) list_cut->bytes += static_cast<int64_t>(saved);
    return true;
  }

  ListCut CutOf(const KeepCut& cut) const {
    ListCut list_cut;
    for (const Part& part : parts_) {
      LoopCut loop_cut;
      if (CutLoop(cut, part, &loop_cut, &list_cut)) list_cut.loops.push_back(std::move(loop_cut));
    }
    return list_cut;
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  Pace pace_;
  BodyOps body_;
  KeepProblem problem_;
  std::set<int> invariant_;  // tensors of the problem
  std::vector<Part> parts_;
};

}  // namespace

std::vector<ListCut> FindListCuts(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                                  const TensorSizes& sizes, const std::vector<NodeTypes>& types,
                                  const std::string& device, const Deadline& deadline) {
  return ListPlanner(item, index, sizes, types, device, deadline).Cuts();
}

}  // namespace lms
