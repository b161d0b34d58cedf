// What of a prediction rests on sizes that nobody knows, in words.

#ifndef LMS_CC_TF_IMPORT_ASSUMED_SIZES_H_
#define LMS_CC_TF_IMPORT_ASSUMED_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/report/report.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/run_record.h"
#include "cc/tf/import/import.h"
#include "cc/tf/sizes/shape_values.h"
#include "cc/tf/sizes/tensor_sizes.h"

namespace lms {

// By bit of an AssumptionSet: the dimensions that it stands for (TensorSizes::assumptions()).
using AssumptionNames = std::vector<std::vector<std::string>>;

// "the sizes of images:0 and Where:0 are not known and were taken to be 32: set unknown_dim, …": of all that some
// buffer's size rests on, those first that most bytes rest on. "" where there is none. `strange`: names in unknown_dim
// that the function has not. Linear in the buffers.
std::string AssumptionWarning(const ImportedGraph& imported, const AssumptionNames& names, int64_t assumed_dim,
                              const std::vector<std::string>& strange);

// Why a buffer stays of which nothing is known, not even how many dimensions it has.
inline constexpr char kSizeUnknown[] = "size unknown";

// "of PyFunc:0 not even the number of dimensions is known: …": of all such buffers; "" where there is none. Linear in
// the buffers.
std::string UnrankedWarning(const ImportedGraph& imported);

// "images:0 is 32 (assumed: 97% of the predicted activations rest on it; set unknown_dim)", of what is held at the
// peak; "" where that is less than kLeastAssumedShare of it, what is resident and known left out. `profile` and
// `record` belong to the imported graph. Linear in the record.
inline constexpr double kLeastAssumedShare = 0.01;
std::string AssumptionAtPeak(const ImportedGraph& imported, const MemoryProfile& profile, const RunRecord& record,
                             const AssumptionNames& names, int64_t assumed_dim);

// What is to be recorded of these nodes. Sizes that were recorded before always matter. Others do where what rests on
// assumptions, if it grew as the square of what they turn out to be, would be kLeastAssumedShare of the step's
// `activations` (bytes). Where not even the number of dimensions is known nothing that rests on it is counted: each
// tensor without a size is taken to grow so, from one float. Where the first call told the sizes, larger ones matter.
// Linear in the buffers.
std::vector<OpenSize> OpenSizes(const std::vector<ShapeValues::OpenNode>& nodes, const ImportedGraph& imported,
                                int64_t activations);

// The loops of which it is to be recorded how often they go round: always where it was before, and where their lists
// would be kLeastAssumedShare of the step's `activations` (bytes).
std::vector<OpenLoop> OpenLoops(const ImportedGraph& imported, const TensorSizes& sizes, int64_t activations);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_ASSUMED_SIZES_H_
