#include "cc/tf/import/import_tapes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/graph/phases.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using Types = std::pair<tensorflow::DataTypeVector, tensorflow::DataTypeVector>;  // of arguments and of results

// In the order in which Python made them: their tokens are "pyfunc_" and a number that grows.
void SortByToken(const ImportState& state, std::vector<int>* nodes) {
  const auto token = [&state](int node) {
    const auto found = state.Node(node).attr().find("token");
    return found == state.Node(node).attr().end() ? std::string() : found->second.s();
  };
  std::sort(nodes->begin(), nodes->end(), [&token](int a, int b) {
    const std::string of_a = token(a);
    const std::string of_b = token(b);
    return std::make_pair(of_a.size(), of_a) < std::make_pair(of_b.size(), of_b);
  });
}

void HoldFor(int gradient, const TensorRef& tensor, ImportState* state) {
  const BufferId b = state->BufferOf(tensor);
  if (b == kNone) return;
  state->facts[b].keep_reason = "held by tf.py_function for its gradient";
  AddOnce(&state->Op(gradient).inputs, b);
}

void HoldAllFor(int gradient, int call, ImportState* state) {
  if (state->out.op_of_node[gradient] < state->out.op_of_node[call]) return;
  for (const TensorRef& input : state->index[call].inputs) HoldFor(gradient, input, state);
  const int results = static_cast<int>(state->types[call].outputs.size());
  for (int port = 0; port < results; ++port) HoldFor(gradient, {call, port}, state);
}

}  // namespace

void AddTapeReads(ImportState* state) {
  std::map<Types, std::vector<int>> calls;
  std::map<Types, std::vector<int>> gradients;  // by the types of their calls
  for (const int node : state->order) {
    if (state->Node(node).op() != "EagerPyFunc" || !state->OnDevice(node)) continue;
    const NodeTypes& types = state->types[node];
    if (IsGradientName(state->Node(node).name())) {
      gradients[{types.outputs, types.inputs}].push_back(node);
    } else {
      calls[{types.inputs, types.outputs}].push_back(node);
    }
  }
  for (auto& [types, of_type] : gradients) {
    std::vector<int>& made = calls[types];
    SortByToken(*state, &made);
    SortByToken(*state, &of_type);
    const bool paired = made.size() == of_type.size();
    for (size_t i = 0; i < made.size(); ++i) {
      HoldAllFor(paired ? of_type[of_type.size() - 1 - i] : of_type.back(), made[i], state);
    }
  }
}

}  // namespace lms
