// What the step is. Its nodes, the sizes of their tensors, its buffers, and what its ops take.

#ifndef LMS_CC_TF_PASS_READ_STAGE_H_
#define LMS_CC_TF_PASS_READ_STAGE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/simulate/arena.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/hints.h"
#include "cc/tf/import/import.h"
#include "cc/tf/pass/device_context.h"

namespace lms {

struct ReadStep {
  absl::Status status;  // else nothing but `sizes` is of use
  GraphIndex index;
  ImportedGraph imported;             // without costs, until PriceOps()
  std::vector<ArenaSettings> arenas;  // of the device (device_arena.h); of a CPU none where bytes are what counts
  bool may_place = false;             // may tensors be given places in these, where a plan needs that?
  HintMarks marks;
  std::vector<std::string> sizes;  // of dimensions that the function leaves unknown, in words
  std::string hidden;              // words on what no figure includes; "": nothing
  std::vector<std::string> warnings;
};

// Stages "index", "sizes", "shapes" and "import". Throws TooMuch where the deadline passes, as all stages do.
ReadStep ReadGraph(const DeviceContext& context);

// The memory of `device` as it may be before the step. Does the limit of the CPU's pool count (`pool_counts`), all that
// it leaves is taken as one region first, where the system has room for that. Where chunks count, no more than what is
// asked for is handed out from now on.
std::vector<ArenaSettings> ReadArenas(const DeviceContext& context, const std::string& device, bool pool_counts);

struct Prices {
  std::string profile;        // the file that they came from; "": estimates alone
  double profiled_share = 0;  // of the step's time: ops that the profile has measured
  std::vector<std::string> warnings;
};

// Stage "costs": gives the ops theirs.
Prices PriceOps(const DeviceContext& context, ImportedGraph* imported);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_READ_STAGE_H_
