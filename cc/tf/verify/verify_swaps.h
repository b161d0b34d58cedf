// What the verifier asks of swaps (verify.h): the nodes themselves, and what they read.

#ifndef LMS_CC_TF_VERIFY_VERIFY_SWAPS_H_
#define LMS_CC_TF_VERIFY_VERIFY_SWAPS_H_

#include "absl/status/status.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// The tensor of the graph that a swap-in brings back; any other tensor is what it is. Node -1 for handles, and where a
// swap-in has the handle of no swap-out.
TensorRef SwappedTensor(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorRef& tensor);

// Is the node of the new graph a sound swap by itself: named as what it is, made as its op asks for, on the device of
// the node of the old graph that it is said to swap a tensor of? A swap-in reads the handle of a swap-out of the same.
absl::Status CheckSwapNode(const tensorflow::GraphDef& before, int original, const tensorflow::GraphDef& after,
                           const GraphIndex& index, int node);

// Has the swap the type of the tensor of the old graph, whose library it is?
absl::Status CheckSwappedType(const tensorflow::GraphDef& before, const tensorflow::FunctionLibraryDefinition& library,
                              const TensorRef& tensor, const tensorflow::GraphDef& after, int node);

// Does every swap-out on the planned device read storage that stays as it is, in the planned region and on that device?
// Asked of the new graph, which `imported` is of.
absl::Status CheckSwappable(const tensorflow::GraphDef& graph, const ImportedGraph& imported);

}  // namespace lms

#endif  // LMS_CC_TF_VERIFY_VERIFY_SWAPS_H_
