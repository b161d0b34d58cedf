#include "cc/tf/loops/body_copy.h"

#include "cc/tf/graph/loop_variables.h"
#include "cc/tf/loops/list_chains.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

// Iterative, as bodies may be long.
std::string BodyCopy::ValueOf(const TensorRef& wanted) {
  std::vector<TensorRef> pending{wanted};
  while (!pending.empty()) {
    const TensorRef tensor = pending.back();
    if (made_.count(KeyOf(tensor)) != 0) {
      pending.pop_back();
      continue;
    }
    if (runs_again_[tensor.node]) {
      bool ready = true;
      for (const TensorRef& input : index_[tensor.node].inputs) {
        if (made_.count(KeyOf(input)) != 0) continue;
        if (input.node == tensor.node) return "";
        ready = false;
        pending.push_back(input);
      }
      if (ready) Copy(tensor);
      continue;
    }
    const TensorRef outside = OutsideOf(came_, index_, loops_, tensor);
    if (outside.node < 0) return "";
    made_.emplace(KeyOf(tensor), place_.hand_in(tensor, outside));
    pending.pop_back();
  }
  return made_.at(KeyOf(wanted));
}

// All inputs of the op are there. An output that is there already is read from there.
void BodyCopy::Copy(const TensorRef& tensor) {
  std::string& name = copies_of_.emplace(tensor.node, "").first->second;
  if (name.empty()) {
    tensorflow::NodeDef copy = came_.node(tensor.node);
    name = nodes_.NameFor(copy.name());
    copy.set_name(name);
    copy.clear_input();
    bool in_iteration = false;
    for (const TensorRef& input : index_[tensor.node].inputs) {
      copy.add_input(made_.at(KeyOf(input)));
      in_iteration = in_iteration || OutsideOf(came_, index_, loops_, input).node < 0;
    }
    // What reads constants of the loop alone would run once more than its body does.
    if (!in_iteration) copy.add_input("^" + place_.pivot());
    nodes_.Add(std::move(copy));
  }
  made_.emplace(KeyOf(tensor), InputName(name, tensor.port));
}

}  // namespace lms
