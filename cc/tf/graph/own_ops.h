// The ops that lms adds to graphs, by name. What they do: swap_ops.h, size_record.h, change_marks.h,
// assign_in_place.h, places_op.h and elementwise_op.h.

#ifndef LMS_CC_TF_GRAPH_OWN_OPS_H_
#define LMS_CC_TF_GRAPH_OWN_OPS_H_

#include <cstdint>
#include <string>

namespace lms {

inline constexpr char kSwapOutOp[] = "LmsSwapOut";
inline constexpr char kSwapInOp[] = "LmsSwapIn";
// Of these two, once all is planned and verified (split_swaps.h).
inline constexpr char kSwapWaitOp[] = "LmsSwapWait";
inline constexpr char kSwapFetchOp[] = "LmsSwapFetch";
inline constexpr char kSwapFetchedOp[] = "LmsSwapFetched";
inline constexpr char kMeasureLinkOp[] = "LmsMeasureLink";
inline constexpr char kSizeRecordOp[] = "LmsSizeRecord";
inline constexpr char kChangeMarkOp[] = "LmsChangeMark";
inline constexpr char kAssignOp[] = "LmsAssign";
inline constexpr char kPlacesOp[] = "LmsPlaces";
inline constexpr char kElementwiseOp[] = "LmsElementwise";

// Kernels of lms' for an op of TensorFlow's, which a node has by this label (the attribute "_kernel"): the rows of the
// list are the tensor's storage, in order or from the last one (list_rows_op.h).
inline constexpr char kKernelAttr[] = "_kernel";
inline constexpr char kListOfRowsOp[] = "TensorListFromTensor";
inline constexpr char kRowsLabel[] = "lms_rows";
inline constexpr char kReversedRowsLabel[] = "lms_rows_reversed";
// Rows that lie apart by a multiple of this are handed on where they lie: kernels ask for no more.
inline constexpr int64_t kRowAlignment = 64;

inline bool IsSwap(const std::string& op_type) { return op_type == kSwapOutOp || op_type == kSwapInOp; }

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_OWN_OPS_H_
