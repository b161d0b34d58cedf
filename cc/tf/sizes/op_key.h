// What two nodes must have in common to take the same time: the key of an operation in a profile.
//
//   Conv2D(float[8,56,56,64],float[1,1,64,64])->float[8,56,56,64] 3f0c9a1b52d7e684
//
// The op's type; the types and shapes of what it reads and makes (what it makes is not always determined by what it
// reads: Tile, Slice, reductions take it from values); a hash of all attributes but those that are names, functions,
// values, seeds, colocation or annotations of shapes. The node's name, device and inputs' names have no part in it, so
// a copy has the key of its original.
//
// Pure; linear in the node.

#ifndef LMS_CC_TF_SIZES_OP_KEY_H_
#define LMS_CC_TF_SIZES_OP_KEY_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace lms {

// `inputs` and `outputs` have their unknown dimensions bound; what is unknown still is written "?".
std::string OpKey(const tensorflow::NodeDef& node, const std::vector<tensorflow::OpInfo::TensorProperties>& inputs,
                  const std::vector<tensorflow::OpInfo::TensorProperties>& outputs);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_OP_KEY_H_
