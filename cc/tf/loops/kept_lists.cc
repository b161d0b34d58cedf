#include "cc/tf/loops/kept_lists.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cc/core/search/keep_cut.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/stock/layout_fusions.h"
#include "cc/tf/stock/sum_holders.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

constexpr int kMostCuts = 12;
// Of a loop that goes round nobody knows how often.
constexpr int64_t kSomeTrips = 32;

using Key = std::pair<int, int>;  // node, port

Key KeyOf(const TensorRef& tensor) { return {tensor.node, tensor.port}; }

// Ops that hand their gradients notes beside their results, in a way that the graph does not show: oneDNN's kernels of
// these do where the gradient reads the result itself, and not where it comes out of a list.
bool HandsNotes(std::string_view op) {
  return op == "MaxPool" || op == "MaxPool3D" || op == "AvgPool" || op == "AvgPool3D" || op == "LRN" ||
         op.rfind("FusedBatchNorm", 0) == 0 || op.rfind("_FusedBatchNorm", 0) == 0;
}

class ListPlanner {
 public:
  ListPlanner(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index, const TensorSizes& sizes,
              const std::vector<NodeTypes>& types, const std::string& device, const Deadline& deadline)
      : graph_(item.graph),
        index_(index),
        sizes_(sizes),
        types_(types),
        device_(device),
        pace_(deadline),
        loops_(item.graph, index),
        lists_(item.graph, index, sizes, loops_),
        on_way_to_sums_(OnWayToSums(item.graph, index)) {}

  std::vector<ListCut> Cuts() {
    std::vector<GradientLoop> loops = FindGradientLoops(graph_, index_, loops_);
    std::set<int> gradients;
    for (const GradientLoop& loop : loops) gradients.insert(loop.backward);
    for (GradientLoop& loop : loops) {
      // What a gradient of a gradient is handed may itself be taken out of a list.
      if (gradients.count(loop.forward) != 0) continue;
      const auto elsewhere = [this](const ListChain& chain) { return graph_.node(chain.push).device() != device_; };
      loop.chains.erase(std::remove_if(loop.chains.begin(), loop.chains.end(), elsewhere), loop.chains.end());
      if (!loop.chains.empty() && !SumsMayTakeOver(loop)) AddLoop(std::move(loop));
    }
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
    int64_t trips;
    std::map<Key, int> tensors;              // of the problem
    std::unordered_map<int, int> ops;        // likewise, by node
    std::map<Key, std::vector<int>> pushed;  // chains, by what they push
  };

  // May a sum, inside or outside of the loops, take over storage that lists hold, or that copies would hold longer? Its
  // last bits depend on that.
  bool SumsMayTakeOver(const GradientLoop& loop) const {
    const auto has_sum = [this](int node) {
      return index_[node].live && OrderDependsOnHolders(graph_.node(node).op(), index_[node].inputs.size());
    };
    const std::vector<int>& body = loops_.NodesIn(loop.forward);
    if (std::any_of(body.begin(), body.end(), has_sum)) return true;
    // What enters the loop or leaves it: the state, and what does not change.
    for (const int node : body) {
      if (IsExit(graph_.node(node)) && on_way_to_sums_[node]) return true;
      if (!IsEnter(graph_.node(node)) || index_[node].inputs.empty()) continue;
      if (on_way_to_sums_[index_[node].inputs[0].node]) return true;
    }
    return std::any_of(loop.chains.begin(), loop.chains.end(),
                       [this](const ListChain& chain) { return on_way_to_sums_[chain.pop]; });
  }

  tensorflow::DataType TypeOf(const TensorRef& tensor) const {
    const tensorflow::DataTypeVector& outputs = types_[tensor.node].outputs;
    return tensor.port < static_cast<int>(outputs.size()) ? outputs[tensor.port] : tensorflow::DT_INVALID;
  }

  // May the op run again in the gradient's body?
  bool MayRunAgain(int node, const GradientLoop& loop) {
    const tensorflow::NodeDef& def = graph_.node(node);
    if (index_[node].region != loop.forward_region || def.device() != device_ || index_.Preserved(node)) return false;
    if (IsControlFlow(def.op()) || HandsNotes(def.op()) ||
        OrderDependsOnHolders(def.op(), index_[node].inputs.size())) {
      return false;
    }
    if (may_be_fused_.empty()) may_be_fused_ = MayBeFused(graph_, index_, tensorflow::IsMKLEnabled());
    // A padding whose result is no longer pushed might be joined with its only reader.
    if (may_be_fused_[node]) return false;
    const NodeTypes& types = types_[node];
    const auto plain = [](tensorflow::DataType type) { return IsPlain(type); };
    if (!std::all_of(types.outputs.begin(), types.outputs.end(), plain)) return false;
    return def.op() == "Const" || WhyNotRecomputable(def).empty();
  }

  // May a list bring the tensor, beside those that do as the graph comes?
  bool MayBePushed(const TensorRef& tensor, const GradientLoop& loop) const {
    const tensorflow::NodeDef& def = graph_.node(tensor.node);
    const bool state = def.op() == "Switch" && tensor.port == 1 && index_[tensor.node].frame == loop.forward;
    const tensorflow::DataType type = TypeOf(tensor);
    // Elsewhere small whole numbers lie in the host's memory.
    const bool carried = tensorflow::DataTypeIsFloating(type) || (DeviceType(device_) == "CPU" && IsPlain(type));
    return carried && def.device() == device_ &&
           (state || (index_[tensor.node].region == loop.forward_region && !IsControlFlow(def.op())));
  }

  double BytesOf(const TensorRef& tensor, const Part& part) const {
    const std::vector<TensorSize>& outputs = sizes_.Of(graph_.node(tensor.node).name()).outputs;
    const bool own = lists_.MadeInIteration(tensor);
    if (!own || tensor.port >= static_cast<int>(outputs.size())) return 0;
    return static_cast<double>(outputs[tensor.port].bytes) * static_cast<double>(part.trips);
  }

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
    const tensorflow::DataType type = TypeOf(tensor);
    const TensorRef outside = OutsideOf(graph_, index_, loops_, tensor);
    // Handles of variables would be read at another time.
    if (outside.node >= 0 && (IsPlain(type) || lists_.ListOf(tensor.node) >= 0) && !pushed) {
      invariant_.insert(id);
      return;  // it takes no bytes
    }
    KeepProblem::Tensor& described = problem_.tensors[id];
    described.bytes = BytesOf(tensor, *part);
    described.keepable = pushed || (MayBePushed(tensor, part->loop) && graph_.node(tensor.node).op() != "Const");
    if (!MayRunAgain(tensor.node, part->loop)) return;
    const auto [op, is_new] = part->ops.emplace(tensor.node, static_cast<int>(problem_.ops.size()));
    described.producer = op->second;
    if (!is_new) return;
    problem_.ops.emplace_back();
    problem_.ops.back().cost_us = sizes_.Of(graph_.node(tensor.node).name()).cost_us * static_cast<double>(part->trips);
    for (const TensorRef& input : index_[tensor.node].inputs) {
      const int input_id = AddTensor(input, part, pending);
      problem_.ops[op->second].inputs.push_back(input_id);
    }
  }

  void AddLoop(GradientLoop loop) {
    Part part;
    const int64_t trips = lists_.Trips(loop.forward);
    part.trips = trips > 0 ? trips : kSomeTrips;
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
    loop_cut->trips = lists_.Trips(part.loop.forward) > 0 ? part.trips : 0;
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
      loop_cut->new_elements.push_back({chain, new_list, tensor, TypeOf(tensor)});
      if (!new_list) free_chains.pop_back();
      saved -= problem_.tensors[id].bytes;
    }
    for (const auto& [node, op] : part.ops) {
      if (!cut.recomputed[op]) continue;
      loop_cut->runs_again[node] = true;
      list_cut->cost_us += problem_.ops[op].cost_us;
    }
    if (lists_.Trips(part.loop.forward) > 0) list_cut->bytes += static_cast<int64_t>(saved);
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
  const TensorSizes& sizes_;
  const std::vector<NodeTypes>& types_;
  const std::string& device_;
  Pace pace_;
  const Loops loops_;
  const TensorLists lists_;
  const std::vector<bool> on_way_to_sums_;
  std::vector<bool> may_be_fused_;
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
