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

// With one replica, and a gradient gathered from other workers as TensorFlow does with sparse ones, after
// reduce_<layers-1> and before the next: lengths, and by a predicate made of these gather_1 and gather_2 in one branch,
// padded_1 and padded_2 in the other. `executed` waits for both branches.
inline tensorflow::grappler::GrapplerItem TrainWithGathers(int layers) {
  GraphBuilder b;
  b.item() = TrainReplicas(layers, 1);
  const std::string gradient = "weight_grad_" + std::to_string(layers - 1);
  const std::string last = "reduce_" + std::to_string(layers - 1);
  const auto gather = [&b](const std::string& name, const std::string& input, const std::string& control) {
    b.Float(name, "CollectiveGatherV2", {input, "size", "size", "size"}, {Int("Nordering_token", 0)});
    if (!control.empty()) b.item().graph.mutable_node()->rbegin()->add_input("^" + control);
  };
  gather("lengths", gradient, last);
  b.ShapeConstant("all_axes", {0, 1});
  b.Float("length", "Sum", {"lengths", "all_axes"}, {Type("Tidx", tensorflow::DT_INT32)});
  b.Float("same", "Equal", {"length", "length"});
  b.Float("switch", "Switch", {gradient, "same"});
  gather("gather_1", "switch:1", "");
  gather("gather_2", "switch:1", "gather_1");
  b.Float("padded", "Neg", {"switch"});
  gather("padded_1", "padded", "");
  gather("padded_2", "padded", "padded_1");
  b.Float("not_same", "Identity", {"switch"});
  b.Float("is_same", "Identity", {"switch:1"});
  b.Float("executed", "Merge", {"not_same", "is_same", "^padded_2", "^gather_2"}, {Int("N", 2)});
  b.Float("values", "Merge", {"padded_1", "gather_1"}, {Int("N", 2)});
  b.Fetch("values");
  for (tensorflow::NodeDef& node : *b.item().graph.mutable_node()) {
    if (node.name() == "reduce_" + std::to_string(layers - 2)) node.add_input("^executed");
  }
  return b.item();
}

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_REPLICAS_H_
