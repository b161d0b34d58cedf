#include "cc/tf/rewrite/instances.h"

#include <algorithm>
#include <utility>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/op_traits.h"

namespace lms {

using tensorflow::NodeDef;

Instances::Instances(const ImportedGraph& imported, const GraphIndex& index, tensorflow::GraphDef* graph)
    : imported_(imported), index_(index), graph_(graph), newest_(imported.graph.buffers.size()) {}

BufferId Instances::BufferOf(const TensorRef& tensor) const {
  const std::vector<BufferId>& ports = imported_.buffer_of_port[tensor.node];
  return tensor.port < static_cast<int>(ports.size()) ? ports[tensor.port] : kNone;
}

TensorRef Instances::Owner(BufferId buffer) const {
  const OpId producer = imported_.graph.buffers[buffer].producer;
  if (producer == kNone) return {-1, 0};
  const int node = imported_.node_of_op[producer];
  const std::vector<BufferId>& ports = imported_.buffer_of_port[node];
  const auto port = std::find(ports.begin(), ports.end(), buffer);
  if (port == ports.end()) return {-1, 0};
  return {node, static_cast<int>(port - ports.begin())};
}

std::string Instances::Name(const Instance& instance, const std::string& original) {
  return instance.kind == Kind::kStep ? RecomputeName(instance.index, original) : SwapInName(instance.index, original);
}

std::string Instances::Resolve(const TensorRef& wanted) {
  // Views that are to be copied, from the tensor towards its storage: as many as the graph has nodes, maybe.
  struct View {
    TensorRef tensor;
    int shared;  // input
    const std::string* name;
  };
  std::vector<View> views;
  std::string name;
  for (TensorRef tensor = wanted; name.empty();) {
    const NodeDef& node = graph_->node(tensor.node);
    const BufferId b = BufferOf(tensor);
    if (b == kNone || newest_[b].kind == Kind::kOriginal) {
      name = InputName(node.name(), tensor.port);
      break;
    }
    const Instance instance = newest_[b];
    const int shared = imported_.SharedInput(node, tensor);
    if (shared < 0) {
      name = InputName(Name(instance, node.name()), instance.kind == Kind::kStep ? tensor.port : 0);
      break;
    }
    const std::vector<TensorRef>& inputs = index_[tensor.node].inputs;
    if (IsPassThrough(node)) {
      tensor = inputs[shared];
      continue;
    }
    const auto [view, is_new] = views_.insert(Name(instance, node.name()));
    if (!is_new) {
      name = InputName(*view, tensor.port);
      break;
    }
    views.push_back({tensor, shared, &*view});
    tensor = inputs[shared];
  }
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const std::vector<TensorRef>& inputs = index_[view->tensor.node].inputs;
    NodeDef copy = graph_->node(view->tensor.node);
    copy.set_name(*view->name);
    copy.clear_input();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string original = InputName(graph_->node(inputs[i].node).name(), inputs[i].port);
      copy.add_input(static_cast<int>(i) == view->shared ? name : original);
    }
    *graph_->add_node() = std::move(copy);
    name = InputName(*view->name, view->tensor.port);
  }
  return name;
}

void Instances::Redirect(int node_index) {
  NodeDef* node = graph_->mutable_node(node_index);
  const std::vector<TensorRef>& inputs = index_[node_index].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BufferId b = BufferOf(inputs[i]);
    if (b == kNone || newest_[b].kind == Kind::kOriginal ||
        imported_.IsViewOfInput(*node, node_index, static_cast<int>(i))) {
      continue;
    }
    node->set_input(static_cast<int>(i), Resolve(inputs[i]));
  }
}

}  // namespace lms
