// A training step on two devices whose gradients are summed up by collective operations, as MirroredStrategy makes it.

#ifndef LMS_TESTS_CC_TF_REPLICAS_H_
#define LMS_TESTS_CC_TF_REPLICAS_H_

#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms::testing {

inline constexpr const char* kReplicaDevices[] = {kCpu, kOtherCpu};

inline std::string ReplicaName(int replica) { return replica == 0 ? "" : "replica_1/"; }

// The graph of TrainChain(layers) twice, the second under "replica_1/". Between weight_grad_i and update_i of each
// there is reduce_i, a CollectiveReduceV2; those of a replica run in the order in which the backward pass comes to
// them. With one replica: what a worker with one device runs.
inline tensorflow::grappler::GrapplerItem TrainReplicas(int layers, int replicas = 2) {
  const tensorflow::grappler::GrapplerItem one = TrainChain(layers);
  GraphBuilder b;
  b.Constant("size", {}, tensorflow::DT_INT32);
  for (int replica = 0; replica < replicas; ++replica) {
    const std::string prefix = ReplicaName(replica);
    std::string last;
    for (tensorflow::NodeDef node : one.graph.node()) {
      node.set_name(prefix + node.name());
      node.set_device(kReplicaDevices[replica]);
      if (node.op() == "VarHandleOp") (*node.mutable_attr())["shared_name"].set_s(node.name());
      for (std::string& input : *node.mutable_input()) input.insert(input[0] == '^' ? 1 : 0, prefix);
      if (node.op() == "AssignSubVariableOp") {
        const std::string number = node.name().substr(node.name().rfind('_') + 1);
        std::vector<std::string> inputs = {node.input(1), "size", "size", "size"};
        if (!last.empty()) inputs.push_back("^" + last);
        last = prefix + "reduce_" + number;
        tensorflow::NodeDef* const reduce =
            b.Float(last, "CollectiveReduceV2", inputs, {Text("merge_op", "Add"), Text("final_op", "Id")});
        reduce->set_device(kReplicaDevices[replica]);
        node.set_input(1, last);
      }
      *b.item().graph.add_node() = node;
    }
    b.item().feed.emplace_back(prefix + "x", tensorflow::Tensor());
    b.Fetch(prefix + "loss");
  }
  return b.item();
}

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_REPLICAS_H_
