// Shapes of tensors and lengths of loops, as earlier steps have shown them. Plain data (recorded_sizes.h makes it).

#ifndef LMS_CC_CORE_OPTIONS_RECORDED_SHAPES_H_
#define LMS_CC_CORE_OPTIONS_RECORDED_SHAPES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lms {

using RecordedShape = std::vector<int64_t>;
// By "node:port". By "node:trips", for a loop's LoopCond: how often it goes round, the only size of its shape.
using RecordedShapes = std::map<std::string, RecordedShape>;

inline std::string TripsKey(const std::string& loop_cond) { return loop_cond + ":trips"; }

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_RECORDED_SHAPES_H_
