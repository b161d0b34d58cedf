#include "cc/tf/loops/share_rows.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/graph/small_tensor.h"
#include "cc/tf/loops/loop_nodes.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/stock/sum_holders.h"

namespace lms {
namespace {

class RowSharer {
 public:
  RowSharer(const GraphIndex& index, const TensorSizes& sizes, const std::vector<NodeTypes>& types,
            const std::string& device, tensorflow::GraphDef* graph)
      : index_(index),
        sizes_(sizes),
        types_(types),
        device_(device),
        graph_(*graph),
        loops_(graph_, index),
        lists_(graph_, index, sizes, loops_),
        on_way_to_sums_(OnWayToSums(graph_, index)) {
    for (int node = 0; node < index.size(); ++node) {
      const std::string& op = graph_.node(node).op();
      const bool takes = op == "TensorListPopBack" || op == "TensorListGetItem";
      if (takes && index[node].live && on_way_to_sums_[node])
        summed_.insert(lists_.GroupOf(index[node].inputs[0].node));
    }
  }

  int64_t Run() {
    int64_t bytes = 0;
    // What is written into a tensor that others read, in an order that edges tell, is not to be seen in its rows.
    const auto& nodes = graph_.node();
    if (std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return ChangesInPlace(node.op()); })) return 0;
    for (int node = 0; node < index_.size(); ++node) {
      if (!index_[node].live || !lists_.OnlyRows(node) || summed_.count(lists_.GroupOf(node)) != 0) continue;
      const TensorRef tensor = index_[node].inputs[0];
      if (!MayShare(node, tensor)) continue;
      bytes += lists_.BytesOf(node);
      const bool reversed = IsReversed(tensor) && MayShare(node, index_[tensor.node].inputs[0]);
      tensorflow::NodeDef& list = *graph_.mutable_node(node);
      (*list.mutable_attr())[kKernelAttr].set_s(reversed ? kReversedRowsLabel : kRowsLabel);
      if (!reversed) continue;
      const TensorRef& rows = index_[tensor.node].inputs[0];
      list.set_input(0, InputName(graph_.node(rows.node).name(), rows.port));
      if (!IsRead(tensor.node)) {
        MakeNoOp(graph_.mutable_node(tensor.node));
        bytes += lists_.BytesOf(node);
      }
    }
    return bytes;
  }

 private:
  // Is the tensor's storage, where it is made, its own, and no variable's afterwards? A sum that might take it over
  // would begin with another term.
  bool MayShare(int list, TensorRef tensor) const {
    const NodeTypes& types = types_[tensor.node];
    const tensorflow::NodeDef& maker = graph_.node(list);
    if (tensor.port >= static_cast<int>(types.outputs.size()) || !IsPlain(types.outputs[tensor.port])) return false;
    if (maker.device() != device_ || maker.attr().count(kKernelAttr) != 0) return false;
    for (;;) {
      const tensorflow::NodeDef& node = graph_.node(tensor.node);
      const std::vector<TensorRef>& inputs = index_[tensor.node].inputs;
      if (node.device() != device_ || types_[tensor.node].output_on_host[tensor.port]) return false;
      if (IsControlFlow(node.op()) || IsVariableRead(node.op()) || sizes_.Of(node.name()).rows_of >= 0) return false;
      if (tensorflow::IsRefType(types_[tensor.node].outputs[tensor.port])) return false;
      const std::vector<int>& readers = index_[tensor.node].readers;
      const bool assigned = std::any_of(readers.begin(), readers.end(), [this](int reader) {
        return graph_.node(reader).op().rfind("Assign", 0) == 0;
      });
      if (assigned || on_way_to_sums_[tensor.node]) return false;
      const int shared = SharedInput(node, tensor.port);
      if (shared < 0 || shared >= static_cast<int>(inputs.size())) return true;
      tensor = inputs[shared];
    }
  }

  // Along its first dimension, and no other.
  bool IsReversed(const TensorRef& tensor) const {
    const tensorflow::NodeDef& node = graph_.node(tensor.node);
    const std::vector<TensorRef>& inputs = index_[tensor.node].inputs;
    return node.op() == "ReverseV2" && inputs.size() == 2 && WholeConstant(graph_.node(inputs[1].node)) == 0;
  }

  bool IsRead(int node) const {
    if (index_[node].root || index_.Preserved(node)) return true;
    const std::string& name = graph_.node(node).name();
    return std::any_of(index_[node].readers.begin(), index_[node].readers.end(), [&](int reader) {
      const auto& inputs = graph_.node(reader).input();
      return std::find(inputs.begin(), inputs.end(), name) != inputs.end();
    });
  }

  const GraphIndex& index_;
  const TensorSizes& sizes_;
  const std::vector<NodeTypes>& types_;
  const std::string& device_;
  tensorflow::GraphDef& graph_;
  const Loops loops_;
  const TensorLists lists_;
  const std::vector<bool> on_way_to_sums_;
  std::set<int> summed_;  // groups of lists: an element is a term of a sum whose bits depend on who holds it
};

}  // namespace

int64_t ShareRows(const GraphIndex& index, const TensorSizes& sizes, const std::vector<NodeTypes>& types,
                  const std::string& device, tensorflow::GraphDef* graph) {
  return RowSharer(index, sizes, types, device, graph).Run();
}

}  // namespace lms
