// Element-wise ops that follow each other, in one pass over memory.
//
// TensorFlow runs a product, a sum and another sum as three kernels, each of which reads and writes whole tensors; with
// a factor for each channel they take many times as long as memory does. Such ops of a rewritten step become one node,
// LmsElementwise, where each reads what the one before it has made and nobody else does: copies that lms has added, one
// right after the other in the plan, and the step's own ops. The bits are the same (elementwise.h). Memory is not more:
// what the first ones make is not there at all. Of copies their inputs are read where they would have been read right
// before; an own op that joins the one behind it has one input that is as large as its result, and what the node holds
// longer of that it holds less of the result.
//
// This is done last, to the graph that was verified. The node waits for what each of its parts waited for, and only
// the last one had readers. Who waited for another of them, as the update of a variable does for what reads that, waits
// for the node. All this goes by one order in which the graph could run: the node has the place of its last part, and
// who waited for another part comes behind that. So the graph stays acyclic.

#ifndef LMS_CC_TF_REWRITE_FUSE_ELEMENTWISE_H_
#define LMS_CC_TF_REWRITE_FUSE_ELEMENTWISE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

// What is known of the step's own nodes, by name. Without, these stay as they are.
struct OwnNodes {
  std::function<int64_t(const std::string&)> result_bytes;       // of the first result
  std::function<bool(const tensorflow::NodeDef&)> may_be_slice;  // are its results parts of what it reads?
  std::function<double(const std::string&)> cost_us;
  std::unordered_set<std::string> kept;  // fetched, say
  // Do tensors have places, so that it matters whose memory lives on? Then a node takes an input's memory over only
  // where its parts by themselves would; else any that nobody else reads.
  bool as_parts = false;
};

struct Fused {
  int gone() const { return static_cast<int>(within.size()); }

  std::unordered_map<std::string, std::string>
      within;           // by the name of a node that is gone: the one that it is part of
  double saved_us = 0;  // by what prices go by: that results in between are neither written nor read
};

// On CPUs; a step's own nodes only where it has no loop. Linear in the graph.
Fused FuseElementwise(tensorflow::GraphDef* graph, const OwnNodes& own = {});

// Makes single nodes of them again, as they were: for whoever knows TensorFlow's ops and copies of them only. Who
// waited for another than the last one waits for the last one still.
void PartElementwise(tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_REWRITE_FUSE_ELEMENTWISE_H_
