// Shapes of tensors, as earlier steps have shown them. Plain data (recorded_sizes.h makes it).

#ifndef LMS_CC_CORE_OPTIONS_RECORDED_SHAPES_H_
#define LMS_CC_CORE_OPTIONS_RECORDED_SHAPES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lms {

using RecordedShape = std::vector<int64_t>;
// By "node:port".
using RecordedShapes = std::map<std::string, RecordedShape>;

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_RECORDED_SHAPES_H_
