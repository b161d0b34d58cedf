#include "cc/tf/list_shapes.h"

#include <algorithm>
#include <map>
#include <string>

namespace lms {
namespace {

// The output that is taken out of a list; -1 where the node takes none out.
int TakenOutput(const std::string& op) {
  if (op == "TensorListPopBack") return 1;
  return op == "TensorListGetItem" || op == "TensorListStack" ? 0 : -1;
}

struct Put {
  std::vector<TensorRef> elements;  // a node, and the number of its input
  TensorRef rows = {-1, 0};         // likewise: of a tensor, each row of which is an element
  int64_t count = -1;
};

}  // namespace

bool ReadsLists(const tensorflow::GraphDef& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [](const auto& node) { return TakenOutput(node.op()) >= 0; });
}

std::vector<ListLink> LinkLists(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorLists& lists) {
  std::map<int, Put> puts;  // per list
  for (int i = 0; i < index.size(); ++i) {
    if (lists.ListOf(i) < 0) continue;
    const std::string& op = graph.node(i).op();
    Put& put = puts[lists.ListOf(i)];
    put.count = std::max(put.count, lists.ElementsOf(i));
    if (op == "TensorListPushBack" || op == "TensorListSetItem") {
      put.elements.push_back({i, op == "TensorListPushBack" ? 1 : 2});
      if (op == "TensorListPushBack" && put.count < 0) put.count = lists.Trips(std::max(0, index[i].frame));
    } else if (op == "TensorListFromTensor") {
      put.rows = {i, 0};
    }
  }
  std::vector<ListLink> links;
  for (int i = 0; i < index.size(); ++i) {
    const std::string& op = graph.node(i).op();
    const int port = TakenOutput(op);
    if (port < 0 || index[i].inputs.empty()) continue;
    const auto found = puts.find(lists.ListOf(index[i].inputs[0].node));
    if (found == puts.end()) continue;
    const Put& put = found->second;
    const bool stack = op == "TensorListStack";
    if (put.rows.node >= 0) {
      links.push_back({i, port, stack ? ListLink::Kind::kElement : ListLink::Kind::kRow, {put.rows}, -1});
    } else if (!put.elements.empty()) {
      links.push_back({i, port, stack ? ListLink::Kind::kStack : ListLink::Kind::kElement, put.elements,
                       stack ? put.count : -1});
    }
  }
  return links;
}

}  // namespace lms
