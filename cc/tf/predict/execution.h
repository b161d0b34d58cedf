// What memory a graph takes when the executor runs it: a model of the executor, run several times, and of memory.
//
// With several inter-op threads no two runs are alike: the prediction is the highest of 16 to 32 of them. So it is over
// the outcomes of branches (outcomes.h): of those that exclude each other one runs at a time.
//
// Iterations of a loop without side effects run ahead where there is one thread (a recurrent layer's backward pass took
// 59 MB instead of 25), and hardly with more (25 to 34 MB): what is usual with several threads counts none of it. On
// other devices than the CPU threads make no difference (loop_overlap.h).

#ifndef LMS_CC_TF_PREDICT_EXECUTION_H_
#define LMS_CC_TF_PREDICT_EXECUTION_H_

#include <cstdint>
#include <optional>

#include "cc/core/base/deadline.h"
#include "cc/core/simulate/arena.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/places.h"
#include "cc/core/simulate/run_record.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace lms {

// Where a variable is, once a value has been assigned to it: in the memory of that value, as TensorFlow has it, or
// where it was (variable_assigns.h).
enum class Assigned { kMoves, kStays };

// Threads that run ops side by side under such a configuration.
int InterOpThreads(const tensorflow::ConfigProto& config);

// `index` and `imported` belong to the graph; the ops' costs are known. Falls back on the import's own order where the
// model does not get to the end of the graph. Throws TooMuch where the deadline passes. `arenas`: of the device, where
// what its allocator hands out counts (device_arena.h), with the draws as steps one after the other, in each of them.
// `record`, unless it is null, is the run whose profile is returned. `assigned` counts in arenas alone. `places`,
// unless it is null, gets places for what the step allocates, and the profile is with these, where there is less room
// in one piece without them than is wanted.
MemoryProfile PredictMemory(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                            int threads, const std::vector<ArenaSettings>& arenas = {},
                            const Deadline& deadline = Deadline(), RunRecord* record = nullptr,
                            Assigned assigned = Assigned::kMoves, Places* places = nullptr);

// The peak in bytes with all that iterations may hold, for those who must be sure: not below that of `usual`, which is
// what PredictMemory() gave.
int64_t PeakAtWorst(const tensorflow::GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                    int threads, const std::vector<ArenaSettings>& arenas, const MemoryProfile& usual,
                    const Deadline& deadline = Deadline(), Assigned assigned = Assigned::kMoves,
                    const Places* places = nullptr);

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_EXECUTION_H_
