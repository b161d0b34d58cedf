// Option strict: a step whose budget cannot be met fails with a clear error before it changes anything.

#ifndef LMS_CC_TF_PASS_STRICT_H_
#define LMS_CC_TF_PASS_STRICT_H_

#include <string>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Adds a node that fails with `message` and has every other node that may have an effect wait for it. `index` belongs
// to *graph as it comes in; `device` is the one planned, on whose host the node is placed.
void FailStep(const GraphIndex& index, const std::string& device, const std::string& message,
              tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_STRICT_H_
