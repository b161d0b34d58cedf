// Which instance of each buffer readers get while a plan is being applied, and under which name.
//
// An instance is the original's tensor, an output of a recomputation, or what a swap-in brings back. Views on an
// instance that is not the original are copied where somebody reads through them (but those that hand their input on as
// it is are passed over): the original view would keep the original instance.
//
// Changes the graph: adds copies of views. O(length of the chain of views) per tensor.

#ifndef LMS_CC_TF_REWRITE_INSTANCES_H_
#define LMS_CC_TF_REWRITE_INSTANCES_H_

#include <set>
#include <string>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

class Instances {
 public:
  // `imported`, `index` and `graph` belong together and outlive this.
  Instances(const ImportedGraph& imported, const GraphIndex& index, tensorflow::GraphDef* graph);

  // From now on readers of the buffer get what that step, or that swap-in, of the plan makes.
  void MadeByStep(BufferId buffer, int step) { newest_[buffer] = {Kind::kStep, step}; }
  void MadeBySwapIn(BufferId buffer, int swap_in) { newest_[buffer] = {Kind::kSwapIn, swap_in}; }

  // The swap-in that made the buffer's newest instance; -1 for other instances.
  int SwapInOf(BufferId buffer) const { return newest_[buffer].kind == Kind::kSwapIn ? newest_[buffer].index : -1; }

  // The tensor that the buffer is the storage of; node -1 where there is none.
  TensorRef Owner(BufferId buffer) const;

  // The tensor under the name of its newest instance: itself, an output of a recomputation, what was swapped in, or a
  // view of one of these.
  std::string Resolve(const TensorRef& tensor);

  // Points the inputs of a node at the newest instances. A view reads nothing and stays with its original.
  void Redirect(int node);

 private:
  enum class Kind { kOriginal, kStep, kSwapIn };
  struct Instance {
    Kind kind = Kind::kOriginal;
    int index = -1;
  };

  BufferId BufferOf(const TensorRef& tensor) const;
  static std::string Name(const Instance& instance, const std::string& original);

  const ImportedGraph& imported_;
  const GraphIndex& index_;
  tensorflow::GraphDef* graph_;
  std::vector<Instance> newest_;  // per buffer
  std::set<std::string> views_;   // copies of views, by name
};

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_INSTANCES_H_
