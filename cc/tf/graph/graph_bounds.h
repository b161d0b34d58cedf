// How large a graph may be: what reading and planning it takes is foretold from its size, and bounded.
//
// Parts of TensorFlow that are asked about a graph (shape inference, estimates of costs) cannot be interrupted. What
// they take grows with the nodes, so graphs for which it would be too much are declined before, whatever the machine.

#ifndef LMS_CC_TF_GRAPH_GRAPH_BOUNDS_H_
#define LMS_CC_TF_GRAPH_GRAPH_BOUNDS_H_

#include <cstdint>
#include <string>

#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// How many times as long a sanitizer makes it all take, at most.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kSanitizerSlowdown = 10;
#else
inline constexpr double kSanitizerSlowdown = 1;
#endif

// What the optimizer may take for one graph. 10 s of the processor and 1 GiB beside the graph itself; with a
// planner_seconds of more than 1, so many times as much.
struct GraphBounds {
  explicit GraphBounds(double planner_seconds);

  double seconds;
  int64_t bytes;

  // Of that, when stages are to give up: what is built by then takes its time to be freed.
  double DeadlineSeconds() const { return 0.85 * seconds * kSanitizerSlowdown; }
};

// Work (work_meter.h) that planning may take for a step, all that is planned again included: about a second of a
// processor of 2.3 GHz for planner_seconds of 1.
int64_t WorkForStep(double planner_seconds);
// How often the graph may be rewritten and read afresh, which takes as long as reading it did: `most` times, and less
// often if it is large, but three times in any case (the last time for a lower limit).
int MostRewrites(const tensorflow::grappler::GrapplerItem& item, double planner_seconds, int most);

enum class GraphWork { kRead, kPlan };  // kPlan: all that reading takes included

// Why so much work on the graph would be above the bounds; "" where it is not. O(nodes).
std::string WhyTooLarge(const tensorflow::grappler::GrapplerItem& item, GraphWork work, const GraphBounds& bounds);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_GRAPH_BOUNDS_H_
