#include "cc/tf/loops/list_chains.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cc/tf/graph/loop_variables.h"
#include "cc/tf/graph/op_traits.h"

namespace lms {
namespace {

constexpr int kMostLoopsAround = 16;  // of loops around

class ChainFinder {
 public:
  ChainFinder(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops)
      : graph_(graph), index_(index), loops_(loops) {}

  std::optional<ListChain> ChainOf(int pop) const {
    ListChain chain;
    chain.pop = pop;
    chain.back_fork = Input(pop, 0, 1);
    chain.back_merge = Is(chain.back_fork, "Switch") ? Input(chain.back_fork, 0, 0) : -1;
    if (!Variable(chain.back_merge, &chain.back_enter, &chain.back_next)) return std::nullopt;
    if (Input(chain.back_next, 0, 0) != pop) return std::nullopt;
    chain.exit = Input(chain.back_enter, 0, 0);
    chain.fork = chain.exit >= 0 && IsExit(graph_.node(chain.exit)) ? Input(chain.exit, 0, 0) : -1;
    chain.merge = Is(chain.fork, "Switch") ? Input(chain.fork, 0, 0) : -1;
    if (!Variable(chain.merge, &chain.enter, &chain.next)) return std::nullopt;
    chain.push = Input(chain.next, 0, 0);
    if (!Is(chain.push, "TensorListPushBack") || Input(chain.push, 0, 1) != chain.fork) return std::nullopt;
    chain.maker = MakerOf(index_[chain.enter].inputs[0]);
    if (!Is(chain.maker, "EmptyTensorList") || !ServesNothingElse(chain) || !RunsInEveryIteration(chain)) {
      return std::nullopt;
    }
    return chain;
  }

 private:
  bool Is(int node, const char* op) const { return node >= 0 && graph_.node(node).op() == op; }

  // The node whose output `port` the input is; -1 where it is another output.
  int Input(int node, size_t input, int port) const {
    if (node < 0 || index_[node].inputs.size() <= input) return -1;
    const TensorRef& tensor = index_[node].inputs[input];
    return tensor.port == port ? tensor.node : -1;
  }

  // A loop's variable: the two that its Merge reads.
  bool Variable(int merge, int* enter, int* next) const {
    if (!Is(merge, "Merge") || index_[merge].inputs.size() != 2) return false;
    *enter = Input(merge, 0, 0);
    *next = Input(merge, 1, 0);
    if (*enter >= 0 && *next >= 0 && IsNextIteration(graph_.node(*enter))) std::swap(*enter, *next);
    return *enter >= 0 && *next >= 0 && IsEnter(graph_.node(*enter)) && IsNextIteration(graph_.node(*next)) &&
           !index_[*enter].inputs.empty();
  }

  int MakerOf(TensorRef tensor) const {
    for (int depth = 0; depth < kMostLoopsAround; ++depth) {
      const TensorRef outside = OutsideOf(graph_, index_, loops_, tensor);
      if (outside.node < 0) return tensor.node;
      tensor = outside;
    }
    return -1;
  }

  // Are all readers of the node that reader alone, as data? Those that wait for it count, too.
  bool OnlyReader(int node, int reader) const {
    const std::vector<int>& controls = index_[reader].controls;
    if (index_.Preserved(node) || std::find(controls.begin(), controls.end(), node) != controls.end()) return false;
    const std::vector<int>& readers = index_[node].readers;
    return std::all_of(readers.begin(), readers.end(), [reader](int other) { return other == reader; });
  }

  // As data: others may wait for the node.
  bool OnlyReads(const TensorRef& tensor, int reader) const {
    if (index_.Preserved(tensor.node)) return false;
    for (const int other : index_[tensor.node].readers) {
      const std::vector<TensorRef>& inputs = index_[other].inputs;
      const auto times = std::count(inputs.begin(), inputs.end(), tensor);
      if (times > (other == reader ? 1 : 0)) return false;
    }
    return true;
  }

  // Where nobody reads what is left of the list in the end.
  bool LeftAlone(int back_fork) const {
    for (const int reader : index_[back_fork].readers) {
      const std::vector<TensorRef>& inputs = index_[reader].inputs;
      if (std::find(inputs.begin(), inputs.end(), TensorRef{back_fork, 0}) == inputs.end()) continue;
      if (!IsExit(graph_.node(reader)) || index_.Preserved(reader)) return false;
      for (const int beyond : index_[reader].readers) {
        const std::vector<TensorRef>& reads = index_[beyond].inputs;
        if (std::find(reads.begin(), reads.end(), TensorRef{reader, 0}) != reads.end()) return false;
      }
    }
    return true;
  }

  bool PopServesNothingElse(const ListChain& chain) const {
    if (index_.Preserved(chain.pop) || !OnlyReads({chain.pop, 0}, chain.back_next)) return false;
    return std::none_of(index_[chain.pop].readers.begin(), index_[chain.pop].readers.end(), [&](int reader) {
      const std::vector<int>& controls = index_[reader].controls;
      return std::find(controls.begin(), controls.end(), chain.pop) != controls.end();
    });
  }

  bool ServesNothingElse(const ListChain& chain) const {
    return OnlyReads({chain.enter, 0}, chain.merge) && OnlyReads({chain.merge, 0}, chain.fork) &&
           OnlyReads({chain.fork, 0}, chain.exit) && OnlyReads({chain.fork, 1}, chain.push) &&
           OnlyReader(chain.push, chain.next) && OnlyReads({chain.next, 0}, chain.merge) &&
           OnlyReads({chain.exit, 0}, chain.back_enter) && OnlyReads({chain.back_enter, 0}, chain.back_merge) &&
           OnlyReads({chain.back_merge, 0}, chain.back_fork) && OnlyReads({chain.back_fork, 1}, chain.pop) &&
           LeftAlone(chain.back_fork) && PopServesNothingElse(chain) &&
           OnlyReads({chain.back_next, 0}, chain.back_merge);
  }

  // In the body itself: in no branch, and in no loop within.
  bool InBody(int node, int next) const {
    return index_[node].live && index_[node].frame == index_[next].frame && index_[node].region >= 0 &&
           index_[node].region == index_[next].region && loops_.MayBePlanned(index_[node].region);
  }

  bool RunsInEveryIteration(const ListChain& chain) const {
    const int forward = index_[chain.push].frame;
    const int backward = index_[chain.pop].frame;
    return forward > 0 && backward > 0 && forward != backward && index_[chain.enter].frame == forward &&
           index_[chain.back_enter].frame == backward &&
           index_.frame(forward).parent == index_.frame(backward).parent && InBody(chain.push, chain.next) &&
           InBody(chain.pop, chain.back_next) && graph_.node(chain.push).device() == graph_.node(chain.pop).device();
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const Loops& loops_;
};

}  // namespace

std::vector<GradientLoop> FindGradientLoops(const tensorflow::GraphDef& graph, const GraphIndex& index,
                                            const Loops& loops) {
  std::map<std::pair<int, int>, GradientLoop> found;  // by the regions
  const ChainFinder finder(graph, index, loops);
  for (int node = 0; node < index.size(); ++node) {
    if (graph.node(node).op() != "TensorListPopBack" || !index[node].live) continue;
    const std::optional<ListChain> chain = finder.ChainOf(node);
    if (!chain) continue;
    const std::pair<int, int> regions{index[chain->push].region, index[node].region};
    GradientLoop& loop = found[regions];
    loop.forward = index[chain->push].frame;
    loop.backward = index[node].frame;
    loop.forward_region = regions.first;
    loop.backward_region = regions.second;
    loop.chains.push_back(*chain);
  }
  std::vector<GradientLoop> list;
  for (auto& [regions, loop] : found) list.push_back(std::move(loop));
  return list;
}

}  // namespace lms
