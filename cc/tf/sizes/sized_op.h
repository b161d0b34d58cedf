// An op with the types and shapes of its tensors, and how large those are: what workspaces are computed from.

#ifndef LMS_CC_TF_SIZES_SIZED_OP_H_
#define LMS_CC_TF_SIZES_SIZED_OP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace lms {

// No dimension may be unknown; a rank may be. Constant inputs have their values, where those are known.
struct SizedOp {
  const tensorflow::NodeDef* node;
  std::vector<tensorflow::OpInfo::TensorProperties> inputs;
  std::vector<tensorflow::OpInfo::TensorProperties> outputs;
};

// More than any real tensor or list has; a million of these do not overflow their sum.
constexpr int64_t kMostBytes = int64_t{1} << 43;

using TensorInfo = tensorflow::OpInfo::TensorProperties;

// kMostBytes where the product is larger than any real tensor.
int64_t Product(int64_t a, int64_t b);

// 0 where the rank is not known.
int64_t ElementsOf(const tensorflow::OpInfo::TensorProperties& tensor);
int64_t BytesOf(const tensorflow::OpInfo::TensorProperties& tensor);

// The attribute; "" and {} where there is none.
std::string TextAttr(const tensorflow::NodeDef& node, const char* name);
std::vector<int64_t> IntsAttr(const tensorflow::NodeDef& node, const char* name);

// The axes in order, without those of one place, in runs of those that a reduction takes (true) and those that it
// keeps; nothing where they are not known.
std::optional<std::vector<bool>> ReductionRuns(const TensorInfo& input, const TensorInfo& axes);

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_SIZED_OP_H_
