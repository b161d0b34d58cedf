// Graphs of hundreds of thousands of nodes, of the shapes that are hard on one part of the optimizer or another.
//
// Each is a valid graph of a step, with `nodes` nodes or somewhat fewer, all on one CPU. Tensors are small: only their
// number counts.

#ifndef LMS_TESTS_CC_HUGE_GRAPHS_H_
#define LMS_TESTS_CC_HUGE_GRAPHS_H_

#include <string>
#include <vector>

#include "tensorflow/core/grappler/grappler_item.h"

namespace lms::testing {

struct HugeGraph {
  const char* name;
  const char* what;
  tensorflow::grappler::GrapplerItem (*make)(int nodes);
};

const std::vector<HugeGraph>& HugeGraphs();

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_HUGE_GRAPHS_H_
