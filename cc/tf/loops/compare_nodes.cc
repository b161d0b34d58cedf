#include "cc/tf/loops/compare_nodes.h"

#include <algorithm>
#include <string>
#include <vector>

namespace lms {

absl::Status CompareNodes(const tensorflow::GraphDef& before, const tensorflow::GraphDef& after,
                          const std::function<absl::Status(int node)>& check_old,
                          const std::function<absl::Status(int node)>& check_new) {
  if (after.node_size() < before.node_size()) return absl::InternalError("nodes are missing");
  for (int node = 0; node < after.node_size(); ++node) {
    const bool old = node < before.node_size();
    if (old && before.node(node).name() != after.node(node).name()) {
      return absl::InternalError("node " + before.node(node).name() + " is missing");
    }
    const absl::Status status = old ? check_old(node) : check_new(node);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckStays(const tensorflow::GraphDef& before, const GraphIndex& old_index, const GraphIndex& new_index,
                        int node) {
  const std::string& name = before.node(node).name();
  if (!old_index.SamePlace(node, new_index, node)) {
    return absl::InternalError("node " + name + " was moved into or out of a loop or branch");
  }
  const std::vector<int>& controls = new_index[node].controls;
  for (const int control : old_index[node].controls) {
    if (std::find(controls.begin(), controls.end(), control) == controls.end()) {
      return absl::InternalError("node " + name + " no longer waits for " + before.node(control).name());
    }
  }
  return absl::OkStatus();
}

}  // namespace lms
