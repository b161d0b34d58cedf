#include "cc/tf/graph/loop_variables.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/small_tensor.h"

namespace lms {
namespace {

constexpr int kMostLoopsAround = 16;  // of loops around
constexpr int kMostPassedThrough = 64;

}  // namespace

bool ReadLoopVariable(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops, int fork,
                      LoopVariable* variable) {
  if (graph.node(fork).op() != "Switch" || index[fork].inputs.empty()) return false;
  const TensorRef merged = index[fork].inputs[0];
  if (graph.node(merged.node).op() != "Merge" || merged.port != 0 || !loops.Changes(merged.node)) return false;
  const std::vector<TensorRef>& inputs = index[merged.node].inputs;
  if (inputs.size() != 2 || index[fork].frame <= 0 || index[merged.node].frame != index[fork].frame) return false;
  variable->fork = fork;
  variable->merge = merged.node;
  variable->enter = inputs[0].node;
  variable->end = inputs[1].node;
  if (IsNextIteration(graph.node(variable->enter))) std::swap(variable->enter, variable->end);
  if (!IsEnter(graph.node(variable->enter)) || !IsNextIteration(graph.node(variable->end))) return false;
  // Such a one would arrive in each iteration.
  if (IsConstantEnter(graph.node(variable->enter))) return false;
  if (index[variable->enter].inputs.empty() || index[variable->end].inputs.empty()) return false;
  if (index[fork].inputs.size() < 2 || index[fork].inputs[1].node != index.frame(index[fork].frame).loop_cond) {
    return false;
  }
  variable->next = index[variable->end].inputs[0];
  return true;
}

bool CountsIterations(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops,
                      const LoopVariable& variable, tensorflow::DataType type) {
  const tensorflow::NodeDef& add = graph.node(variable.next.node);
  const std::vector<TensorRef>& terms = index[variable.next.node].inputs;
  if ((add.op() != "AddV2" && add.op() != "Add") || terms.size() != 2) return false;
  const auto has = add.attr().find("T");
  if (has == add.attr().end() || has->second.type() != type) return false;
  if (NumberOf(graph, index, loops, index[variable.enter].inputs[0]) != 0) return false;
  const bool first = NumberOf(graph, index, loops, terms[1]) == 1;
  if (!first && NumberOf(graph, index, loops, terms[0]) != 1) return false;
  TensorRef term = terms[first ? 0 : 1];
  for (int steps = 0; steps < kMostPassedThrough && IsPassThrough(graph.node(term.node)); ++steps) {
    if (term.port != 0 || index[term.node].inputs.empty()) return false;
    term = index[term.node].inputs[0];
  }
  return term == variable.now();
}

TensorRef OutsideOf(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops,
                    const TensorRef& tensor) {
  constexpr TensorRef kNowhere{-1, 0};
  int node = tensor.node;
  if (graph.node(node).op() == "Switch") {
    if (index[node].inputs.empty() || tensor.port != 1) return kNowhere;
    node = index[node].inputs[0].node;
  }
  if (graph.node(node).op() == "Merge") {
    const std::vector<TensorRef>& inputs = index[node].inputs;
    if (loops.Changes(node) || tensor.port != (node == tensor.node ? 0 : 1)) return kNowhere;
    const auto enter = std::find_if(inputs.begin(), inputs.end(),
                                    [&graph](const TensorRef& input) { return IsEnter(graph.node(input.node)); });
    const bool of_loop = std::any_of(inputs.begin(), inputs.end(), [&graph](const TensorRef& input) {
      return IsNextIteration(graph.node(input.node));
    });
    if (enter == inputs.end() || !of_loop) return kNowhere;
    node = enter->node;
  } else if (node != tensor.node) {
    return kNowhere;  // a branch
  }
  if (!IsEnter(graph.node(node)) || index[node].inputs.empty()) return kNowhere;
  // One that is not a constant of the loop is there in the first iteration alone.
  if (node == tensor.node && !IsConstantEnter(graph.node(node))) return kNowhere;
  return index[node].inputs[0];
}

int64_t NumberOf(const tensorflow::GraphDef& graph, const GraphIndex& index, const Loops& loops, TensorRef tensor) {
  for (int depth = 0; depth < kMostLoopsAround; ++depth) {
    const TensorRef outside = OutsideOf(graph, index, loops, tensor);
    if (outside.node < 0) break;
    tensor = outside;
  }
  const tensorflow::NodeDef& node = graph.node(tensor.node);
  return tensor.port == 0 && IsScalarConstant(node) ? WholeConstant(node) : -1;
}

}  // namespace lms
