// What swap-outs hold that hand their copies over (handed_copies.h), in a run of the executor's model.
//
// Such a swap-out has ended for the executor at once. It is done with the tensor, whose memory is free from then on,
// where the first node begins that waits for the copy, or its first swap-in.

#ifndef LMS_CC_TF_PREDICT_HELD_COPIES_H_
#define LMS_CC_TF_PREDICT_HELD_COPIES_H_

#include <vector>

#include "cc/core/simulate/overlap.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

class HeldCopies {
 public:
  HeldCopies(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported);

  // The run with each of these swap-outs ending there: at the end of the run, where none of these ops runs. Linear.
  std::vector<RunEvent> HoldIn(const std::vector<RunEvent>& run) const;

 private:
  std::vector<std::vector<OpId>> copies_of_;  // per op: what it waits for
  std::vector<bool> held_;                    // per op: does somebody wait for its copy?
};

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_HELD_COPIES_H_
