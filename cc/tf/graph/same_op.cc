#include "cc/tf/graph/same_op.h"

#include <algorithm>

#include "tensorflow/core/framework/attr_value_util.h"

namespace lms {

bool SameButInputs(const tensorflow::NodeDef& a, const tensorflow::NodeDef& b) {
  if (a.op() != b.op() || a.device() != b.device() || a.attr_size() != b.attr_size()) return false;
  return std::all_of(a.attr().begin(), a.attr().end(), [&b](const auto& attr) {
    const auto other = b.attr().find(attr.first);
    return other != b.attr().end() &&
           tensorflow::AreAttrValuesEqual(attr.second, other->second, /*allow_false_negatives=*/true);
  });
}

}  // namespace lms
