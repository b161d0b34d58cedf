// Which regions of a graph are planned: the one that made most of what is held at the peak, and those that are above
// the limit by themselves, besides.
//
// Linear in the imported graph, plus the time to read its loops (loops.h).

#ifndef LMS_CC_TF_IMPORT_REGION_CHOICE_H_
#define LMS_CC_TF_IMPORT_REGION_CHOICE_H_

#include <cstdint>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

// The region whose nodes made most of what is live at the peak, of those that can be planned; 0 where none made more
// than what runs in every step. `imported`: the graph with region 0 for the planned one.
int RegionOfThePeak(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported);

// `imported.regions`, and others that can be planned and made much of what is live at some op where memory is
// above the limit (in bytes, resident included): bodies of other loops, branches, what is around them. Where the limit
// is 0 (the least is asked for) "above" is what no more than a lower peak elsewhere would leave as the highest.
std::vector<int> RegionsAbove(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                              int64_t limit_bytes);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_REGION_CHOICE_H_
