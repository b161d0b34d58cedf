#include "cc/tf/variable_reads.h"

#include <algorithm>
#include <string>

#include "cc/tf/op_traits.h"

namespace lms {
namespace {

void AddReaders(const tensorflow::GraphDef& graph, const GraphIndex& index, int node, std::vector<int>* readers) {
  for (const int reader : index[node].readers) {
    if (!RunsInEveryStep(index[reader])) continue;
    const std::vector<TensorRef>& inputs = index[reader].inputs;
    const auto reads =
        std::find_if(inputs.begin(), inputs.end(), [node](const TensorRef& input) { return input.node == node; });
    if (reads == inputs.end()) continue;
    const std::string& op = graph.node(reader).op();
    if (IsViewOfInput(graph.node(reader), static_cast<int>(reads - inputs.begin()))) {
      AddReaders(graph, index, reader, readers);
    } else if (op != "_Retval" && op != "_DeviceRetval" && !IsControlFlow(op)) {
      readers->push_back(reader);
    }
  }
}

}  // namespace

bool RunsInEveryStep(const NodeIndex& node) { return node.live && !node.in_frame && !node.conditional; }

int ReadBehind(const tensorflow::GraphDef& graph, const GraphIndex& index, TensorRef tensor) {
  for (int steps = 0; steps < index.size(); ++steps) {
    const tensorflow::NodeDef& node = graph.node(tensor.node);
    if (IsVariableRead(node.op())) return tensor.node;
    const int shared = SharedInput(node, tensor.port);
    if (shared < 0 || IsControlFlow(node.op()) || shared >= static_cast<int>(index[tensor.node].inputs.size())) {
      return -1;
    }
    tensor = index[tensor.node].inputs[shared];
  }
  return -1;
}

std::vector<int> ReadersToWaitFor(const tensorflow::GraphDef& graph, const GraphIndex& index, int read) {
  std::vector<int> readers;
  AddReaders(graph, index, read, &readers);
  return readers;
}

}  // namespace lms
