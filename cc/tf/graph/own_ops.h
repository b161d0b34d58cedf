// The ops that lms adds to graphs, by name. What they do: swap_ops.h, size_record.h, change_marks.h,
// assign_in_place.h, places_op.h and elementwise_op.h.

#ifndef LMS_CC_TF_GRAPH_OWN_OPS_H_
#define LMS_CC_TF_GRAPH_OWN_OPS_H_

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

inline bool IsSwap(const std::string& op_type) { return op_type == kSwapOutOp || op_type == kSwapInOp; }

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_OWN_OPS_H_
