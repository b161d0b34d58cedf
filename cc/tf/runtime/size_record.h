// Tensors whose sizes only the run decides, and loops of which it decides how often they go round, looked at as steps
// make them.
//
// An op of our own, LmsSizeRecord, reads the results of one node and does nothing but note their shapes, under the name
// of the function; the next call of it is planned with them (cc/core/options/recorded_sizes.h). Who else reads these
// results waits for the op, by control edges, so that nobody finds them in one more pair of hands: whether a kernel may
// write into its input does not change. It also tells the memory counter which blocks a step takes from its iterators
// (cc/core/system/step_peak.h). Of a loop the op reads what its counter ends with.
//
// On CPUs and GPUs, where only the shapes are looked at and no byte, but for a counter, which is the host's. Cost: less
// than a microsecond a step for each node. Thread-safety: all functions.

#ifndef LMS_CC_TF_RUNTIME_SIZE_RECORD_H_
#define LMS_CC_TF_RUNTIME_SIZE_RECORD_H_

#include <string>
#include <vector>

#include "cc/core/report/report.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace lms {

// Registers the op and its kernel, once. False where they are there already. Called when the library is loaded.
bool RegisterSizeRecord() noexcept;

// Adds an op behind each of these nodes and loops that is on a CPU or a GPU; names that are none of the graph's are
// left out. `elements`: also behind what takes elements from iterators, though their sizes are known. Returns whether
// there was one. Linear in the graph.
bool AddSizeRecords(const std::string& function, const std::vector<OpenSize>& open, const std::vector<OpenLoop>& loops,
                    bool elements, tensorflow::GraphDef* graph);

// What has been seen of the function, as the option "_recorded" takes it; "" nothing.
std::string RecordedSizesOf(const std::string& function);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SIZE_RECORD_H_
