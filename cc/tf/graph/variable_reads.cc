#include "cc/tf/graph/variable_reads.h"

#include <algorithm>
#include <string>

#include "cc/tf/graph/op_traits.h"

namespace lms {
namespace {

// Readers of a view, of which one is at hand.
struct OpenView {
  int node;
  size_t next;  // of its readers
};

}  // namespace

bool RunsInEveryStep(const NodeIndex& node) { return node.live && !node.in_frame && !node.conditional; }

int ReadFinder::ReadBehind(TensorRef tensor) {
  std::vector<std::pair<int, int>> views;
  int read = -1;
  for (int steps = 0; steps < index_.size(); ++steps) {
    const tensorflow::NodeDef& node = graph_.node(tensor.node);
    if (IsVariableRead(node.op())) {
      read = tensor.node;
      break;
    }
    const int shared = SharedInput(node, tensor.port);
    if (shared < 0 || IsControlFlow(node.op()) || shared >= static_cast<int>(index_[tensor.node].inputs.size())) break;
    const auto [known, is_new] = known_.emplace(std::make_pair(tensor.node, tensor.port), -1);
    if (!is_new) {
      read = known->second;
      break;
    }
    views.push_back(known->first);
    tensor = index_[tensor.node].inputs[shared];
  }
  for (const auto& view : views) known_[view] = read;
  return read;
}

int ReadBehind(const tensorflow::GraphDef& graph, const GraphIndex& index, TensorRef tensor) {
  return ReadFinder(graph, index).ReadBehind(tensor);
}

std::vector<int> ReadersToWaitFor(const tensorflow::GraphDef& graph, const GraphIndex& index, int read) {
  // Depth first, with a stack of our own: views of views may be as many as the graph has nodes.
  std::vector<int> readers;
  std::vector<OpenView> open{{read, 0}};
  while (!open.empty()) {
    const int node = open.back().node;
    if (open.back().next == index[node].readers.size()) {
      open.pop_back();
      continue;
    }
    const int reader = index[node].readers[open.back().next++];
    if (!RunsInEveryStep(index[reader])) continue;
    const std::vector<TensorRef>& inputs = index[reader].inputs;
    const auto reads =
        std::find_if(inputs.begin(), inputs.end(), [node](const TensorRef& input) { return input.node == node; });
    if (reads == inputs.end()) continue;
    const std::string& op = graph.node(reader).op();
    if (IsViewOfInput(graph.node(reader), static_cast<int>(reads - inputs.begin()))) {
      open.push_back({reader, 0});
    } else if (op != "_Retval" && op != "_DeviceRetval" && !IsControlFlow(op)) {
      readers.push_back(reader);
    }
  }
  return readers;
}

}  // namespace lms
