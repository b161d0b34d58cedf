#include "cc/tf/verify.h"

#include <string>

#include "cc/tf/import.h"
#include "cc/tf/node_names.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace lms {
namespace {

absl::Status CheckOriginalNodes(const tensorflow::GraphDef& before, const tensorflow::GraphDef& after) {
  if (after.node_size() < before.node_size()) return absl::InternalError("nodes are missing");
  for (int i = 0; i < before.node_size(); ++i) {
    const tensorflow::NodeDef& old_node = before.node(i);
    const tensorflow::NodeDef& new_node = after.node(i);
    if (old_node.name() != new_node.name() || old_node.op() != new_node.op() ||
        old_node.device() != new_node.device() || old_node.attr_size() != new_node.attr_size()) {
      return absl::InternalError("node " + old_node.name() + " was changed");
    }
    int data = 0;
    for (const std::string& input : old_node.input()) data += input[0] == '^' ? 0 : 1;
    int new_data = 0;
    for (const std::string& input : new_node.input()) new_data += input[0] == '^' ? 0 : 1;
    if (data != new_data) return absl::InternalError("node " + old_node.name() + " has other inputs than before");
    if (new_node.op() != "_Retval") continue;
    if (old_node.input(0) != new_node.input(0)) {
      return absl::InternalError("the result " + old_node.name() + " was rerouted");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAddedNodes(const tensorflow::GraphDef& after, int first, const GraphIndex& index) {
  for (int i = first; i < after.node_size(); ++i) {
    const std::string& name = after.node(i).name();
    if (!IsOwnName(name)) return absl::InternalError("a node of a foreign name was added: " + name);
    if (!index[i].live) return absl::InternalError("the added node " + name + " never runs");
    if (index[i].in_frame || index[i].conditional) return absl::InternalError(name + " is inside control flow");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyRewrite(const tensorflow::grappler::GrapplerItem& original,
                           const tensorflow::grappler::GrapplerItem& rewritten, const TensorSizes& sizes,
                           MemoryProfile* profile) {
  GraphIndex index;
  absl::Status status = index.Build(rewritten);
  if (status.ok()) status = CheckOriginalNodes(original.graph, rewritten.graph);
  if (status.ok()) status = CheckAddedNodes(rewritten.graph, original.graph.node_size(), index);
  ImportedGraph imported;
  if (status.ok()) status = ImportGraph(rewritten, index, sizes, &imported);
  if (status.ok()) *profile = Simulate(imported.graph, Plan());
  return status;
}

}  // namespace lms
