// One step of LmsElementwise on so many elements that lie side by side.

#ifndef LMS_CC_TF_RUNTIME_TILE_MATH_H_
#define LMS_CC_TF_RUNTIME_TILE_MATH_H_

#include <cstdint>

#include "cc/tf/graph/elementwise.h"

namespace lms {

// `to` may be one of the operands; nothing else may overlap. Of kNeg `right` is not read. Each result is rounded by
// itself: none is computed together with that of another step.
void ComputeTile(ElementwiseKind kind, const float* left, const float* right, int64_t count, float* to);
void ComputeTile(ElementwiseKind kind, const double* left, const double* right, int64_t count, double* to);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_TILE_MATH_H_
