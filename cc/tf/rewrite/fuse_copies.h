// Element-wise recomputations that follow each other, in one pass over memory.
//
// TensorFlow runs a product, a sum and another sum as three kernels, each of which reads and writes whole tensors; with
// a factor for each channel they take many times as long as memory does. Copies of such ops that lms has added become
// one node, LmsElementwise, where each reads what the one before it in the plan has made and nobody else does. The bits
// are the same (elementwise.h). Memory is not more: what the first ones make is not there at all, and their inputs are
// read where they would have been read right before.
//
// This is done last, to the graph that was verified. The node waits for what each of its copies waited for, and only
// the last one had readers. Who waited for another of them, as the update of a variable does for what reads that, waits
// for the node; no copy depends on such a one. So the graph stays acyclic.

#ifndef LMS_CC_TF_REWRITE_FUSE_COPIES_H_
#define LMS_CC_TF_REWRITE_FUSE_COPIES_H_

#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// On CPUs. Returns how many nodes have gone. Linear in the graph.
int FuseCopies(tensorflow::GraphDef* graph);

// Makes single nodes of them again, as they were: for whoever knows copies only. Who waited for another than the last
// one waits for the last one still.
void PartCopies(tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_FUSE_COPIES_H_
