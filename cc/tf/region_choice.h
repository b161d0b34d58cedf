// Which region of a graph is planned: the one that made most of what is held at the peak.
//
// Linear in the imported graph, plus the time to read its loops (loops.h).

#ifndef LMS_CC_TF_REGION_CHOICE_H_
#define LMS_CC_TF_REGION_CHOICE_H_

#include "cc/tf/graph_index.h"
#include "cc/tf/import.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// The region whose nodes made most of what is live at the peak, of those that can be planned; 0 where none made more
// than what runs in every step. `imported`: the graph with region 0 for the planned one.
int RegionOfThePeak(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported);

}  // namespace lms

#endif  // LMS_CC_TF_REGION_CHOICE_H_
