// Swaps between a GPU and the host, split in two: what hands a copy over, and what lets the compute stream wait for it.
//
// The kernels can do without the host's waiting for a copy, if something says where the compute stream is to wait: as
// late as may be. For a swap-out that is right before a node that waits for it (its memory is to be free by then): such
// a node waits for a LmsSwapWait instead, which runs when all else is there that the node needs. For a swap-in it is
// right before a reader: LmsSwapIn becomes LmsSwapFetch, and each reader gets a LmsSwapFetched of its own, likewise. A
// view does not read; one with a single reader is as late as that.
//
// This is done last, to the graph that was verified: it changes neither what is computed nor in which order nodes run.
// Every edge that is added leads from what a node waits for anyway to what only it waits for, so the graph stays
// acyclic. JoinSwaps undoes it: what was split is checked by that, and read by whoever knows whole swaps only.

#ifndef LMS_CC_TF_REWRITE_SPLIT_SWAPS_H_
#define LMS_CC_TF_REWRITE_SPLIT_SWAPS_H_

#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// Changes the item's graph; after an error it is as it was.
absl::Status SplitSwaps(const Deadline& deadline, tensorflow::grappler::GrapplerItem* item);

// Makes the swaps whole again, those that are not split stay. Linear in the graph.
void JoinSwaps(tensorflow::GraphDef* graph);

// Is `split` the graph with its swaps split, and nothing else?
bool IsSplitOf(const tensorflow::GraphDef& split, const tensorflow::GraphDef& graph);

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_SPLIT_SWAPS_H_
