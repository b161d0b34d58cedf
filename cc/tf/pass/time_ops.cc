#include "cc/tf/pass/time_ops.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/hidden_wait.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/import/import.h"
#include "cc/tf/pass/profile_choice.h"
#include "cc/tf/pass/timed_functions.h"
#include "cc/tf/sizes/dimensions.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

class Chainer {
 public:
  Chainer(grappler::GrapplerItem* item, const GraphIndex& index, const ImportedGraph& imported)
      : item_(*item),
        index_(index),
        imported_(imported),
        library_(tensorflow::OpRegistry::Global(), item->graph.library()) {}

  void Run() {
    constant_.assign(index_.size(), false);
    std::string before;
    for (const int node : imported_.node_of_op) {
      constant_[node] = Constant(node);
      if (!Chained(node)) continue;
      tensorflow::NodeDef* def = item_.graph.mutable_node(node);
      if (!before.empty()) def->add_input("^" + before);
      before = def->name();
    }
  }

  bool Always(int node) const {
    const bool folded = constant_[node] && item_.graph.node(node).op() != "Const";
    return !folded && !index_[node].in_frame && !index_[node].conditional;
  }

 private:
  bool Constant(int node) const {
    const tensorflow::NodeDef& def = item_.graph.node(node);
    if (def.op() == "Const") return true;
    const tensorflow::OpDef* op_def = nullptr;
    if (index_[node].inputs.empty() || !index_[node].controls.empty() || index_.Preserved(node) ||
        !library_.LookUpOpDef(def.op(), &op_def).ok() || op_def->is_stateful()) {
      return false;
    }
    return std::all_of(index_[node].inputs.begin(), index_[node].inputs.end(),
                       [this](const TensorRef& input) { return constant_[input.node]; });
  }

  bool Chained(int node) const {
    const std::string& type = item_.graph.node(node).op();
    return !constant_[node] && !index_[node].in_frame && !index_[node].conditional && !IsControlFlow(type) &&
           type != "_Arg" && type != "_Retval" && type != "Placeholder";
  }

  grappler::GrapplerItem& item_;
  const GraphIndex& index_;
  const ImportedGraph& imported_;
  tensorflow::FunctionLibraryDefinition library_;
  std::vector<bool> constant_;
};

absl::Status Chain(const Options& options, grappler::Cluster* cluster, grappler::GrapplerItem* item,
                   TimedFunction* timed) {
  GraphIndex index;
  Dimensions dimensions(*item, options);
  TensorSizes sizes(&dimensions);
  ImportedGraph imported;
  absl::Status status = index.Build(*item);
  if (status.ok()) status = sizes.Infer();
  if (status.ok()) status = ImportGraph(*item, index, sizes, &imported);
  if (!status.ok()) return status;
  timed->place = PlaceOf(imported.device, cluster, options.intra_op_threads);
  const std::string waits = HiddenWait(*item, index);
  if (!waits.empty()) {
    return absl::FailedPreconditionError(waits +
                                         " may wait for another op of the step: its ops cannot be put in a row");
  }
  const Profile none;
  const ProfilePrices estimates(none);
  sizes.EstimateCosts(cluster, &estimates);
  Chainer chainer(item, index, imported);
  chainer.Run();
  for (size_t i = 0; i < imported.graph.ops.size(); ++i) {
    const MemOp& op = imported.graph.ops[i];
    const NodeFigures& figures = sizes.Of(op.name);
    timed->ops.push_back({op.name, figures.op_key, figures.cost_us, chainer.Always(imported.node_of_op[i])});
  }
  return status;
}

}  // namespace

absl::Status TimeOps(const Options& options, grappler::Cluster* cluster, const grappler::GrapplerItem& item,
                     bool rewritten, tensorflow::GraphDef* graph) {
  bool chained = false;
  try {
    TimedFunction timed;
    timed.function = item.id;
    grappler::GrapplerItem chain = item;
    if (rewritten) chain.graph = *graph;
    const absl::Status status = Chain(options, cluster, &chain, &timed);
    timed.problem = std::string(status.message());
    chained = status.ok();
    TimedFunctions().Add(options.time_ops, std::move(timed));
    if (chained) graph->Swap(&chain.graph);
  } catch (const std::exception&) {
    chained = false;  // lms.calibrate() says that it was not told of the function
  }
  return chained || rewritten ? absl::OkStatus() : absl::AbortedError("lms could not chain the ops");
}

}  // namespace lms
