// The last word before a rewritten graph is handed out: is it sound, and does it stay under the budget?
//
// Nothing of the planner's or the rewriter's own account is trusted: the output graph is indexed, imported and
// simulated afresh.

#ifndef LMS_CC_TF_VERIFY_VERIFY_H_
#define LMS_CC_TF_VERIFY_VERIFY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "cc/core/graph/swap_link.h"
#include "cc/core/simulate/arena.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/run_record.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// What the memory of a rewritten graph was predicted with.
struct VerifiedRun {
  bool iterations_apart = true;  // set by the caller: edges keep them so, save where the bits depend on their overlap
  bool may_place = false;        // set by the caller: tensors can be given places in the device's memory
  ImportedGraph imported;        // the new graph
  RunRecord record;              // of the run with that profile
  Places places;                 // that the profile is with; none: there is room without
  int64_t worst_bytes = 0;  // peak, or more where iterations run ahead of one another and nothing keeps them from it
};

// `rewritten` is the item with the new graph, `original` with the one that came in, which `original_index` is of. An
// error says what is unsound: an original node is missing, moved or changed in more than its inputs; a node reads
// another value than the node that it is or copies read before, or no longer waits for what it waited for; a result was
// rerouted; a node runs in another loop or branch than before, or than the node that it copies, or what decides about
// them has other inputs; an added node never runs, may still run when the next iteration begins, or may read a variable
// after it has changed; what is swapped out is not the tensor that it is said to be, or may be changed meanwhile; what
// is swapped in is not what was swapped out of that tensor; a device runs its collective operations in another order;
// there is a cycle. *profile is the new graph's memory over
// time on so many inter-op threads, which takes the costs that `sizes` knows, and for transfers what `link` takes.
// Throws TooMuch where the deadline passes. `run`, unless it is null, is what was predicted with. `arenas`: of the
// device (execution.h); assignments leave variables where they are in them.
absl::Status VerifyRewrite(const tensorflow::grappler::GrapplerItem& original, const GraphIndex& original_index,
                           const tensorflow::grappler::GrapplerItem& rewritten, const TensorSizes& sizes, int threads,
                           const SwapLink& link, MemoryProfile* profile, const Deadline& deadline = Deadline(),
                           const std::string& device = "", VerifiedRun* run = nullptr,
                           const std::vector<ArenaSettings>& arenas = {});

}  // namespace lms

#endif  // LMS_CC_TF_VERIFY_VERIFY_H_
