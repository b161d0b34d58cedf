// What of a loop's body its gradient has to be handed, and what the gradient's body may compute again instead.
//
// An op of the forward body runs again in the gradient's where a copy computes the same bits from values that are
// there: from what other lists bring, and from what is the same in all iterations. Which lists go is a cut
// (keep_cut.h), one for all loops of the step together: a tensor takes its bytes, and an op its time, once in every
// iteration.

#ifndef LMS_CC_TF_LOOPS_KEPT_LISTS_H_
#define LMS_CC_TF_LOOPS_KEPT_LISTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/loops/list_chains.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// What is handed on in the place of a list's own elements, or by a new list.
struct NewElement {
  int chain;  // of the loop's chains: one that is dropped, or one that the new list is made like
  bool new_list;
  TensorRef tensor;
  tensorflow::DataType dtype;
};

struct LoopCut {
  GradientLoop loop;
  std::vector<bool> dropped;  // per chain: its elements are computed again
  std::vector<NewElement> new_elements;
  std::vector<bool> runs_again;  // per node of the graph
  int64_t trips = 0;             // 0: not known
};

struct ListCut {
  std::vector<LoopCut> loops;  // those in which anything is dropped
  int64_t bytes = 0;           // that lists hold less, as far as that is known
  double cost_us = 0;          // of what runs again, in all iterations
};

// From the one that takes the least time to the one that saves most; none where there is nothing to gain. `device`: of
// the lists. `sizes` has the costs of ops. Throws TooMuch where the deadline passes.
std::vector<ListCut> FindListCuts(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                                  const TensorSizes& sizes, const std::vector<NodeTypes>& types,
                                  const std::string& device, const Deadline& deadline = Deadline());

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_KEPT_LISTS_H_
