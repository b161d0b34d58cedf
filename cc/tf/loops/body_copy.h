// Copies of the ops of a loop's body, in the body of another loop.

#ifndef LMS_CC_TF_LOOPS_BODY_COPY_H_
#define LMS_CC_TF_LOOPS_BODY_COPY_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/loops/loop_nodes.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

class BodyCopy {
 public:
  // The other loop.
  struct Place {
    // Hands in what is the same in all iterations: a tensor of the body, and its value outside. Returns the input.
    std::function<std::string(const TensorRef& tensor, const TensorRef& outside)> hand_in;
    // A node that runs in each iteration, whatever else does: for copies that wait for nothing else of it.
    std::function<std::string()> pivot;
  };

  // `came` is the graph of the body, with its index and loops. `runs_again`: per node, is it to be copied? The
  // references must outlive this.
  BodyCopy(const tensorflow::GraphDef& came, const GraphIndex& index, const Loops& loops,
           const std::vector<bool>& runs_again, Place place, LoopNodes* nodes)
      : came_(came), index_(index), loops_(loops), runs_again_(runs_again), place_(std::move(place)), nodes_(*nodes) {}

  // The value of the tensor is there, as that input.
  void Bring(const TensorRef& tensor, const std::string& input) { made_.emplace(KeyOf(tensor), input); }

  // The input by which the other body reads the value; "": it cannot.
  std::string ValueOf(const TensorRef& wanted);

 private:
  void Copy(const TensorRef& tensor);

  const tensorflow::GraphDef& came_;
  const GraphIndex& index_;
  const Loops& loops_;
  const std::vector<bool>& runs_again_;
  const Place place_;
  LoopNodes& nodes_;
  std::map<TensorKey, std::string> made_;
  std::map<int, std::string> copies_of_;  // by node
};

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_BODY_COPY_H_
