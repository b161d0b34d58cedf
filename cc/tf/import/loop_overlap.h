// What iterations of a loop hold at once on a device whose kernels are all cheap for the executor, as a GPU's are.
//
// There one thread goes through the graph, first come, first served, and an iteration begins as soon as what it needs
// is there: micro-batches that only add to the same sums are all under way at once (29 MB instead of 10), while steps
// of a recurrent layer, each of which reads what the one before has made, hardly overlap, backwards neither. So the
// executor is run over as many iterations as TensorFlow lets run at once, and over the same one by one.
//
// Left out: which branch is taken (both are).

#ifndef LMS_CC_TF_IMPORT_LOOP_OVERLAP_H_
#define LMS_CC_TF_IMPORT_LOOP_OVERLAP_H_

#include <cstdint>
#include <optional>

#include "cc/tf/import/import_state.h"

namespace lms {

// Bytes beyond those of one iteration; none where loops are nested in it. Holds of the import's loops are kept. Throws
// TooMuch where the deadline passes. Linear in the loop's nodes and edges, times its iterations that may overlap.
std::optional<int64_t> InlineOverlap(const ImportState& state, int frame);

// Iterations of the loop that may be under way at once.
int64_t IterationsAtOnce(const ImportState& state, int frame);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_LOOP_OVERLAP_H_
