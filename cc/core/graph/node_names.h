// Names of the nodes that lms adds: the one place that makes and recognises them.
//
//   lms/recompute/<k>/<original>   the k-th recomputation (in plan order) of node <original>, or of a view on it
//   lms/loop/<k>/<original>        a copy of node <original>, of a loop, for the loop's gradient, or what such copies
//                                  need, of the size of what <original> makes
//   lms/swap_out/<k>/<original>    the k-th swap-out (likewise), of a tensor of node <original>
//   lms/swap_in/<k>/<original>     the k-th swap-in of one, or a copy of the view <original> on what it brings back
//   lms/places/<k>/<original>      tells whose places those of a step's tensors are, of which <original> is one
//   lms/strict/...                 nodes that fail a step on purpose (option strict)

#ifndef LMS_CC_CORE_GRAPH_NODE_NAMES_H_
#define LMS_CC_CORE_GRAPH_NODE_NAMES_H_

#include <cstdint>
#include <string>

namespace lms {

std::string RecomputeName(int index, const std::string& original);
std::string LoopName(int index, const std::string& original);
std::string SwapOutName(int index, const std::string& original);
std::string SwapInName(int index, const std::string& original);
std::string PlacesName(int64_t number, const std::string& original);
std::string StrictName(const std::string& part);

// Was the node added by lms?
bool IsOwnName(const std::string& name);
// For the gradient of a loop (lms/loop)?
bool IsLoopName(const std::string& name);
// The number in such a name; -1 where that is none.
int LoopNumber(const std::string& name);
// That of a recomputation, likewise.
int RecomputeNumber(const std::string& name);

// The node that a recomputation copies, or whose tensor a swap moves; the name itself where it is none of these.
std::string OriginalName(const std::string& name);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_NODE_NAMES_H_
