// Swaps between a GPU and the host whose copies nobody on the host waits for (split_swaps.h, stream_copy.h): such an op
// ends as soon as its copy has been handed over. What a swap-out reads is held until the first node begins that waits
// for it, or its first swap-in, however long the copy takes: so the same memory is free at the same place in each step.
//
// Here swaps are whole, as they are while plans are made and verified.

#ifndef LMS_CC_TF_GRAPH_HANDED_COPIES_H_
#define LMS_CC_TF_GRAPH_HANDED_COPIES_H_

#include <cstdint>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// Copies of at most so many bytes take hardly more than their latency: they have a queue of their own, beside that of
// their direction (stream_copy.h).
inline constexpr int64_t kSmallCopyBytes = 64 << 10;

// Has this version of TensorFlow streams for it?
bool CopiesCanBeHandedOver();

// Copies between a GPU and the host of more bytes come behind those that were handed over before them.
int64_t QueuedAbove();

// Of a LmsSwapOut or a LmsSwapIn. False in versions of TensorFlow that have no streams for it: the op ends with the
// copy there, as on a CPU or with a disk.
bool IsHandedOver(const tensorflow::GraphDef& graph, const GraphIndex& index, int swap);

// Of a LmsSwapOut of so many bytes: does its copy come behind others?
bool IsQueued(const tensorflow::NodeDef& swap_out, int64_t bytes);

// Do both run together, on one device? Nothing waits for a copy in another loop, branch or place.
bool InOnePlace(const tensorflow::GraphDef& graph, const GraphIndex& index, int a, int b);

// The swap-outs whose copies `node` waits for, by control edges. A swap-out that has such an edge from another one only
// comes behind it.
std::vector<int> CopiesWaitedFor(const tensorflow::GraphDef& graph, const GraphIndex& index, int node);

// The swap-outs that are done with their tensors when `node` begins: those, and that of a swap-in.
std::vector<int> CopiesHeldUntil(const tensorflow::GraphDef& graph, const GraphIndex& index, int node);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_HANDED_COPIES_H_
