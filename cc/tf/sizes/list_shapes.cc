#include "cc/tf/sizes/list_shapes.h"

#include <algorithm>
#include <string>

namespace lms {
namespace {

// The output that is taken out of a list; -1 where the node takes none out.
int TakenOutput(const std::string& op) {
  if (op == "TensorListPopBack") return 1;
  return op == "TensorListGetItem" || op == "TensorListStack" ? 0 : -1;
}

// A list may be long where no loop fills it: each of its elements is then put in by a node of its own.
constexpr int kMostListSteps = 1000;

struct Put {
  std::vector<TensorRef> elements;  // a node, and the number of its input
  TensorRef rows = {-1, 0};         // likewise: of a tensor, each row of which is an element
  int64_t count = -1;
};

// What has been put into the list that a node takes something out of, found on the way back from it. By its maker
// alone it would not be known: lists that begin alike are made by one node. False where the way is not clear.
class WayBack {
 public:
  WayBack(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorLists& lists)
      : graph_(graph), index_(index), lists_(lists), seen_(index.size(), 0) {}

  bool Find(int from, Put* put) {
    ++mark_;
    pending_ = {from};
    for (int steps = 0; !pending_.empty(); ++steps) {
      if (steps == kMostListSteps) return false;
      const int node = pending_.back();
      pending_.pop_back();
      if (!Visit(node, put)) return false;
    }
    return true;
  }

 private:
  void Follow(int node, size_t input) {
    if (input >= index_[node].inputs.size()) return;
    const int from = index_[node].inputs[input].node;
    if (seen_[from] == mark_) return;
    seen_[from] = mark_;
    pending_.push_back(from);
  }

  bool Visit(int node, Put* put) {
    const tensorflow::NodeDef& def = graph_.node(node);
    const std::string& op = def.op();
    if (op == "TensorListPushBack" || op == "TensorListSetItem") {
      const bool push = op == "TensorListPushBack";
      put->elements.push_back({node, push ? 1 : 2});
      if (push && put->count < 0) put->count = lists_.Trips(std::max(0, index_[node].frame));
      Follow(node, 0);
    } else if (op == "TensorListFromTensor") {
      put->rows = {node, 0};
    } else if (op == "EmptyTensorList" || op == "TensorListReserve") {
      if (op == "TensorListReserve") put->count = lists_.ElementsOf(node);
    } else if (IsMerge(def) || op == "AddN" || op == "Add" || op == "AddV2") {
      for (size_t i = 0; i < index_[node].inputs.size(); ++i) Follow(node, i);
    } else if (IsPassage(def) || op == "TensorListPopBack" || op == "TensorListResize" || op == "TensorListGetItem" ||
               op == "TensorListStack" || op == "ZerosLike") {
      Follow(node, 0);
    } else {
      return false;
    }
    return true;
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const TensorLists& lists_;
  std::vector<int> seen_;  // per node: at which search
  int mark_ = 0;
  std::vector<int> pending_;
};

}  // namespace

bool ReadsLists(const tensorflow::GraphDef& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [](const auto& node) { return TakenOutput(node.op()) >= 0; });
}

std::vector<ListLink> LinkLists(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorLists& lists) {
  std::vector<ListLink> links;
  WayBack way(graph, index, lists);
  for (int i = 0; i < index.size(); ++i) {
    const std::string& op = graph.node(i).op();
    const int port = TakenOutput(op);
    if (port < 0 || index[i].inputs.empty()) continue;
    Put put;
    if (!way.Find(i, &put)) continue;
    std::sort(put.elements.begin(), put.elements.end(),
              [](const TensorRef& a, const TensorRef& b) { return a.node < b.node; });
    const bool stack = op == "TensorListStack";
    if (put.rows.node >= 0) {
      links.push_back({i, port, stack ? ListLink::Kind::kElement : ListLink::Kind::kRow, {put.rows}, -1});
    } else if (!put.elements.empty()) {
      links.push_back(
          {i, port, stack ? ListLink::Kind::kStack : ListLink::Kind::kElement, put.elements, stack ? put.count : -1});
    }
  }
  return links;
}

}  // namespace lms
