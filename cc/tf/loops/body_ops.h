// What may be done with the ops of a loop's body where its gradient needs what they compute.
//
// Read-only once built, but for what is found out when it is first asked for. Linear in nodes and edges.

#ifndef LMS_CC_TF_LOOPS_BODY_OPS_H_
#define LMS_CC_TF_LOOPS_BODY_OPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/loops/list_chains.h"
#include "cc/tf/sizes/tensor_lists.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

class BodyOps {
 public:
  // All of one graph, but for `sizes`, which may be those of the graph that this one was made from. `device`: of the
  // lists. The arguments must outlive this.
  BodyOps(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes,
          const std::vector<NodeTypes>& types, const std::string& device);

  const Loops& loops() const { return loops_; }

  // The loops that may be changed, with those of their lists that lie on the device. Nothing whose change could change
  // the last bits of a sum, which may take over storage that nobody else holds: a list that holds one of its terms
  // stays, and so does a loop whose sums are in branches or loops within it, or take what it begins or ends with, or
  // what its gradient takes off a list.
  std::vector<GradientLoop> LoopsToChange() const;

  // How often the loop goes round; 0: not known.
  int64_t Trips(int frame) const;

  // May the op run again in the gradient's body?
  bool MayRunAgain(int node, const GradientLoop& loop);
  // May a list bring the tensor, beside those that do as the graph comes?
  bool MayBePushed(const TensorRef& tensor, const GradientLoop& loop) const;
  // The value that it has in all iterations, outside of the loop; node -1 for what is not the same in all of them, and
  // for handles of variables, which would be read at another time.
  TensorRef SameInAll(const TensorRef& tensor) const;

  // Of its own in one iteration: 0 for what shares the storage of something else.
  double BytesOf(const TensorRef& tensor) const;
  TensorRef StorageOf(const TensorRef& tensor) const { return lists_.StorageOf(tensor); }
  double CostOf(int node) const { return sizes_.Of(graph_.node(node).name()).cost_us; }
  tensorflow::DataType TypeOf(const TensorRef& tensor) const;

 private:
  bool SumsMayTakeOver(const GradientLoop& loop) const;

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const TensorSizes& sizes_;
  const std::vector<NodeTypes>& types_;
  const std::string& device_;
  const Loops loops_;
  const TensorLists lists_;
  const std::vector<bool> on_way_to_sums_;
  std::vector<bool> may_be_fused_;
};

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_BODY_OPS_H_
